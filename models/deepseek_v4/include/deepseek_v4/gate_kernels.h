#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "deepseek_v4/hc_kernels.h"

/// The kernels between the layer input and the routing table: deferred RMSNorm, INT8 quantisation
/// and the router. N = num_tokens clamped to [0, T]; G = min(T, N rounded up to 16).
namespace deepseek_v4 {

inline constexpr float kAmaxEps = 1e-4f;
/// Largest finite magnitude, negative: the key of an expert that doesn't exist.
inline constexpr float kNegInf = -3.4028234663852886e38f;

/// RMSNorm with gamma applied and 1/rms deferred: xg_buf = x_mixed norm_w, exact; ffn_inv_rms_buf =
/// 1 / rms; xn_scale_buf = 127 / max(max |xg|, 1e-4), the factor to INT8; x_norm_scale, the factor
/// back from it. Rows >= G are not written. Blocks: block b is token b.
struct FfnNorm {
  static constexpr KernelInfo kInfo{.name = "ffn_norm"};

  struct Args {
    In<BFloat16> x_mixed;        // [T, D]
    In<BFloat16> norm_w;         // [D]
    Out<float> xg_buf;           // [Tp, D]
    Out<float> ffn_inv_rms_buf;  // [Tp, 1]
    Out<float> xn_scale_buf;     // [Tp, 1]
    Out<float> x_norm_scale;     // [T, 1]
    std::int64_t num_tokens = 0;
    COHORT_OPERANDS(x_mixed, norm_w, xg_buf, ffn_inv_rms_buf, xn_scale_buf, x_norm_scale,
                    num_tokens)
  };

  static std::int64_t blocks(const Args& a) {
    return normalised_rows(a.num_tokens, a.x_mixed.rows());
  }
  static std::int64_t capacity(const Args& a) { return a.x_mixed.rows(); }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    const std::int64_t hidden = a.x_mixed.cols();
    std::array<float, 2> values;
    const Tile<float> sum{&values[0], 1, 1, 1};
    const Tile<float> amax{&values[1], 1, 1, 1};
    {
      const auto x = lane.load(a.x_mixed.rows(block, 1));
      const auto gamma = lane.load(a.norm_w);
      auto xg = lane.output(a.xg_buf.rows(block, 1));
      simd::scale_by_gamma(x, gamma, kAmaxEps, xg, sum, amax);
      lane.charge(simd::scale_by_gamma_work(1, hidden));
      lane.store(xg);
    }
    auto inv = lane.output(a.ffn_inv_rms_buf.rows(block, 1));
    auto xn_scale = lane.output(a.xn_scale_buf.rows(block, 1));
    auto x_norm_scale = lane.output(a.x_norm_scale.rows(block, 1));
    simd::norm_scales(sum, amax, 1.0f / static_cast<float>(hidden), kNormEps, inv, xn_scale,
                      x_norm_scale);
    lane.charge(simd::norm_scales_work(1));
    lane.store(inv);
    lane.store(xn_scale);
    lane.store(x_norm_scale);
  }
};

/// x_norm_i8 = int8(round(xg_buf xn_scale_buf)). Rows >= G are not written.
/// Blocks: block b takes tokens [8 b, 8 b + 8).
struct XNormQuant {
  static constexpr KernelInfo kInfo{.name = "x_norm_quant"};

  struct Args {
    In<float> xg_buf;            // [Tp, D]
    In<float> xn_scale_buf;      // [Tp, 1]
    Out<std::int8_t> x_norm_i8;  // [T, D]
    std::int64_t num_tokens = 0;
    COHORT_OPERANDS(xg_buf, xn_scale_buf, x_norm_i8, num_tokens)
  };

  static std::int64_t blocks(const Args& a) {
    return normalised_rows(a.num_tokens, a.x_norm_i8.rows()) / kTokenTile;
  }
  static std::int64_t capacity(const Args& a) { return a.x_norm_i8.rows() / kTokenTile; }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    constexpr std::int64_t kChunk = 512;
    const std::int64_t t0 = block * kTokenTile;
    const auto scale = lane.load(a.xn_scale_buf.rows(t0, kTokenTile));
    for (std::int64_t d = 0; d < a.x_norm_i8.cols(); d += kChunk) {
      const auto x = lane.load(a.xg_buf.rows(t0, kTokenTile).cols(d, kChunk));
      auto q = lane.output(a.x_norm_i8.rows(t0, kTokenTile).cols(d, kChunk));
      simd::quantize(x, scale, q);
      lane.charge(simd::quantize_work(kTokenTile, kChunk));
      lane.store(q);
    }
  }
};

/// What inactive tokens and experts that don't exist look like: for t >= N, x_norm_scale, indices
/// and weights are 0; the padding columns of the biased scores hold the smallest finite float.
/// Blocks: one.
struct GatePreRoute {
  static constexpr KernelInfo kInfo{.name = "gate_pre_route"};

