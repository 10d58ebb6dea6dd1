#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "cohort/base/float16.h"
#include "cohort/base/tile.h"

/// What the functions of simd.h compute, one element after the other, as their docstrings read. For
/// tests and benchmarks: shares no code with the vector forms.
namespace cohort::simd::definition {

inline float wide(float x) { return x; }
inline float wide(BFloat16 x) { return static_cast<float>(x); }

/// The tree over 16 partial sums.
inline float tree(const std::array<float, 16>& p) {
  const float even = ((p[0] + p[8]) + (p[4] + p[12])) + ((p[2] + p[10]) + (p[6] + p[14]));
  const float odd = ((p[1] + p[9]) + (p[5] + p[13])) + ((p[3] + p[11]) + (p[7] + p[15]));
  return even + odd;
}

/// Sum of a[k] b[k] in 16 partial sums that start at `start`.
template <class A, class B>
std::array<float, 16> partial_sums(const A* a, const B* b, std::int64_t count,
                                   std::array<float, 16> start = {}) {
  for (std::int64_t k = 0; k < count; ++k) {
    float& sum = start[static_cast<std::size_t>(k % 16)];
    sum = std::fma(wide(a[k]), wide(b[k]), sum);
  }
  return start;
}

/// The bfloat16 nearest to x, by distance; of two equally near the one with an even last bit.
inline BFloat16 nearest_bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto below = static_cast<std::uint16_t>(bits >> 16);
  if (std::isnan(x)) return BFloat16::from_bits(static_cast<std::uint16_t>(below | 0x0040));
  if (std::isinf(x)) return BFloat16::from_bits(below);
  const auto magnitude = [](std::uint16_t b) {
    const int exponent = (b & 0x7FFF) >> 7;
    const int fraction = b & 0x7F;
    return exponent == 0 ? std::ldexp(fraction, -133) : std::ldexp(128 + fraction, exponent - 134);
  };
  const auto above = static_cast<std::uint16_t>(below + 1);
  const double to_below = std::abs(static_cast<double>(x)) - magnitude(below);
  const double to_above = magnitude(above) - std::abs(static_cast<double>(x));
  if (to_below != to_above) return BFloat16::from_bits(to_below < to_above ? below : above);
  return BFloat16::from_bits(below % 2 == 0 ? below : above);
}

inline float exp(float x) {
  if (std::isnan(x)) return x;
  const float clamped = std::min(std::max(x, -104.0f), 89.0f);
  const float n = std::nearbyint(clamped * 1.44269504088896341f);
  const float r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.0f / 5040;
  for (const float c : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f}) p = p * r + c;
  const float value = ((p * r) * r + r) + 1.0f;
  const float half = std::nearbyint(n * 0.5f);
  return (value * std::exp2(half)) * std::exp2(n - half);
}

inline float log1p(float u) {
  const float s = u / (u + 2.0f);
  const float z = s * s;
  float p = 1.0f / 17;
  for (int k = 15; k >= 3; k -= 2) p = p * z + 1.0f / static_cast<float>(k);
  return u - s * (u - (2.0f * z) * p);
}

inline float sigmoid(float x) { return 1.0f / (1.0f + exp(0.0f - x)); }

template <class S>
void add_sums_of_squares(Tile<const S> x, Tile<float> sums) {
  for (std::int64_t r = 0; r < x.rows; ++r) {
    sums(r, 0) = sums(r, 0) + tree(partial_sums(x.row(r), x.row(r), x.cols));
  }
}

template <class S>
void accumulate_products(Tile<const S> x, Tile<const float> w, Tile<float> partials) {
  for (std::int64_t m = 0; m < x.rows; ++m) {
    for (std::int64_t n = 0; n < w.rows; ++n) {
      std::array<float, 16> sums;
      std::copy_n(&partials(m, 16 * n), 16, sums.begin());
      sums = partial_sums(x.row(m), w.row(n), x.cols, sums);
      std::copy_n(sums.begin(), 16, &partials(m, 16 * n));
    }
  }
}

inline void reduce_products(Tile<const float> partials, Tile<float> out) {
  for (std::int64_t m = 0; m < out.rows; ++m) {
    for (std::int64_t n = 0; n < out.cols; ++n) {
      std::array<float, 16> sums;
      std::copy_n(&partials(m, 16 * n), 16, sums.begin());
      out(m, n) = tree(sums);
    }
  }
}

inline void add4(Tile<const float> a, Tile<const float> b, Tile<const float> c, Tile<const float> d,
                 Tile<float> out) {
  for (std::int64_t r = 0; r < out.rows; ++r) {
    for (std::int64_t i = 0; i < out.cols; ++i) {
      out(r, i) = ((a(r, i) + b(r, i)) + c(r, i)) + d(r, i);
    }
  }
}

inline void split_gates(Tile<const float> mixes, Tile<const float> inv, Tile<const float> base,
                        float scale0, float scale1, float eps, Tile<float> pre, Tile<float> post) {
  for (std::int64_t t = 0; t < post.rows; ++t) {
    for (std::int64_t c = 0; c < 8; ++c) {
      pre(t, c) = sigmoid((mixes(t, c) * inv(t, 0)) * scale0 + base(0, c)) + eps;
    }
    for (std::int64_t c = 0; c < 4; ++c) {
      post(t, c) = 2.0f * sigmoid((mixes(t, 4 + c) * inv(t, 0)) * scale1 + base(0, 4 + c));
    }
  }
}

