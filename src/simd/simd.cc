// Below AVX2 Highway's multiply-add is rounded twice. Its targets there are left out, and the
// baseline that it insists on is the scalar form: right, but so slow that check_cpu() refuses.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd.cc"
#include "cohort/simd/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "contract.h"

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#include "vec16-inl.h"
#else
#include "scalar_vec.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace cohort::simd::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
using V = Vec16;
#else
using V = ScalarVec;
#endif

void add_sums_of_squares_f32(Tile<const float> x, Tile<float> sums) {
  kernels::add_sums_of_squares<V>(x, sums);
}
void add_sums_of_squares_bf16(Tile<const BFloat16> x, Tile<float> sums) {
  kernels::add_sums_of_squares<V>(x, sums);
}
void accumulate_products_f32(Tile<const float> x, Tile<const float> w, Tile<float> partials) {
  kernels::accumulate_products<V>(x, w, partials);
}
void accumulate_products_bf16(Tile<const BFloat16> x, Tile<const float> w, Tile<float> partials) {
  kernels::accumulate_products<V>(x, w, partials);
}
void reduce_products(Tile<const float> partials, Tile<float> out) {
  kernels::reduce_products<V>(partials, out);
}
void add4(Tile<const float> a, Tile<const float> b, Tile<const float> c, Tile<const float> d,
          Tile<float> out) {
  kernels::add4<V>(a, b, c, d, out);
}
void split_gates(Tile<const float> mixes, Tile<const float> inv, Tile<const float> base,
                 float scale0, float scale1, float eps, Tile<float> pre, Tile<float> post) {
  kernels::split_gates<V>(mixes, inv, base, scale0, scale1, eps, pre, post);
}
void mix4_f32(Tile<const float> pre, Tile<const float> x0, Tile<const float> x1,
              Tile<const float> x2, Tile<const float> x3, Tile<BFloat16> y) {
  kernels::mix4<V>(pre, x0, x1, x2, x3, y);
}
void mix4_bf16(Tile<const float> pre, Tile<const BFloat16> x0, Tile<const BFloat16> x1,
               Tile<const BFloat16> x2, Tile<const BFloat16> x3, Tile<BFloat16> y) {
  kernels::mix4<V>(pre, x0, x1, x2, x3, y);
}
void scale_by_gamma(Tile<const BFloat16> x, Tile<const BFloat16> gamma, float floor, Tile<float> xg,
                    Tile<float> sums, Tile<float> amax) {
  kernels::scale_by_gamma<V>(x, gamma, floor, xg, sums, amax);
}
void quantize(Tile<const float> x, Tile<const float> scale, Tile<std::int8_t> q) {
  kernels::quantize<V>(x, scale, q);
}
void sinkhorn(Tile<const float> mixes, Tile<const float> inv, Tile<const float> base, float scale,
              float eps, std::int64_t iterations, Tile<float> comb) {
  kernels::sinkhorn<V>(mixes, inv, base, scale, eps, iterations, comb);
}
void router_scores(Tile<const float> raw, Tile<const float> inv, Tile<const float> bias,
                   Tile<float> scores, Tile<float> biased) {
  kernels::router_scores<V>(raw, inv, bias, scores, biased);
}
void post_mix_f32(Tile<const BFloat16> x, const std::array<Tile<const float>, 4>& residual,
                  Tile<const float> gates, Tile<float> y) {
  kernels::post_mix<V>(x, residual, gates, y);
}
void post_mix_bf16(Tile<const BFloat16> x, const std::array<Tile<const BFloat16>, 4>& residual,
                   Tile<const float> gates, Tile<BFloat16> y) {
  kernels::post_mix<V>(x, residual, gates, y);
}
void exp(Tile<const float> x, Tile<float> y) {
  kernels::map_rows<V>(x, y, [](const V& v) { return V::exp(v); });
}
void log1p(Tile<const float> x, Tile<float> y) {
  kernels::map_rows<V>(x, y, [](const V& v) { return V::log1p(v); });
}
void to_bfloat16(Tile<const float> x, Tile<BFloat16> y) { kernels::to_bfloat16<V>(x, y); }

}  // namespace cohort::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cohort::simd {
namespace {

HWY_EXPORT(add_sums_of_squares_f32);
HWY_EXPORT(add_sums_of_squares_bf16);
HWY_EXPORT(accumulate_products_f32);
HWY_EXPORT(accumulate_products_bf16);
HWY_EXPORT(reduce_products);
HWY_EXPORT(add4);
HWY_EXPORT(split_gates);
HWY_EXPORT(mix4_f32);
HWY_EXPORT(mix4_bf16);
HWY_EXPORT(scale_by_gamma);
HWY_EXPORT(quantize);
HWY_EXPORT(sinkhorn);
HWY_EXPORT(router_scores);
HWY_EXPORT(post_mix_f32);
HWY_EXPORT(post_mix_bf16);
HWY_EXPORT(exp);
HWY_EXPORT(log1p);
HWY_EXPORT(to_bfloat16);

template <class S>
void check_mix4(const Tile<const float>& pre, const Tile<const S>& x0, const Tile<const S>& x1,
                const Tile<const S>& x2, const Tile<const S>& x3, const Tile<BFloat16>& y) {
  require_multiple("mix4: y", y.cols, kPartials);
  require_columns("mix4: pre", pre, y.rows, 4);
  require_shape("mix4: x0", x0, y.rows, y.cols);
  require_shape("mix4: x1", x1, y.rows, y.cols);
  require_shape("mix4: x2", x2, y.rows, y.cols);
  require_shape("mix4: x3", x3, y.rows, y.cols);
}

template <class S>
void check_post_mix(const Tile<const BFloat16>& x, const std::array<Tile<const S>, 4>& residual,
                    const Tile<const float>& gates, const Tile<S>& y) {
  require_multiple("post_mix: y", y.cols, kPartials);
  require_shape("post_mix: x", x, y.rows, y.cols);
  require_shape("post_mix: gates", gates, y.rows, 5);
  for (const Tile<const S>& stream : residual) {
    require_shape("post_mix: residual", stream, y.rows, y.cols);
  }
}

template <class S>
void check_products(const Tile<const S>& x, const Tile<const float>& w,
                    const Tile<float>& partials) {
  require_multiple("accumulate_products: x", x.cols, kPartials);
  require_shape("accumulate_products: w", w, w.rows, x.cols);
  require_shape("accumulate_products: partials", partials, x.rows, kPartials * w.rows);
}

template <class S>
void check_sums(const Tile<const S>& x, const Tile<float>& sums) {
  require_multiple("add_sums_of_squares: x", x.cols, kPartials);
  require_shape("add_sums_of_squares: sums", sums, x.rows, 1);
}

template <class T>
void check_map(const char* input, const char* output, const Tile<const float>& x,
               const Tile<T>& y) {
  require_multiple(input, x.cols, kPartials);
  require_shape(output, y, x.rows, x.cols);
}

}  // namespace