  struct Args {
    InOut<float> x_norm_scale;  // [T, 1], rows [0, N) keep their value
    Out<std::int32_t> indices;  // [T, k]
    Out<float> weights;         // [T, k]
    Out<float> score_padding;   // [Tp, SCORE_PAD - E]: columns [E, SCORE_PAD) of the biased scores
    std::int64_t num_tokens = 0;
    COHORT_OPERANDS(x_norm_scale, indices, weights, score_padding, num_tokens)
  };

  static std::int64_t blocks(const Args&) { return 1; }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t) {
    const std::int64_t tokens = a.x_norm_scale.rows();
    const std::int64_t active = active_tokens(a.num_tokens, tokens);
    if (active < tokens) {
      detail::store_constant(lane, a.x_norm_scale.rows(active, tokens - active), 0.0f);
      detail::store_constant(lane, a.indices.rows(active, tokens - active), 0);
      detail::store_constant(lane, a.weights.rows(active, tokens - active), 0.0f);
    }
    if (a.score_padding.cols() == 0) return;
    for (std::int64_t t0 = 0; t0 < a.score_padding.rows(); t0 += kLinearTile) {
      detail::store_constant(lane, a.score_padding.rows(t0, kLinearTile), kNegInf);
    }
  }
};

/// route_scores[t, e] = sqrt(softplus(ffn_inv_rms_buf[t] sum over d of xg_buf[t, d] gate_w[e, d]));
/// biased_scores = route_scores + gate_bias, on layers that sort. Rows >= G are not written.
/// Blocks: block b takes tokens [16 (b / B), + 16) and experts [16 (b % B), + 16), B = E / 16.
struct Gate {
  static constexpr KernelInfo kInfo{.name = "gate"};

  struct Args {
    In<float> xg_buf;           // [Tp, D]
    In<float> ffn_inv_rms_buf;  // [Tp, 1]
    In<float> gate_w;           // [E, D]
    In<float> gate_bias;        // [E]
    Out<float> route_scores;    // [Tp, E] of [Tp, SCORE_PAD]
    Out<float> biased_scores;   // likewise
    std::int64_t tokens = 0;    // T
    std::int64_t num_tokens = 0;
    std::int64_t sorted = 0;  // 1 if the layer routes by sorting, 0 if by token id
    COHORT_OPERANDS(xg_buf, ffn_inv_rms_buf, gate_w, gate_bias, route_scores, biased_scores, tokens,
                    num_tokens, sorted)
  };

  static std::int64_t blocks(const Args& a) {
    return tiles(active_tokens(a.num_tokens, a.tokens), a);
  }
  static std::int64_t capacity(const Args& a) { return tiles(a.tokens, a); }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    constexpr std::int64_t kChunk = 512;
    const std::int64_t expert_tiles = a.gate_w.rows() / kExpertTile;
    const std::int64_t t0 = block / expert_tiles * kLinearTile;
    const std::int64_t e0 = block % expert_tiles * kExpertTile;
    const std::int64_t rows = std::min(kLinearTile, a.tokens - t0);

    std::array<float, kLinearTile * kExpertTile * simd::kPartials> values;
    std::array<float, kLinearTile * kExpertTile> products;
    const Tile<float> partials = detail::scratch(values, rows, kExpertTile * simd::kPartials);
    const Tile<float> raw = detail::scratch(products, rows, kExpertTile);
    std::fill_n(values.begin(), rows * kExpertTile * simd::kPartials, 0.0f);
    for (std::int64_t d = 0; d < a.xg_buf.cols(); d += kChunk) {
      const auto x = lane.load(a.xg_buf.rows(t0, rows).cols(d, kChunk));
      const auto w = lane.load(a.gate_w.rows(e0, kExpertTile).cols(d, kChunk));
      simd::accumulate_products(x, w, partials);
      lane.charge(simd::products_work<float>(rows, kExpertTile, kChunk));
    }
    simd::reduce_products(partials, raw);
    lane.charge(simd::reduce_products_work(rows, kExpertTile));

    const auto inv = lane.load(a.ffn_inv_rms_buf.rows(t0, rows));
    const auto bias = lane.load(a.gate_bias.cols(e0, kExpertTile));
    auto scores = lane.output(a.route_scores.rows(t0, rows).cols(e0, kExpertTile));
    lane.charge(simd::router_scores_work(rows, kExpertTile));
    if (a.sorted == 0) {
      simd::router_scores(raw, inv, bias, scores, {});
    } else {
      auto biased = lane.output(a.biased_scores.rows(t0, rows).cols(e0, kExpertTile));
      simd::router_scores(raw, inv, bias, scores, biased);
      lane.store(biased);
    }
    lane.store(scores);
  }

 private:
  static std::int64_t tiles(std::int64_t rows, const Args& a) {
    return (rows + kLinearTile - 1) / kLinearTile * (a.gate_w.rows() / kExpertTile);
  }
};

