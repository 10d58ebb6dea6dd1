#include <algorithm>

#include "cohort/simd/simd.h"

#include "contract.h"
#include "row_kernels.h"

namespace cohort::simd {

void inverse_rms(Tile<const float> sums, float scale, float eps, Tile<float> inv) {
  require_shape("inverse_rms: sums", sums, inv.rows, 1);
  require_shape("inverse_rms: inv", inv, inv.rows, 1);
  rows::inverse_rms<float>(sums, scale, eps, inv);
}

void norm_scales(Tile<const float> sums, Tile<const float> amax, float scale, float eps,
                 Tile<float> inv, Tile<float> xn_scale, Tile<float> x_norm_scale) {
  require_shape("norm_scales: sums", sums, inv.rows, 1);
  require_shape("norm_scales: amax", amax, inv.rows, 1);
  require_shape("norm_scales: inv", inv, inv.rows, 1);
  require_shape("norm_scales: xn_scale", xn_scale, inv.rows, 1);
  require_shape("norm_scales: x_norm_scale", x_norm_scale, inv.rows, 1);
  rows::norm_scales<float>(sums, amax, scale, eps, inv, xn_scale, x_norm_scale);
}

void top_k(Tile<const float> keys, Tile<std::int32_t> ids) {
  constexpr std::int64_t kMost = 8;
  COHORT_CHECK(ids.cols >= 1 && ids.cols <= kMost, "top_k: asked for " + std::to_string(ids.cols) +
                                                       " ids a row, expected 1 to " +
                                                       std::to_string(kMost));
  require_columns("top_k: keys", keys, ids.rows, ids.cols);
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
  require_columns("route_weights: scores", scores, ids.rows, 1);
  require_shape("route_weights: weights", weights, ids.rows, ids.cols);
  for (std::int64_t r = 0; r < ids.rows; ++r) {
    for (std::int64_t j = 0; j < ids.cols; ++j) {
      COHORT_CHECK(0 <= ids(r, j) && ids(r, j) < scores.cols,
                   "route_weights: ids(" + std::to_string(r) + ", " + std::to_string(j) + ") is " +
                       std::to_string(ids(r, j)) + ", expected 0 to " +
                       std::to_string(scores.cols - 1));
    }
  }
  rows::route_weights<float>(scores, ids, factor, weights);
}

}  // namespace cohort::simd
