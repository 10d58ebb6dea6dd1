#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "deepseek_v4/hc_kernels.h"

/// The kernels that turn the last layer's H = 4 residual streams into the input of the model's
/// final norm. Split over K = H D in 16 parts; rows beyond T are neither read nor computed.
namespace deepseek_v4 {

inline constexpr std::int64_t kHeadSplits = 16;  ///< Parts of K.
inline constexpr std::int64_t kHeadPad = 16;     ///< Columns of the partial products; 4 matter.
inline constexpr std::int64_t kHeadSlice = 512;  ///< Columns per block of hc_head_mix.

/// sums[s T + t] = sum over the s-th sixteenth of K of x_flat[t]^2.
/// Blocks: block b takes tokens [8 (b / 16), + 8) and part b % 16.
template <class Stream>
struct HcHeadRms {
  static constexpr KernelInfo kInfo{.name = "hc_head_rms"};

  struct Args {
    In<Stream> x_flat;     // [T, K]
    Out<float> head_sums;  // [16 T, 1]
    COHORT_OPERANDS(x_flat, head_sums)
  };

  static std::int64_t blocks(const Args& a) { return a.x_flat.rows() / kTokenTile * kHeadSplits; }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    constexpr std::int64_t kChunk = 256;
    const std::int64_t t0 = block / kHeadSplits * kTokenTile;
    const std::int64_t split = block % kHeadSplits;
    const std::int64_t range = a.x_flat.cols() / kHeadSplits;
    auto sums = lane.output(a.head_sums.rows(split * a.x_flat.rows() + t0, kTokenTile));
    for (std::int64_t t = 0; t < kTokenTile; ++t) sums(t, 0) = 0.0f;
    for (std::int64_t k = split * range; k < (split + 1) * range; k += kChunk) {
      const auto x = lane.load(a.x_flat.rows(t0, kTokenTile).cols(k, kChunk));
      simd::add_sums_of_squares(x, sums);
      lane.charge(simd::sums_of_squares_work<Stream>(kTokenTile, kChunk));
    }
    lane.store(sums);
  }
};

/// partials[s Tp + t, h] = sum over the s-th sixteenth of K of x_flat[t] head_fn[h]; rows >= T and
/// columns >= 4 are +0. Blocks: block b takes tokens [16 (b / 16), + 16) and part b % 16.
template <class Stream>
struct HcHeadLinear {
  static constexpr KernelInfo kInfo{.name = "hc_head_linear"};

  struct Args {
    In<Stream> x_flat;         // [T, K]
    In<float> head_fn;         // [4, K]
    Out<float> head_partials;  // [16 Tp, 16]
    COHORT_OPERANDS(x_flat, head_fn, head_partials)
  };

  static std::int64_t blocks(const Args& a) { return a.head_partials.rows() / kLinearTile; }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    constexpr std::int64_t kChunk = 256;
    const std::int64_t padded = a.head_partials.rows() / kHeadSplits;
    const std::int64_t t0 = block / kHeadSplits * kLinearTile;
    const std::int64_t split = block % kHeadSplits;
    const std::int64_t range = a.x_flat.cols() / kHeadSplits;
    const std::int64_t rows = std::min(kLinearTile, a.x_flat.rows() - t0);
    const std::int64_t outputs = a.head_fn.rows();

    std::array<float, kLinearTile* 4 * simd::kPartials> values = {};
    const Tile<float> partials = detail::scratch(values, rows, outputs * simd::kPartials);
    for (std::int64_t k = split * range; k < (split + 1) * range; k += kChunk) {
      const auto x = lane.load(a.x_flat.rows(t0, rows).cols(k, kChunk));
      const auto w = lane.load(a.head_fn.cols(k, kChunk));
      simd::accumulate_products(x, w, partials);
      lane.charge(simd::products_work<Stream>(rows, outputs, kChunk));
    }
    auto out = lane.output(a.head_partials.rows(split * padded + t0, kLinearTile));
    for (std::int64_t r = 0; r < kLinearTile; ++r) std::fill_n(out.row(r), kHeadPad, 0.0f);
    simd::reduce_products(partials, {out.row(0), rows, outputs, out.pitch});
    lane.charge(simd::reduce_products_work(rows, outputs));
    lane.store(out);
  }
};

