// Functions of a few scalars per row. IEEE arithmetic without contraction is the same everywhere,
// so they need no vector form.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cohort/base/check.h"
#include "cohort/simd/simd.h"

namespace cohort::simd {

void inverse_rms(Tile<const float> sums, float scale, float eps, Tile<float> inv) {
  for (std::int64_t r = 0; r < sums.rows; ++r) {
    inv(r, 0) = 1.0f / std::sqrt(sums(r, 0) * scale + eps);
  }
}

void norm_scales(Tile<const float> sums, Tile<const float> amax, float scale, float eps,
                 Tile<float> inv, Tile<float> xn_scale, Tile<float> x_norm_scale) {
  constexpr float kLevels = 127.0f;
  constexpr float kInverseLevels = 1.0f / 127.0f;
  inverse_rms(sums, scale, eps, inv);
  for (std::int64_t r = 0; r < sums.rows; ++r) {
    xn_scale(r, 0) = kLevels / amax(r, 0);
    x_norm_scale(r, 0) = (amax(r, 0) * kInverseLevels) * inv(r, 0);
  }
}

void top_k(Tile<const float> keys, Tile<std::int32_t> ids) {
  constexpr std::int64_t kMost = 8;
  COHORT_CHECK(ids.cols <= kMost && ids.cols <= keys.cols,
               "top_k of more than 8 or than there are");
  for (std::int64_t r = 0; r < keys.rows; ++r) {
    const float* row = keys.row(r);
    float best[kMost];
    std::int32_t best_id[kMost];
    std::int64_t count = 0;
    for (std::int64_t n = 0; n < keys.cols; ++n) {
      // Ids ascend, so an equal key goes behind the ones before it.
      if (count == ids.cols && !(row[n] > best[count - 1])) continue;
      std::int64_t at = count < ids.cols ? count++ : count - 1;
      for (; at > 0 && row[n] > best[at - 1]; --at) {
        best[at] = best[at - 1];
        best_id[at] = best_id[at - 1];
      }
      best[at] = row[n];
      best_id[at] = static_cast<std::int32_t>(n);
    }
    std::copy_n(best_id, ids.cols, ids.row(r));
  }
}

void route_weights(Tile<const float> scores, Tile<const std::int32_t> ids, float factor,
                   Tile<float> weights) {
  for (std::int64_t r = 0; r < ids.rows; ++r) {
    float sum = 0.0f;
    for (std::int64_t j = 0; j < ids.cols; ++j) sum = sum + scores(r, ids(r, j));
    for (std::int64_t j = 0; j < ids.cols; ++j) {
      weights(r, j) = (scores(r, ids(r, j)) / sum) * factor;
    }
  }
}

}  // namespace cohort::simd
