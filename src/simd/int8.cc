// As in simd.cc: AVX-512, AVX2 and the scalar baseline.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "int8.cc"
#include "cohort/simd/int8.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cohort/simd/simd.h"

#include "contract.h"

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#include "vec16-inl.h"
#else
#include "scalar_vec.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace cohort::simd::HWY_NAMESPACE {

using kernels::kWidth;

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
using V = Vec16;

// R rows of x by N rows of w, with R * N vectors of sums in registers. Pairs of products of int8
// fit an int32 with room to spare, so the multiplication of int16 pairs is exact.
template <int R, int N>
HWY_NOINLINE void product_block(Tile<const std::int8_t> x, Tile<const std::int8_t> w,
                                Tile<std::int32_t> sums) {
  const hn::CappedTag<std::int32_t, 16> d32;
  const hn::Repartition<std::int16_t, decltype(d32)> d16;
  const hn::Rebind<std::int8_t, decltype(d16)> d8;
  constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(d16));
  hn::Vec<decltype(d32)> sum[R * N];
  kernels::unroll<R * N>([&](auto i) COHORT_INLINE_LAMBDA { sum[i] = hn::Zero(d32); });
  for (std::int64_t k = 0; k < x.cols; k += kLanes) {
    hn::Vec<decltype(d16)> weight[N];
    kernels::unroll<N>([&](auto n) COHORT_INLINE_LAMBDA {
      weight[n] = hn::PromoteTo(d16, hn::LoadU(d8, w.data + n * w.pitch + k));
    });
    kernels::unroll<R>([&](auto r) COHORT_INLINE_LAMBDA {
      const auto factor = hn::PromoteTo(d16, hn::LoadU(d8, x.data + r * x.pitch + k));
      kernels::unroll<N>([&](auto n) COHORT_INLINE_LAMBDA {
        auto unused = hn::Zero(d32);
        sum[r * N + n] =
            hn::ReorderWidenMulAccumulate(d32, factor, weight[n], sum[r * N + n], unused);
      });
    });
  }
  kernels::unroll<R * N>([&](auto i) COHORT_INLINE_LAMBDA {
    sums.data[(i / N) * sums.pitch + i % N] += hn::GetLane(hn::SumOfLanes(d32, sum[i]));
  });
}

template <int R>
void product_rows(Tile<const std::int8_t> x, Tile<const std::int8_t> w, Tile<std::int32_t> sums) {
  constexpr int kColumns = 2;
  std::int64_t n = 0;
  for (; n + kColumns <= w.rows; n += kColumns) {
    product_block<R, kColumns>(x, kernels::part_of(w, n, 0), kernels::part_of(sums, 0, n));
  }
  for (; n < w.rows; ++n) {
    product_block<R, 1>(x, kernels::part_of(w, n, 0), kernels::part_of(sums, 0, n));
  }
}

void accumulate_int8_products(Tile<const std::int8_t> x, Tile<const std::int8_t> w,
                              Tile<std::int32_t> sums) {
  constexpr int kRows = 4;
  std::int64_t r = 0;
  for (; r + kRows <= x.rows; r += kRows) {
    product_rows<kRows>(kernels::part_of(x, r, 0), w, kernels::part_of(sums, r, 0));
  }
  for (; r < x.rows; ++r) {
    product_rows<1>(kernels::part_of(x, r, 0), w, kernels::part_of(sums, r, 0));
  }
}
#else
using V = ScalarVec;

void accumulate_int8_products(Tile<const std::int8_t> x, Tile<const std::int8_t> w,
                              Tile<std::int32_t> sums) {
  for (std::int64_t r = 0; r < x.rows; ++r) {
    for (std::int64_t n = 0; n < w.rows; ++n) {
      std::int32_t sum = 0;
      for (std::int64_t k = 0; k < x.cols; ++k) sum += x(r, k) * w(n, k);
      sums(r, n) += sum;
    }
  }
}
#endif

// Sixteen integers as the nearest floats, ties to even.
HWY_INLINE V to_floats(const std::int32_t* p) {
  std::array<float, kWidth> values;
  for (std::size_t i = 0; i < kWidth; ++i) values[i] = static_cast<float>(p[i]);
  return V::load(values.data());
}

void swiglu(Tile<const std::int32_t> gate, Tile<const std::int32_t> up, Tile<const float> row_scale,
            Tile<const float> gate_scale, Tile<const float> up_scale, float limit, Tile<float> h) {
  const V most = V::set(limit);
  const V least = V::set(-limit);
  for (std::int64_t r = 0; r < h.rows; ++r) {
    const V scale = V::set(row_scale.data[r * row_scale.pitch]);
    for (std::int64_t c = 0; c < h.cols; c += kWidth) {
      V g = (to_floats(gate.data + r * gate.pitch + c) * scale) * V::load(gate_scale.data + c);
      V u = (to_floats(up.data + r * up.pitch + c) * scale) * V::load(up_scale.data + c);
      if (limit > 0) {
        g = V::min(g, most);
        u = V::max(V::min(u, most), least);
      }
      ((g * kernels::sigmoid(g)) * u).store(h.data + r * h.pitch + c);
    }
  }
}