template <class S>
void mix4(Tile<const float> pre, Tile<const S> x0, Tile<const S> x1, Tile<const S> x2,
          Tile<const S> x3, Tile<BFloat16> y) {
  for (std::int64_t r = 0; r < y.rows; ++r) {
    for (std::int64_t c = 0; c < y.cols; ++c) {
      const float y0 = wide(x0(r, c)) * pre(r, 0), y1 = wide(x1(r, c)) * pre(r, 1);
      const float y2 = wide(x2(r, c)) * pre(r, 2), y3 = wide(x3(r, c)) * pre(r, 3);
      y(r, c) = nearest_bfloat16((y0 + y1) + (y2 + y3));
    }
  }
}

inline void scale_by_gamma(Tile<const BFloat16> x, Tile<const BFloat16> gamma, float floor,
                           Tile<float> xg, Tile<float> sums, Tile<float> amax) {
  const std::int64_t group = x.cols / 8;
  for (std::int64_t r = 0; r < x.rows; ++r) {
    sums(r, 0) = 0.0f;
    amax(r, 0) = floor;
    for (std::int64_t g = 0; g < 8; ++g) {
      const BFloat16* values = x.row(r) + g * group;
      sums(r, 0) = sums(r, 0) + tree(partial_sums(values, values, group));
    }
    for (std::int64_t c = 0; c < x.cols; ++c) {
      xg(r, c) = wide(x(r, c)) * wide(gamma(0, c));
      amax(r, 0) = std::max(amax(r, 0), std::abs(xg(r, c)));
    }
  }
}

inline void norm_scales(Tile<const float> sums, Tile<const float> amax, float scale, float eps,
                        Tile<float> inv, Tile<float> xn_scale, Tile<float> x_norm_scale) {
  for (std::int64_t r = 0; r < inv.rows; ++r) {
    inv(r, 0) = 1.0f / std::sqrt(sums(r, 0) * scale + eps);
    xn_scale(r, 0) = 127.0f / amax(r, 0);
    x_norm_scale(r, 0) = (amax(r, 0) * (1.0f / 127.0f)) * inv(r, 0);
  }
}

inline void quantize(Tile<const float> x, Tile<const float> scale, Tile<std::int8_t> q) {
  for (std::int64_t r = 0; r < q.rows; ++r) {
    for (std::int64_t c = 0; c < q.cols; ++c) {
      q(r, c) = static_cast<std::int8_t>(std::nearbyint(x(r, c) * scale(r, 0)));
    }
  }
}

inline void sinkhorn(Tile<const float> mixes, Tile<const float> inv, Tile<const float> base,
                     float scale, float eps, std::int64_t iterations, Tile<float> comb) {
  for (std::int64_t t = 0; t < comb.rows; ++t) {
    float m[4][4];
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) {
        const std::int64_t c = 8 + 4 * i + j;
        m[i][j] = (mixes(t, c) * inv(t, 0)) * scale + base(0, c);
      }
      const float largest = std::max({m[i][0], m[i][1], m[i][2], m[i][3]});
      for (float& e : m[i]) e = exp(e - largest);
      const float sum = (m[i][0] + m[i][1]) + (m[i][2] + m[i][3]);
      for (float& e : m[i]) e = e / sum + eps;
    }
    for (std::int64_t n = 0; n < iterations; ++n) {
      for (int i = 0; i < 4 && n > 0; ++i) {
        const float sum = ((m[i][0] + m[i][1]) + (m[i][2] + m[i][3])) + eps;
        for (float& e : m[i]) e = e / sum;
      }
      for (int j = 0; j < 4; ++j) {
        const float sum = ((m[0][j] + m[1][j]) + (m[2][j] + m[3][j])) + eps;
        for (auto& row : m) row[j] = row[j] / sum;
      }
    }
    for (int i = 0; i < 16; ++i) comb(t, i) = m[i / 4][i % 4];
  }
}

inline void router_scores(Tile<const float> raw, Tile<const float> inv, Tile<const float> bias,
                          Tile<float> scores, Tile<float> biased) {
  for (std::int64_t m = 0; m < raw.rows; ++m) {
    for (std::int64_t n = 0; n < raw.cols; ++n) {
      const float l = raw(m, n) * inv(m, 0);
      scores(m, n) = std::sqrt(std::max(l, 0.0f) + log1p(exp(-std::abs(l))));
      if (biased.data != nullptr) biased(m, n) = scores(m, n) + bias(0, n);
    }
  }
}

inline void top_k(Tile<const float> keys, Tile<std::int32_t> ids) {
  for (std::int64_t r = 0; r < keys.rows; ++r) {
    std::vector<std::int32_t> order(static_cast<std::size_t>(keys.cols));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(
        order, [&](std::int32_t a, std::int32_t b) { return keys(r, a) > keys(r, b); });
    std::copy_n(order.begin(), ids.cols, ids.row(r));
  }
}

template <class S>
void post_mix(Tile<const BFloat16> x, const std::array<Tile<const S>, 4>& residual,
              Tile<const float> gates, Tile<S> y) {
  for (std::int64_t r = 0; r < y.rows; ++r) {
    for (std::int64_t c = 0; c < y.cols; ++c) {
      float sum = wide(x(r, c)) * gates(r, 0);
      for (std::size_t i = 0; i < 4; ++i) {
        sum = sum + wide(residual[i](r, c)) * gates(r, static_cast<std::int64_t>(1 + i));
      }
      if constexpr (std::is_same_v<S, float>) {
        y(r, c) = sum;
      } else {
        y(r, c) = nearest_bfloat16(sum);
      }
    }
  }
}

}  // namespace cohort::simd::definition
