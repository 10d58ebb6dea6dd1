#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "cohort/lane/kernel_ref.h"
#include "cohort/simd/simd.h"

#include "deepseek_v4/config.h"

/// The kernels of DeepSeek-V4's hyper-connections: what turns H = 4 residual streams into one layer
/// input and the layer's output into the next streams. T tokens, Tp = T rounded up to 16, D columns
/// per stream, K = H D. Stream is float or BFloat16. All rows are computed, whatever num_tokens
/// says. Source: Zhu et al., "Hyper-Connections", 2024; Xie et al., "mHC", 2025; DeepSeek-V4.
namespace deepseek_v4 {

using cohort::BFloat16;
using cohort::CoreKind;
using cohort::In;
using cohort::InOut;
using cohort::KernelInfo;
using cohort::Operation;
using cohort::Out;
using cohort::Tile;
using cohort::WorkItem;
namespace simd = cohort::simd;

inline constexpr float kHcEps = 1e-6f;
inline constexpr float kNormEps = 1e-6f;

namespace detail {

/// A tile over a body's own array: registers and scratch, not global memory.
template <std::size_t N>
Tile<float> scratch(std::array<float, N>& values, std::int64_t rows, std::int64_t cols) {
  return {values.data(), rows, cols, cols};
}

/// Writes `value` into every element.
template <class L, class View, class T>
void store_constant(L& lane, const View& view, T value) {
  auto tile = lane.output(view);
  for (std::int64_t r = 0; r < tile.rows; ++r) std::fill_n(tile.row(r), tile.cols, value);
  const WorkItem work[] = {{Operation::kCopy, tile.rows * tile.cols}};
  lane.charge(work);
  lane.store(tile);
}

}  // namespace detail

/// inv_rms[t] = 1 / sqrt(mean over K of x^2 + 1e-6). Sums of `rms_chunk` columns, added in order.
/// Blocks: block b takes tokens [8 b, 8 b + 8).
template <class Stream>
struct HcPreRms {
  static constexpr KernelInfo kInfo{.name = "hc_pre_rms"};

  struct Args {
    In<Stream> x_flat;   // [T, K]
    Out<float> inv_rms;  // [Tp, 1]
    std::int64_t rms_chunk = 0;
    COHORT_OPERANDS(x_flat, inv_rms, rms_chunk)
  };

  static std::int64_t blocks(const Args& a) { return a.x_flat.rows() / kTokenTile; }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    const std::int64_t t0 = block * kTokenTile;
    std::array<float, kTokenTile> values = {};
    const Tile<float> sums = detail::scratch(values, kTokenTile, 1);
    for (std::int64_t k = 0; k < a.x_flat.cols(); k += a.rms_chunk) {
      const auto x = lane.load(a.x_flat.rows(t0, kTokenTile).cols(k, a.rms_chunk));
      simd::add_sums_of_squares(x, sums);
      lane.charge(simd::sums_of_squares_work<Stream>(kTokenTile, a.rms_chunk));
    }
    auto inv = lane.output(a.inv_rms.rows(t0, kTokenTile));
    simd::inverse_rms(sums, 1.0f / static_cast<float>(a.x_flat.cols()), kHcEps, inv);
    lane.charge(simd::inverse_rms_work(kTokenTile));
    lane.store(inv);
  }
};

namespace detail {

/// The product of up to 16 rows of x_flat with hc_fn over a quarter of K, into `out` [16, 32]; rows
/// and columns beyond the product are +0.
template <class Stream, class L, class Args>
void linear_block(L& lane, const Args& a, std::int64_t block, Tile<float> out) {
  constexpr std::int64_t kChunk = 256;
  const std::int64_t t0 = block / kLinearSplits * kLinearTile;
  const std::int64_t rows = std::min(kLinearTile, a.x_flat.rows() - t0);
  const std::int64_t outputs = a.hc_fn.rows();
  const std::int64_t range = a.x_flat.cols() / kLinearSplits;
  const std::int64_t k0 = block % kLinearSplits * range;

  std::array<float, kLinearTile * kMixPad * simd::kPartials> values;
  const Tile<float> partials = scratch(values, rows, outputs * simd::kPartials);
  std::fill_n(values.begin(), rows * outputs * simd::kPartials, 0.0f);
  for (std::int64_t k = k0; k < k0 + range; k += kChunk) {
    const auto x = lane.load(a.x_flat.rows(t0, rows).cols(k, kChunk));
    const auto w = lane.load(a.hc_fn.cols(k, kChunk));
    simd::accumulate_products(x, w, partials);
    lane.charge(simd::products_work<Stream>(rows, outputs, kChunk));
  }
  for (std::int64_t r = 0; r < kLinearTile; ++r) std::fill_n(out.row(r), kMixPad, 0.0f);
  simd::reduce_products(partials, {out.data, rows, outputs, out.pitch});
  lane.charge(simd::reduce_products_work(rows, outputs));
}

}  // namespace detail

