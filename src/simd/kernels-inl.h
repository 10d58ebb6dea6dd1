// The functions of simd.h over a vector type V of 16 float lanes. Included once per target by
// simd.cc, and by the tests with a scalar and a counting V. V has:
//   set, load, load of BFloat16, store, store to BFloat16, store_int8 (rounds, ties to even);
//   + - * /, fma(a, b, c) = a b + c rounded once, sqrt, abs, round;
//   max(a, b) = a > b ? a : b, min likewise; keep_nan(x, y) = x if x is a NaN, else y;
//   scale2(x, n) = x 2^n for integral n in [-126, 127]; to_array;
//   exp and log1p, the ones below, and count_reduce(), so that a counting V sees them as
//   operations.

#if defined(COHORT_SIMD_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COHORT_SIMD_KERNELS_INL_H_
#undef COHORT_SIMD_KERNELS_INL_H_
#else
#define COHORT_SIMD_KERNELS_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>

#include <hwy/highway.h>

#include "cohort/base/float16.h"
#include "cohort/base/tile.h"

#undef COHORT_INLINE_LAMBDA
#define COHORT_INLINE_LAMBDA __attribute__((always_inline))

HWY_BEFORE_NAMESPACE();
namespace cohort::simd::HWY_NAMESPACE::kernels {

inline constexpr std::int64_t kWidth = 16;

// Calls f(0), ..., f(N - 1) with constant indices, so that arrays indexed by them stay in
// registers.
template <int N, class F>
HWY_INLINE void unroll(F f) {
  [&]<int... I>(std::integer_sequence<int, I...>) COHORT_INLINE_LAMBDA {
    (f(std::integral_constant<int, I>()), ...);
  }
  (std::make_integer_sequence<int, N>());
}

template <class V>
HWY_INLINE float tree_sum(const V& v) {
  V::count_reduce();
  return v.tree_sum();
}

template <class V>
HWY_INLINE float tree_max(const V& v) {
  const std::array<float, 16> p = v.to_array();
  float m = p[0];
  for (std::size_t i = 1; i < 16; ++i) m = std::max(m, p[i]);
  V::count_reduce();
  return m;
}

// exp(x): x = n ln 2 + r, |r| <= ln(2)/2, a polynomial in r, and 2^n in two steps so that neither
// overflows. ln 2 is split so that n * kLn2High is exact.
template <class V>
HWY_INLINE V exp(const V argument) {
  const V x = V::min(V::max(argument, V::set(-104.0f)), V::set(89.0f));
  const V n = V::round(x * V::set(1.44269504088896341f));
  const V r = (x - n * V::set(0.693359375f)) - n * V::set(-2.12194440e-4f);
  V p = V::set(1.0f / 5040);
  p = p * r + V::set(1.0f / 720);
  p = p * r + V::set(1.0f / 120);
  p = p * r + V::set(1.0f / 24);
  p = p * r + V::set(1.0f / 6);
  p = p * r + V::set(0.5f);
  p = (p * r) * r + r;  // exp(r) - 1, small against the 1 added last.
  p = p + V::set(1.0f);
  const V half = V::round(n * V::set(0.5f));
  return V::keep_nan(argument, V::scale2(V::scale2(p, half), n - half));
}

// log(1 + u), u in [0, 1], is 2 atanh(s), s = u / (2 + u) <= 1/3, and 2 s = u - s u: so u, exact,
// less a term that is smaller than half the result.
template <class V>
HWY_INLINE V log1p(const V u) {
  const V s = u / (u + V::set(2.0f));
  const V z = s * s;
  V p = V::set(1.0f / 17);
  p = p * z + V::set(1.0f / 15);
  p = p * z + V::set(1.0f / 13);
  p = p * z + V::set(1.0f / 11);
  p = p * z + V::set(1.0f / 9);
  p = p * z + V::set(1.0f / 7);
  p = p * z + V::set(1.0f / 5);
  p = p * z + V::set(1.0f / 3);
  return u - s * (u - (z + z) * p);
}

template <class V>
HWY_INLINE V sigmoid(const V x) {
  const V one = V::set(1.0f);
  return one / (one + V::exp(V::set(0.0f) - x));
}

template <class V, class S>
HWY_INLINE void add_sums_of_squares(Tile<const S> x, Tile<float> sums) {
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const S* row = x.data + r * x.pitch;
    V sum = V::set(0.0f);
    for (std::int64_t c = 0; c < x.cols; c += kWidth) {
      const V v = V::load(row + c);
      sum = V::fma(v, v, sum);
    }
    float& total = sums.data[r * sums.pitch];
    total = total + tree_sum(sum);
  }
}

template <class T>
HWY_INLINE Tile<T> part_of(const Tile<T>& t, std::int64_t row, std::int64_t col) {
  return {t.data + row * t.pitch + col, t.rows - row, t.cols - col, t.pitch};
}

