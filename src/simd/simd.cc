// Below AVX2, multiply-add is rounded twice: the targets between are never used and not compiled.
// The baseline is, because Highway needs one; check_cpu() keeps it from being reached.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd.cc"
#include "cohort/simd/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "vec16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cohort::simd::HWY_NAMESPACE {

using V = Vec16;

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

void check_columns(std::int64_t cols, std::int64_t multiple = kPartials) {
  COHORT_DCHECK(cols % multiple == 0, "a tile of " + std::to_string(cols) +
                                          " columns where a multiple of " +
                                          std::to_string(multiple) + " is needed");
  (void)cols;
  (void)multiple;
}

}  // namespace

Status check_cpu() {
  if ((hwy::SupportedTargets() & (HWY_AVX2 | HWY_AVX3)) != 0) return {};
  return fail(ErrorCode::kNotFound,
              "this CPU has no AVX2 with FMA, which Cohort's arithmetic needs: below it a fused "
              "multiply-add is rounded twice");
}

const char* target_name() {
  const std::int64_t targets = hwy::SupportedTargets();
  return hwy::TargetName((targets & HWY_AVX3) != 0 ? HWY_AVX3 : HWY_AVX2);
}

void add_sums_of_squares(Tile<const float> x, Tile<float> sums) {
  check_columns(x.cols);
  HWY_DYNAMIC_DISPATCH(add_sums_of_squares_f32)(x, sums);
}
void add_sums_of_squares(Tile<const BFloat16> x, Tile<float> sums) {
  check_columns(x.cols);
  HWY_DYNAMIC_DISPATCH(add_sums_of_squares_bf16)(x, sums);
}
void accumulate_products(Tile<const float> x, Tile<const float> w, Tile<float> partials) {
  check_columns(x.cols);
  HWY_DYNAMIC_DISPATCH(accumulate_products_f32)(x, w, partials);
}
void accumulate_products(Tile<const BFloat16> x, Tile<const float> w, Tile<float> partials) {
  check_columns(x.cols);
  HWY_DYNAMIC_DISPATCH(accumulate_products_bf16)(x, w, partials);
}
void reduce_products(Tile<const float> partials, Tile<float> out) {
  HWY_DYNAMIC_DISPATCH(reduce_products)(partials, out);
}
void add4(Tile<const float> a, Tile<const float> b, Tile<const float> c, Tile<const float> d,
          Tile<float> out) {
  check_columns(out.cols);
  HWY_DYNAMIC_DISPATCH(add4)(a, b, c, d, out);
}
void split_gates(Tile<const float> mixes, Tile<const float> inv, Tile<const float> base,
                 float scale0, float scale1, float eps, Tile<float> pre, Tile<float> post) {
  HWY_DYNAMIC_DISPATCH(split_gates)(mixes, inv, base, scale0, scale1, eps, pre, post);
}
void mix4(Tile<const float> pre, Tile<const float> x0, Tile<const float> x1, Tile<const float> x2,
          Tile<const float> x3, Tile<BFloat16> y) {
  check_columns(y.cols);
  HWY_DYNAMIC_DISPATCH(mix4_f32)(pre, x0, x1, x2, x3, y);
}
void mix4(Tile<const float> pre, Tile<const BFloat16> x0, Tile<const BFloat16> x1,
          Tile<const BFloat16> x2, Tile<const BFloat16> x3, Tile<BFloat16> y) {
  check_columns(y.cols);
  HWY_DYNAMIC_DISPATCH(mix4_bf16)(pre, x0, x1, x2, x3, y);
}
void scale_by_gamma(Tile<const BFloat16> x, Tile<const BFloat16> gamma, float floor, Tile<float> xg,
                    Tile<float> sums, Tile<float> amax) {
  check_columns(x.cols, 8 * kPartials);
  HWY_DYNAMIC_DISPATCH(scale_by_gamma)(x, gamma, floor, xg, sums, amax);
}
void quantize(Tile<const float> x, Tile<const float> scale, Tile<std::int8_t> q) {
  check_columns(x.cols);
  HWY_DYNAMIC_DISPATCH(quantize)(x, scale, q);
}
void sinkhorn(Tile<const float> mixes, Tile<const float> inv, Tile<const float> base, float scale,
              float eps, std::int64_t iterations, Tile<float> comb) {
  COHORT_DCHECK(mixes.rows <= kPartials, "sinkhorn takes at most 16 tokens");
  HWY_DYNAMIC_DISPATCH(sinkhorn)(mixes, inv, base, scale, eps, iterations, comb);
}
void router_scores(Tile<const float> raw, Tile<const float> inv, Tile<const float> bias,
                   Tile<float> scores, Tile<float> biased) {
  check_columns(raw.cols);
  HWY_DYNAMIC_DISPATCH(router_scores)(raw, inv, bias, scores, biased);
}
void post_mix(Tile<const BFloat16> x, const std::array<Tile<const float>, 4>& residual,
              Tile<const float> gates, Tile<float> y) {
  check_columns(y.cols);
  HWY_DYNAMIC_DISPATCH(post_mix_f32)(x, residual, gates, y);
}
void post_mix(Tile<const BFloat16> x, const std::array<Tile<const BFloat16>, 4>& residual,
              Tile<const float> gates, Tile<BFloat16> y) {
  check_columns(y.cols);
  HWY_DYNAMIC_DISPATCH(post_mix_bf16)(x, residual, gates, y);
}
void exp(Tile<const float> x, Tile<float> y) { HWY_DYNAMIC_DISPATCH(exp)(x, y); }
void log1p(Tile<const float> x, Tile<float> y) { HWY_DYNAMIC_DISPATCH(log1p)(x, y); }
void to_bfloat16(Tile<const float> x, Tile<BFloat16> y) { HWY_DYNAMIC_DISPATCH(to_bfloat16)(x, y); }

}  // namespace cohort::simd
#endif  // HWY_ONCE