/// partials[s Tp + t, c] = sum over the s-th quarter of K of x_flat[t, k] hc_fn[c, k]; rows >= T
/// and columns
/// >= 24 are +0.
/// Blocks: block b takes tokens [16 (b / 4), + 16) and quarter b % 4.
template <class Stream>
struct HcPreLinear {
  static constexpr KernelInfo kInfo{.name = "hc_pre_linear"};

  struct Args {
    In<Stream> x_flat;    // [T, K]
    In<float> hc_fn;      // [24, K]
    Out<float> partials;  // [4 Tp, 32]
    COHORT_OPERANDS(x_flat, hc_fn, partials)
  };

  static std::int64_t blocks(const Args& a) { return a.partials.rows() / kLinearTile; }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    const std::int64_t padded = a.partials.rows() / kLinearSplits;
    const std::int64_t row = block % kLinearSplits * padded + block / kLinearSplits * kLinearTile;
    auto out = lane.output(a.partials.rows(row, kLinearTile));
    detail::linear_block<Stream>(lane, a, block, out);
    lane.store(out);
  }
};

/// mixes_raw = ((p0 + p1) + p2) + p3, the quarters of hc_pre_linear in ascending order.
/// Blocks: block b takes rows [16 b, 16 b + 16).
struct HcPreReduce {
  static constexpr KernelInfo kInfo{.name = "hc_pre_reduce"};

  struct Args {
    In<float> partials;    // [4 Tp, 32]
    Out<float> mixes_raw;  // [Tp, 32]
    COHORT_OPERANDS(partials, mixes_raw)
  };

  static std::int64_t blocks(const Args& a) { return a.mixes_raw.rows() / kLinearTile; }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    const std::int64_t t0 = block * kLinearTile;
    const std::int64_t padded = a.mixes_raw.rows();
    const auto p0 = lane.load(a.partials.rows(t0, kLinearTile));
    const auto p1 = lane.load(a.partials.rows(padded + t0, kLinearTile));
    const auto p2 = lane.load(a.partials.rows(2 * padded + t0, kLinearTile));
    const auto p3 = lane.load(a.partials.rows(3 * padded + t0, kLinearTile));
    auto out = lane.output(a.mixes_raw.rows(t0, kLinearTile));
    simd::add4(p0, p1, p2, p3, out);
    lane.charge(simd::add4_work(kLinearTile, kMixPad));
    lane.store(out);
  }
};

/// Zeroes mixes_raw: what the atomic form of the linear adds to.
/// Blocks: one.
struct HcPreSeed {
  static constexpr KernelInfo kInfo{.name = "hc_pre_seed"};

  struct Args {
    Out<float> mixes_raw;  // [Tp, 32]
    COHORT_OPERANDS(mixes_raw)
  };

  static std::int64_t blocks(const Args&) { return 1; }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t) {
    detail::store_constant(lane, a.mixes_raw, 0.0f);
  }
};

/// mixes_raw += the quarter's product, atomically: the order of the four additions is open, so the
/// last bits are too. The deterministic form is HcPreLinear with HcPreReduce. Blocks: as
/// HcPreLinear.
template <class Stream>
struct HcPreLinearAtomic {
  static constexpr KernelInfo kInfo{.name = "hc_pre_linear_atomic"};

