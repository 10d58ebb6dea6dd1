#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cohort/base/tile.h"

/// The functions of simd.h that compute a few scalars per row, over an arithmetic type F: float, or
/// in the tests one that counts. Not vectorised: IEEE arithmetic without contraction is the same on
/// every target.
namespace cohort::simd::rows {

inline float sqrt(float x) { return std::sqrt(x); }

template <class F>
void inverse_rms(Tile<const float> sums, float scale, float eps, Tile<float> inv) {
  for (std::int64_t r = 0; r < sums.rows; ++r) {
    const F mean = F(sums(r, 0)) * F(scale);
    inv(r, 0) = static_cast<float>(F(1.0f) / sqrt(mean + F(eps)));
  }
}

template <class F>
void norm_scales(Tile<const float> sums, Tile<const float> amax, float scale, float eps,
                 Tile<float> inv, Tile<float> xn_scale, Tile<float> x_norm_scale) {
  constexpr float kLevels = 127.0f;
  constexpr float kInverseLevels = 1.0f / 127.0f;
  inverse_rms<F>(sums, scale, eps, inv);
  for (std::int64_t r = 0; r < sums.rows; ++r) {
    const F largest = F(amax(r, 0));
    xn_scale(r, 0) = static_cast<float>(F(kLevels) / largest);
    x_norm_scale(r, 0) = static_cast<float>((largest * F(kInverseLevels)) * F(inv(r, 0)));
  }
}

template <class F>
void route_weights(Tile<const float> scores, Tile<const std::int32_t> ids, float factor,
                   Tile<float> weights) {
  for (std::int64_t r = 0; r < ids.rows; ++r) {
    F sum = F(0.0f);
    for (std::int64_t j = 0; j < ids.cols; ++j) sum = sum + F(scores(r, ids(r, j)));
    for (std::int64_t j = 0; j < ids.cols; ++j) {
      weights(r, j) = static_cast<float>((F(scores(r, ids(r, j))) / sum) * F(factor));
    }
  }
}

}  // namespace cohort::simd::rows