// R rows of x by N rows of w, with R * N sums in registers: one part of the sixteen at a time,
// which halves the loads per product where a register holds eight.
template <class V, int R, int N>
HWY_NOINLINE void product_block(Tile<const float> x, Tile<const float> w, Tile<float> partials) {
  using Part = typename V::Part;
  for (int part = 0; part < V::kParts; ++part) {
    const float* xp = x.data + part * Part::kWidth;
    const float* wp = w.data + part * Part::kWidth;
    float* sums = partials.data + part * Part::kWidth;
    Part sum[R * N];
    unroll<R * N>([&](auto i) COHORT_INLINE_LAMBDA {
      sum[i] = Part::load(sums + (i / N) * partials.pitch + (i % N) * kWidth);
    });
    for (std::int64_t c = 0; c < x.cols; c += kWidth) {
      Part weight[N];
      unroll<N>([&](auto n) COHORT_INLINE_LAMBDA { weight[n] = Part::load(wp + n * w.pitch + c); });
      unroll<R>([&](auto r) COHORT_INLINE_LAMBDA {
        const Part factor = Part::load(xp + r * x.pitch + c);
        unroll<N>([&](auto n) COHORT_INLINE_LAMBDA {
          sum[r * N + n] = Part::fma(factor, weight[n], sum[r * N + n]);
        });
      });
    }
    unroll<R * N>([&](auto i) COHORT_INLINE_LAMBDA {
      sum[i].store(sums + (i / N) * partials.pitch + (i % N) * kWidth);
    });
  }
}

// All rows of x by N rows of w.
template <class V, int N>
HWY_INLINE void product_columns(Tile<const float> x, Tile<const float> w, Tile<float> partials) {
  constexpr int kRows = V::kBlockRows;
  std::int64_t row = 0;
  for (; row + kRows <= x.rows; row += kRows) {
    product_block<V, kRows, N>(part_of(x, row, 0), w, part_of(partials, row, 0));
  }
  const Tile<const float> rest = part_of(x, row, 0);
  const Tile<float> sums = part_of(partials, row, 0);
  if (rest.rows == 3) product_block<V, 3, N>(rest, w, sums);
  if (rest.rows == 2) product_block<V, 2, N>(rest, w, sums);
  if (rest.rows == 1) product_block<V, 1, N>(rest, w, sums);
}

// product_columns for the first `count` <= N rows of w.
template <class V, int N>
HWY_INLINE void product_columns(std::int64_t count, Tile<const float> x, Tile<const float> w,
                                Tile<float> partials) {
  if (count == N) return product_columns<V, N>(x, w, partials);
  if constexpr (N > 1) product_columns<V, N - 1>(count, x, w, partials);
}

template <class V>
HWY_INLINE void product_panel(Tile<const float> x, Tile<const float> w, Tile<float> partials) {
  constexpr std::int64_t kMost = V::kBlockColumns;
  for (std::int64_t n = 0, count = 0; n < w.rows; n += count) {
    // A last block of one column would have too few sums to hide the latency of an addition.
    const std::int64_t left = w.rows - n;
    count = left == kMost + 1 ? (kMost + 1) / 2 : std::min(left, kMost);
    product_columns<V, V::kBlockColumns>(count, x, part_of(w, n, 0),
                                         part_of(partials, 0, n * kWidth));
  }
}

// Copies a panel of x, as float, before it multiplies: rows whose pitch is a power of two would
// share a few cache sets, and every row of w reads them again.
template <class V, class S>
HWY_INLINE void accumulate_products(Tile<const S> x, Tile<const float> w, Tile<float> partials) {
  constexpr std::int64_t kRows = 16;
  constexpr std::int64_t kPanel = 4096;
  alignas(64) float panel[kPanel + kRows * kWidth];
  for (std::int64_t row = 0; row < x.rows; row += kRows) {
    const std::int64_t rows = std::min(kRows, x.rows - row);
    const std::int64_t most = rows <= 8 ? 512 : kPanel / kRows;
    for (std::int64_t c = 0; c < x.cols; c += most) {
      const std::int64_t cols = std::min(most, x.cols - c);
      const Tile<float> copy{panel, rows, cols, most + kWidth};
      for (std::int64_t r = 0; r < rows; ++r) {
        const S* from = x.data + (row + r) * x.pitch + c;
        for (std::int64_t i = 0; i < cols; i += kWidth) {
          V::load(from + i).store(copy.data + r * copy.pitch + i);
        }
      }
      product_panel<V>(copy, {w.data + c, w.rows, cols, w.pitch}, part_of(partials, row, 0));
    }
  }
}