/// indices[t] = the k experts of largest biased score, descending, equal ones by id; weights =
/// their unbiased scores, normalised to sum to routed_scaling_factor. Rows >= N are not written.
/// Blocks: block b takes tokens [8 b, 8 b + 8).
struct RouteSort {
  static constexpr KernelInfo kInfo{.name = "route_sort"};

  struct Args {
    In<float> route_scores;     // [Tp, E] of [Tp, SCORE_PAD]: the padding is never written
    In<float> biased_scores;    // [Tp, SCORE_PAD]
    Out<std::int32_t> indices;  // [T, k]
    Out<float> weights;         // [T, k]
    float routed_scaling_factor = 0;
    std::int64_t num_tokens = 0;
    COHORT_OPERANDS(route_scores, biased_scores, indices, weights, routed_scaling_factor,
                    num_tokens)
  };

  static std::int64_t blocks(const Args& a) { return active_tiles(a.num_tokens, a.indices.rows()); }
  static std::int64_t capacity(const Args& a) { return a.indices.rows() / kTokenTile; }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    const std::int64_t t0 = block * kTokenTile;
    const std::int64_t active = active_tokens(a.num_tokens, a.indices.rows());
    // A block beyond this run's is run only to learn what it may touch: all its rows.
    const std::int64_t rows = t0 < active ? std::min(kTokenTile, active - t0) : kTokenTile;
    const std::int64_t k = a.indices.cols();
    const auto keys = lane.load(a.biased_scores.rows(t0, rows));
    const auto scores = lane.load(a.route_scores.rows(t0, rows));
    auto ids = lane.output(a.indices.rows(t0, rows));
    auto weights = lane.output(a.weights.rows(t0, rows));
    simd::top_k(keys, ids);
    lane.charge(simd::top_k_work(rows, keys.cols));
    simd::route_weights(scores, Tile<const std::int32_t>(ids), a.routed_scaling_factor, weights);
    lane.charge(simd::route_weights_work(rows, k));
    lane.store(ids);
    lane.store(weights);
  }
};

/// indices[t, j] = tid2eid[input_ids[t], j]; weights as RouteSort. Rows >= N are not read or
/// written. Blocks: block b takes tokens [8 b, 8 b + 8). Requires: 0 <= input_ids < V and ids < E
/// for t < N, checked by validate_routing().
struct RouteHash {
  static constexpr KernelInfo kInfo{.name = "route_hash"};

  struct Args {
    In<std::int64_t> input_ids;  // [T]
    In<std::int32_t> tid2eid;    // [V, k]
    In<float> route_scores;      // [Tp, E] of [Tp, SCORE_PAD]
    Out<std::int32_t> indices;   // [T, k]
    Out<float> weights;          // [T, k]
    float routed_scaling_factor = 0;
    std::int64_t num_tokens = 0;
    COHORT_OPERANDS(input_ids, tid2eid, route_scores, indices, weights, routed_scaling_factor,
                    num_tokens)
  };

  static std::int64_t blocks(const Args& a) { return active_tiles(a.num_tokens, a.indices.rows()); }
  static std::int64_t capacity(const Args& a) { return a.indices.rows() / kTokenTile; }

  /// The table row depends on a token's id: any row.
  static void region(const Args& a, std::int64_t block, const cohort::RegionSink& sink) {
    const std::int64_t t0 = block * kTokenTile;
    sink(a.input_ids.cols(t0, kTokenTile), cohort::Direction::kIn);
    sink(a.tid2eid, cohort::Direction::kIn);
    sink(a.route_scores.rows(t0, kTokenTile), cohort::Direction::kIn);
    sink(a.indices.rows(t0, kTokenTile), cohort::Direction::kOut);
    sink(a.weights.rows(t0, kTokenTile), cohort::Direction::kOut);
  }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    const std::int64_t t0 = block * kTokenTile;
    const std::int64_t active = active_tokens(a.num_tokens, a.indices.rows());
    const std::int64_t rows = std::min(kTokenTile, active - t0);
    const auto scores = lane.load(a.route_scores.rows(t0, rows));
    auto ids = lane.output(a.indices.rows(t0, rows));
    auto weights = lane.output(a.weights.rows(t0, rows));
    for (std::int64_t t = 0; t < rows; ++t) {
      const std::int64_t token = lane.get(a.input_ids, t0 + t);
      const auto entry = lane.load(a.tid2eid.rows(token, 1));
      for (std::int64_t j = 0; j < entry.cols; ++j) ids(t, j) = entry(0, j);
    }
    simd::route_weights(scores, Tile<const std::int32_t>(ids), a.routed_scaling_factor, weights);
    lane.charge(simd::route_weights_work(rows, ids.cols));
    lane.store(ids);
    lane.store(weights);
  }
};

}  // namespace deepseek_v4