void row_scales(Tile<const float> x, float floor, Tile<float> to_int8, Tile<float> from_int8) {
  for (std::int64_t r = 0; r < x.rows; ++r) {
    V amax = V::set(floor);
    for (std::int64_t c = 0; c < x.cols; c += kWidth) {
      amax = V::max(amax, V::abs(V::load(x.data + r * x.pitch + c)));
    }
    const float scale = 127.0f / kernels::tree_max(amax);
    to_int8.data[r * to_int8.pitch] = scale;
    from_int8.data[r * from_int8.pitch] = 1.0f / scale;
  }
}

void dequantize(Tile<const std::int32_t> sums, Tile<const float> row_scale,
                Tile<const float> col_scale, Tile<BFloat16> y) {
  for (std::int64_t r = 0; r < y.rows; ++r) {
    const V scale = V::set(row_scale.data[r * row_scale.pitch]);
    for (std::int64_t c = 0; c < y.cols; c += kWidth) {
      const V value = to_floats(sums.data + r * sums.pitch + c) * scale;
      (value * V::load(col_scale.data + c)).store(y.data + r * y.pitch + c);
    }
  }
}

void add_rows(Tile<const BFloat16> first, Tile<const BFloat16> rows, Tile<BFloat16> y) {
  for (std::int64_t c = 0; c < y.cols; c += kWidth) {
    V sum = V::load(first.data + c);
    for (std::int64_t r = 0; r < rows.rows; ++r) {
      sum = sum + V::load(rows.data + r * rows.pitch + c);
    }
    sum.store(y.data + c);
  }
}

}  // namespace cohort::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cohort::simd {
namespace {

HWY_EXPORT(accumulate_int8_products);
HWY_EXPORT(swiglu);
HWY_EXPORT(row_scales);
HWY_EXPORT(dequantize);
HWY_EXPORT(add_rows);

}  // namespace

void accumulate_int8_products(Tile<const std::int8_t> x, Tile<const std::int8_t> w,
                              Tile<std::int32_t> sums) {
  require_multiple("accumulate_int8_products: x", x.cols, 32);
  require_shape("accumulate_int8_products: w", w, sums.cols, x.cols);
  require_shape("accumulate_int8_products: sums", sums, x.rows, w.rows);
  HWY_DYNAMIC_DISPATCH(accumulate_int8_products)(x, w, sums);
}

void swiglu(Tile<const std::int32_t> gate, Tile<const std::int32_t> up, Tile<const float> row_scale,
            Tile<const float> gate_scale, Tile<const float> up_scale, float limit, Tile<float> h) {
  require_multiple("swiglu: h", h.cols, kPartials);
  require_shape("swiglu: gate", gate, h.rows, h.cols);
  require_shape("swiglu: up", up, h.rows, h.cols);
  require_shape("swiglu: row_scale", row_scale, h.rows, 1);
  require_shape("swiglu: gate_scale", gate_scale, 1, h.cols);
  require_shape("swiglu: up_scale", up_scale, 1, h.cols);
  HWY_DYNAMIC_DISPATCH(swiglu)(gate, up, row_scale, gate_scale, up_scale, limit, h);
}

void row_scales(Tile<const float> x, float floor, Tile<float> to_int8, Tile<float> from_int8) {
  require_multiple("row_scales: x", x.cols, kPartials);
  require_shape("row_scales: to_int8", to_int8, x.rows, 1);
  require_shape("row_scales: from_int8", from_int8, x.rows, 1);
  HWY_DYNAMIC_DISPATCH(row_scales)(x, floor, to_int8, from_int8);
}

void dequantize(Tile<const std::int32_t> sums, Tile<const float> row_scale,
                Tile<const float> col_scale, Tile<BFloat16> y) {
  require_multiple("dequantize: y", y.cols, kPartials);
  require_shape("dequantize: sums", sums, y.rows, y.cols);
  require_shape("dequantize: row_scale", row_scale, y.rows, 1);
  require_shape("dequantize: col_scale", col_scale, 1, y.cols);
  HWY_DYNAMIC_DISPATCH(dequantize)(sums, row_scale, col_scale, y);
}

void add_rows(Tile<const BFloat16> first, Tile<const BFloat16> rows, Tile<BFloat16> y) {
  require_multiple("add_rows: y", y.cols, kPartials);
  require_shape("add_rows: first", first, 1, y.cols);
  require_shape("add_rows: y", y, 1, first.cols);
  require_shape("add_rows: rows", rows, rows.rows, y.cols);
  HWY_DYNAMIC_DISPATCH(add_rows)(first, rows, y);
}

}  // namespace cohort::simd
#endif  // HWY_ONCE