Status check_cpu() {
  if ((hwy::SupportedTargets() & (HWY_AVX2 | HWY_AVX3)) != 0) return {};
  return fail(ErrorCode::kNotFound,
              "this CPU has no AVX2 with FMA, which Cohort's arithmetic needs: below it a fused "
              "multiply-add takes a call to the mathematics library");
}

const char* target_name() {
  const std::int64_t targets = hwy::SupportedTargets();
  if ((targets & HWY_AVX3) != 0) return hwy::TargetName(HWY_AVX3);
  if ((targets & HWY_AVX2) != 0) return hwy::TargetName(HWY_AVX2);
  return "scalar";
}

void add_sums_of_squares(Tile<const float> x, Tile<float> sums) {
  check_sums(x, sums);
  HWY_DYNAMIC_DISPATCH(add_sums_of_squares_f32)(x, sums);
}
void add_sums_of_squares(Tile<const BFloat16> x, Tile<float> sums) {
  check_sums(x, sums);
  HWY_DYNAMIC_DISPATCH(add_sums_of_squares_bf16)(x, sums);
}
void accumulate_products(Tile<const float> x, Tile<const float> w, Tile<float> partials) {
  check_products(x, w, partials);
  HWY_DYNAMIC_DISPATCH(accumulate_products_f32)(x, w, partials);
}
void accumulate_products(Tile<const BFloat16> x, Tile<const float> w, Tile<float> partials) {
  check_products(x, w, partials);
  HWY_DYNAMIC_DISPATCH(accumulate_products_bf16)(x, w, partials);
}
void reduce_products(Tile<const float> partials, Tile<float> out) {
  require_shape("reduce_products: partials", partials, out.rows, kPartials * out.cols);
  HWY_DYNAMIC_DISPATCH(reduce_products)(partials, out);
}
void add4(Tile<const float> a, Tile<const float> b, Tile<const float> c, Tile<const float> d,
          Tile<float> out) {
  require_multiple("add4: out", out.cols, kPartials);
  require_shape("add4: a", a, out.rows, out.cols);
  require_shape("add4: b", b, out.rows, out.cols);
  require_shape("add4: c", c, out.rows, out.cols);
  require_shape("add4: d", d, out.rows, out.cols);
  HWY_DYNAMIC_DISPATCH(add4)(a, b, c, d, out);
}
void split_gates(Tile<const float> mixes, Tile<const float> inv, Tile<const float> base,
                 float scale0, float scale1, float eps, Tile<float> pre, Tile<float> post) {
  require_columns("split_gates: mixes", mixes, post.rows, kPartials);
  require_shape("split_gates: inv", inv, post.rows, 1);
  require_columns("split_gates: base", base, 1, kPartials);
  require_shape("split_gates: pre", pre, post.rows, 8);
  require_shape("split_gates: post", post, post.rows, 4);
  HWY_DYNAMIC_DISPATCH(split_gates)(mixes, inv, base, scale0, scale1, eps, pre, post);
}
void mix4(Tile<const float> pre, Tile<const float> x0, Tile<const float> x1, Tile<const float> x2,
          Tile<const float> x3, Tile<BFloat16> y) {
  check_mix4(pre, x0, x1, x2, x3, y);
  HWY_DYNAMIC_DISPATCH(mix4_f32)(pre, x0, x1, x2, x3, y);
}
void mix4(Tile<const float> pre, Tile<const BFloat16> x0, Tile<const BFloat16> x1,
          Tile<const BFloat16> x2, Tile<const BFloat16> x3, Tile<BFloat16> y) {
  check_mix4(pre, x0, x1, x2, x3, y);
  HWY_DYNAMIC_DISPATCH(mix4_bf16)(pre, x0, x1, x2, x3, y);
}
void scale_by_gamma(Tile<const BFloat16> x, Tile<const BFloat16> gamma, float floor, Tile<float> xg,
                    Tile<float> sums, Tile<float> amax) {
  require_multiple("scale_by_gamma: x", x.cols, 8 * kPartials);
  require_shape("scale_by_gamma: gamma", gamma, 1, x.cols);
  require_shape("scale_by_gamma: xg", xg, x.rows, x.cols);
  require_shape("scale_by_gamma: sums", sums, x.rows, 1);
  require_shape("scale_by_gamma: amax", amax, x.rows, 1);
  HWY_DYNAMIC_DISPATCH(scale_by_gamma)(x, gamma, floor, xg, sums, amax);
}
void quantize(Tile<const float> x, Tile<const float> scale, Tile<std::int8_t> q) {
  require_multiple("quantize: x", x.cols, kPartials);
  require_shape("quantize: scale", scale, x.rows, 1);
  require_shape("quantize: q", q, x.rows, x.cols);
  HWY_DYNAMIC_DISPATCH(quantize)(x, scale, q);
}
void sinkhorn(Tile<const float> mixes, Tile<const float> inv, Tile<const float> base, float scale,
              float eps, std::int64_t iterations, Tile<float> comb) {
  COHORT_CHECK(comb.rows <= kPartials,
               "sinkhorn: comb has " + std::to_string(comb.rows) + " rows, expected at most 16");
  require_columns("sinkhorn: mixes", mixes, comb.rows, 24);
  require_shape("sinkhorn: inv", inv, comb.rows, 1);
  require_columns("sinkhorn: base", base, 1, 24);
  require_shape("sinkhorn: comb", comb, comb.rows, 16);
  HWY_DYNAMIC_DISPATCH(sinkhorn)(mixes, inv, base, scale, eps, iterations, comb);
}
void router_scores(Tile<const float> raw, Tile<const float> inv, Tile<const float> bias,
                   Tile<float> scores, Tile<float> biased) {
  require_multiple("router_scores: raw", raw.cols, kPartials);
  require_shape("router_scores: inv", inv, raw.rows, 1);
  require_shape("router_scores: scores", scores, raw.rows, raw.cols);
  if (biased.data != nullptr) {
    require_shape("router_scores: bias", bias, 1, raw.cols);
    require_shape("router_scores: biased", biased, raw.rows, raw.cols);
  }
  HWY_DYNAMIC_DISPATCH(router_scores)(raw, inv, bias, scores, biased);
}
void post_mix(Tile<const BFloat16> x, const std::array<Tile<const float>, 4>& residual,
              Tile<const float> gates, Tile<float> y) {
  check_post_mix(x, residual, gates, y);
  HWY_DYNAMIC_DISPATCH(post_mix_f32)(x, residual, gates, y);
}
void post_mix(Tile<const BFloat16> x, const std::array<Tile<const BFloat16>, 4>& residual,
              Tile<const float> gates, Tile<BFloat16> y) {
  check_post_mix(x, residual, gates, y);
  HWY_DYNAMIC_DISPATCH(post_mix_bf16)(x, residual, gates, y);
}
void exp(Tile<const float> x, Tile<float> y) {
  check_map("exp: x", "exp: y", x, y);
  HWY_DYNAMIC_DISPATCH(exp)(x, y);
}
void log1p(Tile<const float> x, Tile<float> y) {
  check_map("log1p: x", "log1p: y", x, y);
  HWY_DYNAMIC_DISPATCH(log1p)(x, y);
}
void to_bfloat16(Tile<const float> x, Tile<BFloat16> y) {
  check_map("to_bfloat16: x", "to_bfloat16: y", x, y);
  HWY_DYNAMIC_DISPATCH(to_bfloat16)(x, y);
}

}  // namespace cohort::simd
#endif  // HWY_ONCE