/// y[t, d] = sum over h of (sigmoid(p[t, h] inv[t] scale + head_base[h]) + 1e-6) x_hc[t, h, d] in
/// bfloat16, where p and inv add the sixteen parts in ascending order and inv = 1 / sqrt(mean +
/// 1e-6). Blocks: block b takes the 8 tokens of tile b / S over the 512 columns of slice b % S.
template <class Stream>
struct HcHeadMix {
  static constexpr KernelInfo kInfo{.name = "hc_head_mix"};

  struct Args {
    In<Stream> x_flat;        // [T, K]
    In<float> head_sums;      // [16 T, 1]
    In<float> head_partials;  // [16 Tp, 16]
    In<float> head_base;      // [4]
    Out<BFloat16> y;          // [T, D]
    float head_scale = 0;
    COHORT_OPERANDS(x_flat, head_sums, head_partials, head_base, y, head_scale)
  };

  static std::int64_t blocks(const Args& a) {
    return a.y.rows() / kTokenTile * (a.y.cols() / kHeadSlice);
  }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    const std::int64_t hidden = a.y.cols();
    const std::int64_t slices = hidden / kHeadSlice;
    const std::int64_t t0 = block / slices * kTokenTile;
    const std::int64_t d = block % slices * kHeadSlice;
    std::array<float, kTokenTile * kGatePad> pre_values;
    const Tile<float> pre = detail::scratch(pre_values, kTokenTile, kGatePad);
    gates(lane, a, t0, pre);

    constexpr std::int64_t kChunk = 256;
    const auto x = a.x_flat.rows(t0, kTokenTile);
    for (std::int64_t c = d; c < d + kHeadSlice; c += kChunk) {
      const auto x0 = lane.load(x.cols(c, kChunk));
      const auto x1 = lane.load(x.cols(hidden + c, kChunk));
      const auto x2 = lane.load(x.cols(2 * hidden + c, kChunk));
      const auto x3 = lane.load(x.cols(3 * hidden + c, kChunk));
      auto y = lane.output(a.y.rows(t0, kTokenTile).cols(c, kChunk));
      simd::mix4(pre, x0, x1, x2, x3, y);
      lane.charge(simd::mix4_work<Stream>(kTokenTile, kChunk));
      lane.store(y);
    }
  }

 private:
  // Columns 0..3 of `pre`.
  template <class L>
  static void gates(L& lane, const Args& a, std::int64_t t0, const Tile<float>& pre) {
    const std::int64_t tokens = a.x_flat.rows();
    const std::int64_t padded = a.head_partials.rows() / kHeadSplits;
    std::array<float, kTokenTile> sum_values = {};
    std::array<float, kTokenTile> inv_values;
    std::array<float, kTokenTile* kHeadPad> mix_values = {};
    const Tile<float> sums = detail::scratch(sum_values, kTokenTile, 1);
    const Tile<float> inv = detail::scratch(inv_values, kTokenTile, 1);
    const Tile<float> mixes = detail::scratch(mix_values, kTokenTile, kHeadPad);
    for (std::int64_t s = 0; s < kHeadSplits; ++s) {
      const auto part = lane.load(a.head_sums.rows(s * tokens + t0, kTokenTile));
      const auto product = lane.load(a.head_partials.rows(s * padded + t0, kTokenTile));
      for (std::int64_t t = 0; t < kTokenTile; ++t) {
        sums(t, 0) += part(t, 0);
        for (std::int64_t h = 0; h < 4; ++h) mixes(t, h) += product(t, h);
      }
      const WorkItem work[] = {{Operation::kAdd, kTokenTile * 5}};
      lane.charge(work);
    }
    simd::inverse_rms(sums, 1.0f / static_cast<float>(a.x_flat.cols()), kHcEps, inv);
    lane.charge(simd::inverse_rms_work(kTokenTile));

    // split_gates takes sixteen columns; those from 4 on are nothing, and so is its second result.
    std::array<float, simd::kPartials> base_values = {};
    std::array<float, kTokenTile * 4> unused_values;
    const Tile<float> base = detail::scratch(base_values, 1, simd::kPartials);
    const Tile<float> unused = detail::scratch(unused_values, kTokenTile, 4);
    const auto head_base = lane.load(a.head_base);
    for (std::int64_t h = 0; h < 4; ++h) base(0, h) = head_base(0, h);
    simd::split_gates(mixes, inv, base, a.head_scale, 0.0f, kHcEps, pre, unused);
    lane.charge(simd::split_gates_work(kTokenTile));
  }
};

}  // namespace deepseek_v4
