#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "cohort/simd/int8.h"

#include "deepseek_v4/gate_kernels.h"

/// The feed-forward networks of DeepSeek-V4's experts in INT8: h = swiglu(x w1^T, x w3^T),
/// quantised row by row, y = h w2^T. Products are exact; each operator's rounding is written at it.
/// L experts live on a rank, I is their inner width, M (RECV_MAX) the rows kept for each expert;
/// the rows of expert e are [e M, e M + counts[e]) of every routed tensor.
namespace deepseek_v4 {

inline constexpr std::int64_t kExpertRows = 16;     ///< Rows of a tile of products.
inline constexpr std::int64_t kExpertColumns = 64;  ///< Outputs per block.
inline constexpr std::int64_t kQuantRows = 8;       ///< Rows per block of the quantisation.

namespace detail {

using ExpertSums = std::array<std::int32_t, kExpertRows * kExpertColumns>;
inline constexpr std::int64_t kProductChunk = 512;

inline Tile<std::int32_t> zeroed(ExpertSums& values, std::int64_t rows) {
  values.fill(0);
  return {values.data(), rows, kExpertColumns, kExpertColumns};
}

/// The views of one tile of gate and up: `x` [R, D], `w1`, `w3` [64, D], `h` [R, 64], R <= 16.
struct GateUpTile {
  In<std::int8_t> x;
  In<float> x_scale;
  In<std::int8_t> w1;
  In<std::int8_t> w3;
  In<float> w1_scale;
  In<float> w3_scale;
  Out<float> h;
};

template <class L>
void gate_up(L& lane, const GateUpTile& t, float swiglu_limit) {
  const std::int64_t rows = t.x.rows();
  ExpertSums gate_values;
  ExpertSums up_values;
  const Tile<std::int32_t> gate = zeroed(gate_values, rows);
  const Tile<std::int32_t> up = zeroed(up_values, rows);
  for (std::int64_t d = 0; d < t.x.cols(); d += kProductChunk) {
    const auto x = lane.load(t.x.cols(d, kProductChunk));
    const auto w1 = lane.load(t.w1.cols(d, kProductChunk));
    const auto w3 = lane.load(t.w3.cols(d, kProductChunk));
    simd::accumulate_int8_products(x, w1, gate);
    simd::accumulate_int8_products(x, w3, up);
    lane.charge(simd::int8_products_work(rows, 2 * kExpertColumns, kProductChunk));
  }
  const auto x_scale = lane.load(t.x_scale);
  const auto w1_scale = lane.load(t.w1_scale);
  const auto w3_scale = lane.load(t.w3_scale);
  auto h = lane.output(t.h);
  simd::swiglu(gate, up, x_scale, w1_scale, w3_scale, swiglu_limit, h);
  lane.charge(simd::swiglu_work(rows, kExpertColumns, swiglu_limit));
  lane.store(h);
}

/// Views of rows to quantise: `h`, `h_i8` [R, I], `h_scale` [R, 1], R <= 8.
struct QuantRows {
  In<float> h;
  Out<std::int8_t> h_i8;
  Out<float> h_scale;
};

template <class L>
void quantise_rows(L& lane, const QuantRows& t) {
  std::array<float, kQuantRows> values;
  const Tile<float> to_int8 = scratch(values, t.h.rows(), 1);
  const auto h = lane.load(t.h);
  auto h_scale = lane.output(t.h_scale);
  simd::row_scales(h, kAmaxEps, to_int8, h_scale);
  lane.charge(simd::row_scales_work(h.rows, h.cols));
  lane.store(h_scale);
  auto h_i8 = lane.output(t.h_i8);
  simd::quantize(h, to_int8, h_i8);
  lane.charge(simd::quantize_work(h.rows, h.cols));
  lane.store(h_i8);
}

/// The views of one tile of the second product: `h_i8` [R, I], `w2` [64, I], `y` [R, 64], R <= 16.
struct DownTile {
  In<std::int8_t> h_i8;
  In<std::int8_t> w2;
  In<float> w2_scale;
  Out<BFloat16> y;
};

/// `row_scale` [R, 1] is the scale back from INT8, times the routing weight if there is one.
template <class L>
void down(L& lane, const DownTile& t, const Tile<const float>& row_scale) {
  const std::int64_t rows = t.h_i8.rows();
  ExpertSums values;
  const Tile<std::int32_t> sums = zeroed(values, rows);
  for (std::int64_t n = 0; n < t.h_i8.cols(); n += kProductChunk) {
    const auto h = lane.load(t.h_i8.cols(n, kProductChunk));
    const auto w = lane.load(t.w2.cols(n, kProductChunk));
    simd::accumulate_int8_products(h, w, sums);
    lane.charge(simd::int8_products_work(rows, kExpertColumns, kProductChunk));
  }
  const auto w2_scale = lane.load(t.w2_scale);
  auto y = lane.output(t.y);
  simd::dequantize(sums, row_scale, w2_scale, y);
  lane.charge(simd::dequantize_work(rows, kExpertColumns));
  lane.store(y);
}

}  // namespace detail

/// shared_h = swiglu of the shared expert, all T rows: a row of scale 0 gives +-0 whatever its
/// bytes. swiglu_limit 0 cuts nothing; else gate <= limit and |up| <= limit.
/// Blocks: block b takes outputs [64 b, 64 b + 64) of all rows, so each weight is read from memory
/// once.
struct SharedGateUp {
  static constexpr KernelInfo kInfo{.name = "shared_gate_up", .core = CoreKind::kCube};