  struct Args {
    In<Stream> x_flat;       // [T, K]
    In<float> hc_fn;         // [24, K]
    InOut<float> mixes_raw;  // [Tp, 32], zero before the first block
    COHORT_OPERANDS(x_flat, hc_fn, mixes_raw)
  };

  static std::int64_t blocks(const Args& a) {
    return a.mixes_raw.rows() / kLinearTile * kLinearSplits;
  }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    std::array<float, kLinearTile * kMixPad> values;
    const Tile<float> product = detail::scratch(values, kLinearTile, kMixPad);
    detail::linear_block<Stream>(lane, a, block, product);
    lane.accumulate(a.mixes_raw.rows(block / kLinearSplits * kLinearTile, kLinearTile), product);
  }
};

/// pre_val_store[t, c] = sigmoid(mixes_raw[t, c] inv_rms[t] scale0 + hc_base[c]) + 1e-6, c < 8, of
/// which columns 0..3 are the pre gate; post[t, c] = 2 sigmoid(mixes_raw[t, 4 + c] inv_rms[t]
/// scale1 + hc_base[4 + c]). Blocks: block b takes tokens [8 b, 8 b + 8).
struct SplitPrePost {
  static constexpr KernelInfo kInfo{.name = "split_pre_post"};

  struct Args {
    In<float> inv_rms;         // [Tp, 1]
    In<float> mixes_raw;       // [Tp, 32]
    In<float> hc_base;         // [24]
    Out<float> pre_val_store;  // [Tp, 8]
    Out<float> post;           // [T, 4]
    float scale0 = 0;
    float scale1 = 0;
    COHORT_OPERANDS(inv_rms, mixes_raw, hc_base, pre_val_store, post, scale0, scale1)
  };

  static std::int64_t blocks(const Args& a) { return a.post.rows() / kTokenTile; }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    const std::int64_t t0 = block * kTokenTile;
    const auto mixes = lane.load(a.mixes_raw.rows(t0, kTokenTile));
    const auto inv = lane.load(a.inv_rms.rows(t0, kTokenTile));
    const auto base = lane.load(a.hc_base);
    auto pre = lane.output(a.pre_val_store.rows(t0, kTokenTile));
    auto post = lane.output(a.post.rows(t0, kTokenTile));
    simd::split_gates(mixes, inv, base, a.scale0, a.scale1, kHcEps, pre, post);
    lane.charge(simd::split_gates_work(kTokenTile));
    lane.store(pre);
    lane.store(post);
  }
};

/// x_mixed[t, d] = sum over h of pre_val_store[t, h] x_flat[t, h D + d], rounded once to bfloat16.
/// Blocks: block b takes the 8 tokens of tile b / S over the 1024-wide slice b % S, S = D / 1024.
template <class Stream>
struct MixX {
  static constexpr KernelInfo kInfo{.name = "mix_x"};

  struct Args {
    In<float> pre_val_store;  // [Tp, 8]
    In<Stream> x_flat;        // [T, K]
    Out<BFloat16> x_mixed;    // [T, D]
    COHORT_OPERANDS(pre_val_store, x_flat, x_mixed)
  };

  static std::int64_t blocks(const Args& a) {
    return a.x_mixed.rows() / kTokenTile * (a.x_mixed.cols() / kMixSlice);
  }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    constexpr std::int64_t kChunk = 256;
    const std::int64_t hidden = a.x_mixed.cols();
    const std::int64_t slices = hidden / kMixSlice;
    const std::int64_t t0 = block / slices * kTokenTile;
    const std::int64_t d0 = block % slices * kMixSlice;
    const auto pre = lane.load(a.pre_val_store.rows(t0, kTokenTile));
    const auto x = a.x_flat.rows(t0, kTokenTile);
    for (std::int64_t d = d0; d < d0 + kMixSlice; d += kChunk) {
      const auto x0 = lane.load(x.cols(d, kChunk));
      const auto x1 = lane.load(x.cols(hidden + d, kChunk));
      const auto x2 = lane.load(x.cols(2 * hidden + d, kChunk));
      const auto x3 = lane.load(x.cols(3 * hidden + d, kChunk));
      auto y = lane.output(a.x_mixed.rows(t0, kTokenTile).cols(d, kChunk));
      simd::mix4(pre, x0, x1, x2, x3, y);
      lane.charge(simd::mix4_work<Stream>(kTokenTile, kChunk));
      lane.store(y);
    }
  }
};