template <class V>
HWY_INLINE void reduce_products(Tile<const float> partials, Tile<float> out) {
  for (std::int64_t r = 0; r < out.rows; ++r) {
    for (std::int64_t n = 0; n < out.cols; ++n) {
      out.data[r * out.pitch + n] =
          tree_sum(V::load(partials.data + r * partials.pitch + n * kWidth));
    }
  }
}

template <class V>
HWY_INLINE void add4(Tile<const float> a, Tile<const float> b, Tile<const float> c,
                     Tile<const float> d, Tile<float> out) {
  for (std::int64_t r = 0; r < out.rows; ++r) {
    for (std::int64_t i = 0; i < out.cols; i += kWidth) {
      const V sum = ((V::load(a.data + r * a.pitch + i) + V::load(b.data + r * b.pitch + i)) +
                     V::load(c.data + r * c.pitch + i)) +
                    V::load(d.data + r * d.pitch + i);
      sum.store(out.data + r * out.pitch + i);
    }
  }
}

template <class V>
HWY_INLINE void split_gates(Tile<const float> mixes, Tile<const float> inv, Tile<const float> base,
                            float scale0, float scale1, float eps, Tile<float> pre,
                            Tile<float> post) {
  const V bias = V::load(base.data);
  for (std::int64_t r = 0; r < mixes.rows; ++r) {
    const V m = V::load(mixes.data + r * mixes.pitch) * V::set(inv.data[r * inv.pitch]);
    const V first = sigmoid(m * V::set(scale0) + bias) + V::set(eps);
    const V second = sigmoid(m * V::set(scale1) + bias);
    const std::array<float, 16> gates = first.to_array();
    const std::array<float, 16> twice = (second + second).to_array();
    std::copy_n(gates.begin(), 8, pre.data + r * pre.pitch);
    std::copy_n(twice.begin() + 4, 4, post.data + r * post.pitch);
  }
}

template <class V, class S>
HWY_INLINE void mix4(Tile<const float> pre, Tile<const S> x0, Tile<const S> x1, Tile<const S> x2,
                     Tile<const S> x3, Tile<BFloat16> y) {
  for (std::int64_t r = 0; r < y.rows; ++r) {
    const float* gates = pre.data + r * pre.pitch;
    const V g0 = V::set(gates[0]), g1 = V::set(gates[1]);
    const V g2 = V::set(gates[2]), g3 = V::set(gates[3]);
    const S* r0 = x0.data + r * x0.pitch;
    const S* r1 = x1.data + r * x1.pitch;
    const S* r2 = x2.data + r * x2.pitch;
    const S* r3 = x3.data + r * x3.pitch;
    BFloat16* out = y.data + r * y.pitch;
    for (std::int64_t c = 0; c < y.cols; c += kWidth) {
      const V a = V::load(r0 + c) * g0 + V::load(r1 + c) * g1;
      const V b = V::load(r2 + c) * g2 + V::load(r3 + c) * g3;
      (a + b).store(out + c);
    }
  }
}

template <class V>
HWY_INLINE void scale_by_gamma(Tile<const BFloat16> x, Tile<const BFloat16> gamma, float floor,
                               Tile<float> xg, Tile<float> sums, Tile<float> amax) {
  constexpr std::int64_t kGroups = 8;
  const std::int64_t group = x.cols / kGroups;
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const BFloat16* row = x.data + r * x.pitch;
    float* out = xg.data + r * xg.pitch;
    V largest = V::set(0.0f);
    float total = 0.0f;
    for (std::int64_t g = 0; g < kGroups; ++g) {
      V sum = V::set(0.0f);
      for (std::int64_t c = g * group; c < (g + 1) * group; c += kWidth) {
        const V v = V::load(row + c);
        const V scaled = v * V::load(gamma.data + c);
        scaled.store(out + c);
        sum = V::fma(v, v, sum);
        largest = V::max(largest, V::abs(scaled));
      }
      total = total + tree_sum(sum);
    }
    sums.data[r * sums.pitch] = total;
    amax.data[r * amax.pitch] = std::max(tree_max(largest), floor);
  }
}

template <class V>
HWY_INLINE void quantize(Tile<const float> x, Tile<const float> scale, Tile<std::int8_t> q) {
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const V s = V::set(scale.data[r * scale.pitch]);
    for (std::int64_t c = 0; c < x.cols; c += kWidth) {
      (V::load(x.data + r * x.pitch + c) * s).store_int8(q.data + r * q.pitch + c);
    }
  }
}

template <class V>
HWY_INLINE void divide_by_sum(V& m0, V& m1, V& m2, V& m3, V eps) {
  const V sum = ((m0 + m1) + (m2 + m3)) + eps;
  m0 = m0 / sum;
  m1 = m1 / sum;
  m2 = m2 / sum;
  m3 = m3 / sum;
}