  struct Args {
    In<std::int8_t> x_norm_i8;  // [T, D]
    In<float> x_norm_scale;     // [T, 1]
    In<std::int8_t> w1;         // [I, D]
    In<std::int8_t> w3;         // [I, D]
    In<float> w1_scale;         // [I]
    In<float> w3_scale;         // [I]
    Out<float> shared_h;        // [T, I]
    float swiglu_limit = 0;
    COHORT_OPERANDS(x_norm_i8, x_norm_scale, w1, w3, w1_scale, w3_scale, shared_h, swiglu_limit)
  };

  static std::int64_t blocks(const Args& a) { return a.w1.rows() / kExpertColumns; }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    const std::int64_t n0 = block * kExpertColumns;
    for (std::int64_t t0 = 0; t0 < a.x_norm_i8.rows(); t0 += kExpertRows) {
      const std::int64_t rows = std::min(kExpertRows, a.x_norm_i8.rows() - t0);
      detail::gate_up(
          lane,
          {a.x_norm_i8.rows(t0, rows), a.x_norm_scale.rows(t0, rows), a.w1.rows(n0, kExpertColumns),
           a.w3.rows(n0, kExpertColumns), a.w1_scale.cols(n0, kExpertColumns),
           a.w3_scale.cols(n0, kExpertColumns), a.shared_h.rows(t0, rows).cols(n0, kExpertColumns)},
          a.swiglu_limit);
    }
  }
};

/// q = 127 / max(max |shared_h|, 1e-4) per row; shared_h_i8 = int8(round(shared_h q));
/// shared_h_scale = 1 / q. Blocks: block b takes tokens [8 b, 8 b + 8).
struct SharedQuant {
  static constexpr KernelInfo kInfo{.name = "shared_quant"};

  struct Args {
    In<float> shared_h;            // [T, I]
    Out<std::int8_t> shared_h_i8;  // [T, I]
    Out<float> shared_h_scale;     // [T, 1]
    COHORT_OPERANDS(shared_h, shared_h_i8, shared_h_scale)
  };

  static std::int64_t blocks(const Args& a) { return a.shared_h.rows() / kQuantRows; }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    const std::int64_t t0 = block * kQuantRows;
    detail::quantise_rows(lane,
                          {a.shared_h.rows(t0, kQuantRows), a.shared_h_i8.rows(t0, kQuantRows),
                           a.shared_h_scale.rows(t0, kQuantRows)});
  }
};

/// sh = bf16((float(shared_h_i8 w2^T) shared_h_scale) w2_scale), all T rows.
/// Blocks: block b takes outputs [64 b, 64 b + 64) of all rows.
struct SharedDown {
  static constexpr KernelInfo kInfo{.name = "shared_down", .core = CoreKind::kCube};

  struct Args {
    In<std::int8_t> shared_h_i8;  // [T, I]
    In<float> shared_h_scale;     // [T, 1]
    In<std::int8_t> w2;           // [D, I]
    In<float> w2_scale;           // [D]
    Out<BFloat16> sh;             // [T, D]
    COHORT_OPERANDS(shared_h_i8, shared_h_scale, w2, w2_scale, sh)
  };

  static std::int64_t blocks(const Args& a) { return a.w2.rows() / kExpertColumns; }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    const std::int64_t d0 = block * kExpertColumns;
    for (std::int64_t t0 = 0; t0 < a.sh.rows(); t0 += kExpertRows) {
      const std::int64_t rows = std::min(kExpertRows, a.sh.rows() - t0);
      const auto scale = lane.load(a.shared_h_scale.rows(t0, rows));
      detail::down(
          lane,
          {a.shared_h_i8.rows(t0, rows), a.w2.rows(d0, kExpertColumns),
           a.w2_scale.cols(d0, kExpertColumns), a.sh.rows(t0, rows).cols(d0, kExpertColumns)},
          scale);
    }
  }
};