/// comb[t, 4 i + j]: the 4 x 4 matrix of a token after `iterations` Sinkhorn steps; i is the input
/// stream, j the output stream. Blocks: block b takes tokens [8 b, 8 b + 8).
struct CombSinkhorn {
  static constexpr KernelInfo kInfo{.name = "comb_sinkhorn"};

  struct Args {
    In<float> inv_rms;    // [Tp, 1]
    In<float> mixes_raw;  // [Tp, 32]
    In<float> hc_base;    // [24]
    Out<float> comb;      // [T, 16]
    float scale2 = 0;
    std::int64_t iterations = 0;
    COHORT_OPERANDS(inv_rms, mixes_raw, hc_base, comb, scale2, iterations)
  };

  static std::int64_t blocks(const Args& a) { return a.comb.rows() / kTokenTile; }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    const std::int64_t t0 = block * kTokenTile;
    const auto mixes = lane.load(a.mixes_raw.rows(t0, kTokenTile));
    const auto inv = lane.load(a.inv_rms.rows(t0, kTokenTile));
    const auto base = lane.load(a.hc_base);
    auto comb = lane.output(a.comb.rows(t0, kTokenTile));
    simd::sinkhorn(mixes, inv, base, a.scale2, kHcEps, a.iterations, comb);
    lane.charge(simd::sinkhorn_work(a.iterations));
    lane.store(comb);
  }
};

/// x_next[t, o, d] = ffn_out[t, d] post[t, o] + sum over i, ascending, of x_hc[t, i, d] comb[t, 4 i
/// + o]. Blocks: block b takes the 4 tokens of tile b / 4 and output stream o = b % 4.
template <class Stream>
struct HcPost {
  static constexpr KernelInfo kInfo{.name = "hc_post"};

  struct Args {
    In<BFloat16> ffn_out;  // [T, D]
    In<Stream> x_hc;       // [T, H, D]
    In<float> post;        // [T, 4]
    In<float> comb;        // [T, 16]
    Out<Stream> x_next;    // [T, H, D]
    COHORT_OPERANDS(ffn_out, x_hc, post, comb, x_next)
  };

  static std::int64_t blocks(const Args& a) { return a.ffn_out.rows(); }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    constexpr std::int64_t kTokens = 4;
    constexpr std::int64_t kChunk = 512;
    const std::int64_t hidden = a.ffn_out.cols();
    const std::int64_t t0 = block / 4 * kTokens;
    const std::int64_t out_stream = block % 4;
    std::array<float, kTokens * 5> values;
    const Tile<float> gates = detail::scratch(values, kTokens, 5);
    {
      const auto post = lane.load(a.post.rows(t0, kTokens));
      const auto comb = lane.load(a.comb.rows(t0, kTokens));
      for (std::int64_t t = 0; t < kTokens; ++t) {
        gates(t, 0) = post(t, out_stream);
        for (std::int64_t i = 0; i < 4; ++i) gates(t, 1 + i) = comb(t, 4 * i + out_stream);
      }
    }
    const auto streams = a.x_hc.rows(t0, kTokens);
    for (std::int64_t d = 0; d < hidden; d += kChunk) {
      const auto x = lane.load(a.ffn_out.rows(t0, kTokens).cols(d, kChunk));
      const auto r0 = lane.load(streams.cols(d, kChunk));
      const auto r1 = lane.load(streams.cols(hidden + d, kChunk));
      const auto r2 = lane.load(streams.cols(2 * hidden + d, kChunk));
      const auto r3 = lane.load(streams.cols(3 * hidden + d, kChunk));
      auto y = lane.output(a.x_next.rows(t0, kTokens).cols(out_stream * hidden + d, kChunk));
      simd::post_mix(x, {r0, r1, r2, r3}, gates, y);
      lane.charge(simd::post_mix_work<Stream>(kTokens, kChunk));
      lane.store(y);
    }
  }
};

}  // namespace deepseek_v4