// Lane = token: m[i][j] holds element (i, j) of every token's matrix.
template <class V>
HWY_INLINE void sinkhorn(Tile<const float> mixes, Tile<const float> inv, Tile<const float> base,
                         float scale, float eps_value, std::int64_t iterations, Tile<float> comb) {
  std::array<float, 16> column{};
  for (std::int64_t t = 0; t < mixes.rows; ++t) {
    column[static_cast<std::size_t>(t)] = inv.data[t * inv.pitch];
  }
  const V inverse = V::load(column.data());
  const V eps = V::set(eps_value);
  V m[4][4];
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      for (std::int64_t t = 0; t < mixes.rows; ++t) {
        column[static_cast<std::size_t>(t)] = mixes.data[t * mixes.pitch + 8 + 4 * i + j];
      }
      m[i][j] =
          (V::load(column.data()) * inverse) * V::set(scale) + V::set(base.data[8 + 4 * i + j]);
    }
    const V largest = V::max(V::max(m[i][0], m[i][1]), V::max(m[i][2], m[i][3]));
    for (int j = 0; j < 4; ++j) m[i][j] = V::exp(m[i][j] - largest);
    const V sum = (m[i][0] + m[i][1]) + (m[i][2] + m[i][3]);
    for (int j = 0; j < 4; ++j) m[i][j] = m[i][j] / sum + eps;
  }
  for (std::int64_t n = 0; n < iterations; ++n) {
    if (n > 0) {
      for (int i = 0; i < 4; ++i) divide_by_sum(m[i][0], m[i][1], m[i][2], m[i][3], eps);
    }
    for (int j = 0; j < 4; ++j) divide_by_sum(m[0][j], m[1][j], m[2][j], m[3][j], eps);
  }
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      column = m[i][j].to_array();
      for (std::int64_t t = 0; t < comb.rows; ++t) {
        comb.data[t * comb.pitch + 4 * i + j] = column[static_cast<std::size_t>(t)];
      }
    }
  }
}

template <class V>
HWY_INLINE void router_scores(Tile<const float> raw, Tile<const float> inv, Tile<const float> bias,
                              Tile<float> scores, Tile<float> biased) {
  const V zero = V::set(0.0f);
  for (std::int64_t r = 0; r < raw.rows; ++r) {
    const V inverse = V::set(inv.data[r * inv.pitch]);
    for (std::int64_t n = 0; n < raw.cols; n += kWidth) {
      const V l = V::load(raw.data + r * raw.pitch + n) * inverse;
      const V tail = V::log1p(V::exp(zero - V::abs(l)));
      const V score = V::sqrt(V::max(l, zero) + tail);
      score.store(scores.data + r * scores.pitch + n);
      if (biased.data == nullptr) continue;
      (score + V::load(bias.data + n)).store(biased.data + r * biased.pitch + n);
    }
  }
}

template <class V, class S>
HWY_INLINE void post_mix(Tile<const BFloat16> x, const std::array<Tile<const S>, 4>& residual,
                         Tile<const float> gates, Tile<S> y) {
  for (std::int64_t r = 0; r < y.rows; ++r) {
    const float* gate = gates.data + r * gates.pitch;
    const BFloat16* row = x.data + r * x.pitch;
    S* out = y.data + r * y.pitch;
    const V post = V::set(gate[0]);
    V comb[4];
    const S* streams[4];
    for (int i = 0; i < 4; ++i) {
      const Tile<const S>& stream = residual[static_cast<std::size_t>(i)];
      comb[i] = V::set(gate[1 + i]);
      streams[i] = stream.data + r * stream.pitch;
    }
    for (std::int64_t c = 0; c < y.cols; c += kWidth) {
      V sum = V::load(row + c) * post;
      for (int i = 0; i < 4; ++i) sum = sum + V::load(streams[i] + c) * comb[i];
      sum.store(out + c);
    }
  }
}

template <class V, class F>
HWY_INLINE void map_rows(Tile<const float> x, Tile<float> y, F f) {
  for (std::int64_t r = 0; r < x.rows; ++r) {
    for (std::int64_t c = 0; c < x.cols; c += kWidth) {
      f(V::load(x.data + r * x.pitch + c)).store(y.data + r * y.pitch + c);
    }
  }
}

template <class V>
HWY_INLINE void to_bfloat16(Tile<const float> x, Tile<BFloat16> y) {
  for (std::int64_t r = 0; r < x.rows; ++r) {
    for (std::int64_t c = 0; c < x.cols; c += kWidth) {
      V::load(x.data + r * x.pitch + c).store(y.data + r * y.pitch + c);
    }
  }
}

}  // namespace cohort::simd::HWY_NAMESPACE::kernels
HWY_AFTER_NAMESPACE();

#endif