/// routed_h = swiglu of expert e over its rows; rows >= counts[e] are neither read nor written.
/// Blocks: block b takes expert b / (I / 64) and outputs [64 (b % (I / 64)), + 64) of all its rows,
/// so each weight is read from memory once, and none of an expert without rows.
struct RoutedGateUp {
  static constexpr KernelInfo kInfo{.name = "routed_gate_up", .core = CoreKind::kCube};

  struct Args {
    In<std::int32_t> counts;  // [L]
    In<std::int8_t> recv_x;   // [L M, D]
    In<float> recv_scale;     // [L M, 1]
    In<std::int8_t> w1;       // [L, I, D]
    In<std::int8_t> w3;       // [L, I, D]
    In<float> w1_scale;       // [L, I]
    In<float> w3_scale;       // [L, I]
    Out<float> routed_h;      // [L M, I]
    float swiglu_limit = 0;
    COHORT_OPERANDS(counts, recv_x, recv_scale, w1, w3, w1_scale, w3_scale, routed_h, swiglu_limit)
  };

  static std::int64_t blocks(const Args& a) {
    return a.counts.cols() * (a.routed_h.cols() / kExpertColumns);
  }

  static void region(const Args& a, std::int64_t block, const cohort::RegionSink& sink) {
    const Place p = place(a, block);
    sink(a.counts.cols(p.expert, 1), cohort::Direction::kIn);
    const detail::GateUpTile t = tile(a, p, 0, p.capacity);
    sink(t.x, cohort::Direction::kIn);
    sink(t.x_scale, cohort::Direction::kIn);
    sink(t.w1, cohort::Direction::kIn);
    sink(t.w3, cohort::Direction::kIn);
    sink(t.w1_scale, cohort::Direction::kIn);
    sink(t.w3_scale, cohort::Direction::kIn);
    sink(t.h, cohort::Direction::kOut);
  }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    const Place p = place(a, block);
    const std::int64_t count = lane.get(a.counts, p.expert);
    for (std::int64_t row = 0; row < count; row += kExpertRows) {
      detail::gate_up(lane, tile(a, p, row, std::min(kExpertRows, count - row)), a.swiglu_limit);
    }
  }

 private:
  struct Place {
    std::int64_t expert;
    std::int64_t first;     // Output.
    std::int64_t capacity;  // M.
  };
  static Place place(const Args& a, std::int64_t block) {
    const std::int64_t slices = a.routed_h.cols() / kExpertColumns;
    return {block / slices, block % slices * kExpertColumns, a.recv_x.rows() / a.counts.cols()};
  }
  static detail::GateUpTile tile(const Args& a, const Place& p, std::int64_t row,
                                 std::int64_t rows) {
    const std::int64_t inner = a.routed_h.cols();
    const std::int64_t hidden = a.recv_x.cols();
    const std::int64_t r0 = p.expert * p.capacity + row;
    const std::int64_t n0 = p.expert * inner + p.first;
    const std::int64_t all = a.counts.cols() * inner;
    return {a.recv_x.rows(r0, rows),
            a.recv_scale.rows(r0, rows),
            a.w1.reshaped(all, hidden).rows(n0, kExpertColumns),
            a.w3.reshaped(all, hidden).rows(n0, kExpertColumns),
            a.w1_scale.rows(p.expert, 1).cols(p.first, kExpertColumns),
            a.w3_scale.rows(p.expert, 1).cols(p.first, kExpertColumns),
            a.routed_h.rows(r0, rows).cols(p.first, kExpertColumns)};
  }
};

/// As SharedQuant, over the rows of each expert; rows >= counts[e] are neither read nor written.
/// Blocks: block b takes rows [8 b, 8 b + 8) of the [L M] rows.
struct RoutedQuant {
  static constexpr KernelInfo kInfo{.name = "routed_quant"};

  struct Args {
    In<std::int32_t> counts;       // [L]
    In<float> routed_h;            // [L M, I]
    Out<std::int8_t> routed_h_i8;  // [L M, I]
    Out<float> routed_h_scale;     // [L M, 1]
    COHORT_OPERANDS(counts, routed_h, routed_h_i8, routed_h_scale)
  };

  static std::int64_t blocks(const Args& a) { return a.routed_h.rows() / kQuantRows; }

  static void region(const Args& a, std::int64_t block, const cohort::RegionSink& sink) {
    sink(a.counts.cols(block * kQuantRows / capacity_of(a), 1), cohort::Direction::kIn);
    const detail::QuantRows t = rows_of(a, block, kQuantRows);
    sink(t.h, cohort::Direction::kIn);
    sink(t.h_i8, cohort::Direction::kOut);
    sink(t.h_scale, cohort::Direction::kOut);
  }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    const std::int64_t expert = block * kQuantRows / capacity_of(a);
    const std::int64_t row = block * kQuantRows - expert * capacity_of(a);
    const std::int64_t left = lane.get(a.counts, expert) - row;
    if (left > 0) detail::quantise_rows(lane, rows_of(a, block, std::min(kQuantRows, left)));
  }

 private:
  static std::int64_t capacity_of(const Args& a) { return a.routed_h.rows() / a.counts.cols(); }
  static detail::QuantRows rows_of(const Args& a, std::int64_t block, std::int64_t rows) {
    const std::int64_t r0 = block * kQuantRows;
    return {a.routed_h.rows(r0, rows), a.routed_h_i8.rows(r0, rows),
            a.routed_h_scale.rows(r0, rows)};
  }
};

/// recv_y = bf16((float(routed_h_i8 w2^T) (routed_h_scale recv_weight)) w2_scale); rows from
/// counts[e] to the end of their tile of 16 are +0, those beyond are not written.
/// Blocks: block b takes expert b / (D / 64) and outputs [64 (b % (D / 64)), + 64) of all its rows.
struct RoutedDown {
  static constexpr KernelInfo kInfo{.name = "routed_down", .core = CoreKind::kCube};

  struct Args {
    In<std::int32_t> counts;      // [L]
    In<std::int8_t> routed_h_i8;  // [L M, I]
    In<float> routed_h_scale;     // [L M, 1]
    In<float> recv_weight;        // [L M, 1]
    In<std::int8_t> w2;           // [L, D, I]
    In<float> w2_scale;           // [L, D]
    Out<BFloat16> recv_y;         // [L M, D]
    COHORT_OPERANDS(counts, routed_h_i8, routed_h_scale, recv_weight, w2, w2_scale, recv_y)
  };

  static std::int64_t blocks(const Args& a) {
    return a.counts.cols() * (a.recv_y.cols() / kExpertColumns);
  }

  static void region(const Args& a, std::int64_t block, const cohort::RegionSink& sink) {
    const Place p = place(a, block);
    const std::int64_t r0 = p.expert * p.capacity;
    const detail::DownTile t = tile(a, p, r0, p.capacity);
    sink(a.counts.cols(p.expert, 1), cohort::Direction::kIn);
    sink(t.h_i8, cohort::Direction::kIn);
    sink(a.routed_h_scale.rows(r0, p.capacity), cohort::Direction::kIn);
    sink(a.recv_weight.rows(r0, p.capacity), cohort::Direction::kIn);
    sink(t.w2, cohort::Direction::kIn);
    sink(t.w2_scale, cohort::Direction::kIn);
    sink(t.y, cohort::Direction::kOut);
  }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    const Place p = place(a, block);
    const std::int64_t count = lane.get(a.counts, p.expert);
    std::array<float, kExpertRows> values;
    for (std::int64_t row = 0; row < count; row += kExpertRows) {
      const std::int64_t rows = std::min(kExpertRows, count - row);
      const std::int64_t r0 = p.expert * p.capacity + row;
      const Tile<float> scale = detail::scratch(values, rows, 1);
      {
        const auto back = lane.load(a.routed_h_scale.rows(r0, rows));
        const auto weight = lane.load(a.recv_weight.rows(r0, rows));
        for (std::int64_t r = 0; r < rows; ++r) scale(r, 0) = back(r, 0) * weight(r, 0);
        const WorkItem work[] = {{Operation::kMul, rows}};
        lane.charge(work);
      }
      detail::down(lane, tile(a, p, r0, rows), scale);
      if (rows == kExpertRows) continue;
      detail::store_constant(
          lane, a.recv_y.rows(r0 + rows, kExpertRows - rows).cols(p.first, kExpertColumns),
          BFloat16(0.0f));
    }
  }

 private:
  struct Place {
    std::int64_t expert;
    std::int64_t first;     // Output.
    std::int64_t capacity;  // M.
  };
  static Place place(const Args& a, std::int64_t block) {
    const std::int64_t slices = a.recv_y.cols() / kExpertColumns;
    return {block / slices, block % slices * kExpertColumns, a.recv_y.rows() / a.counts.cols()};
  }
  static detail::DownTile tile(const Args& a, const Place& p, std::int64_t r0, std::int64_t rows) {
    const std::int64_t hidden = a.recv_y.cols();
    const std::int64_t inner = a.routed_h_i8.cols();
    return {a.routed_h_i8.rows(r0, rows),
            a.w2.reshaped(a.counts.cols() * hidden, inner)
                .rows(p.expert * hidden + p.first, kExpertColumns),
            a.w2_scale.rows(p.expert, 1).cols(p.first, kExpertColumns),
            a.recv_y.rows(r0, rows).cols(p.first, kExpertColumns)};
  }
};

}  // namespace deepseek_v4
