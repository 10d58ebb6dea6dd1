#pragma once

#include <array>
#include <cstdint>

#include "cohort/base/float16.h"
#include "cohort/base/tile.h"
#include "cohort/base/work.h"

/// Tile mathematics of INT8 feed-forward networks: exact integer products, and what stands between
/// them. Requirements, numerics, work and thread safety are those of simd.h.
namespace cohort::simd {

/// sums[m, n] += sum over k of x[m, k] * w[n, k], exact.
/// Shapes: x [M, K], w [N, K], sums [M, N]; K % 32 == 0. Requires: fewer than 2^17 products in one
///   sum, so that none overflows.
void accumulate_int8_products(Tile<const std::int8_t> x, Tile<const std::int8_t> w,
                              Tile<std::int32_t> sums);
constexpr std::array<WorkItem, 1> int8_products_work(std::int64_t m, std::int64_t n,
                                                     std::int64_t k) {
  const std::int64_t repeats = ((m + 15) / 16) * ((n + 15) / 16) * ((k + 31) / 32);
  // A repeat is priced as one register row: 64 elements.
  return {{{Operation::kMatmulInt8, 64 * repeats}}};
}

/// g = gate[r, c] * row_scale[r] * gate_scale[c], u likewise of `up`; if limit > 0, g is cut to at
/// most limit and u to [-limit, limit]; h = g / (1 + exp(-g)) * u, with the quotient as a product
/// with the reciprocal.
/// Shapes: gate, up, h [R, C], C % 16 == 0; row_scale [R, 1]; gate_scale, up_scale [1, C].
/// Source: Shazeer, "GLU Variants Improve Transformer", 2020.
void swiglu(Tile<const std::int32_t> gate, Tile<const std::int32_t> up, Tile<const float> row_scale,
            Tile<const float> gate_scale, Tile<const float> up_scale, float limit, Tile<float> h);
constexpr std::array<WorkItem, 6> swiglu_work(std::int64_t rows, std::int64_t cols, float limit) {
  const std::int64_t n = rows * cols;
  return {{{Operation::kCast, 2 * n},
           {Operation::kMul, 6 * n},
           {Operation::kSelect, limit > 0 ? 3 * n : 0},
           {Operation::kExp, n},
           {Operation::kAdd, 2 * n},
           {Operation::kDiv, n}}};
}

/// a = max(max over c of |x[r, c]|, floor); to_int8[r] = 127 / a; from_int8[r] = 1 / to_int8[r].
/// Shapes: x [R, C], C % 16 == 0; to_int8, from_int8 [R, 1].
void row_scales(Tile<const float> x, float floor, Tile<float> to_int8, Tile<float> from_int8);
constexpr std::array<WorkItem, 3> row_scales_work(std::int64_t rows, std::int64_t cols) {
  return {{{Operation::kSelect, 2 * rows * cols},
           {Operation::kReduce, rows * 16},
           {Operation::kDiv, 2 * rows}}};
}

/// y[r, c] = bf16((float(sums[r, c]) * row_scale[r]) * col_scale[c]).
/// Shapes: sums, y [R, C], C % 16 == 0; row_scale [R, 1]; col_scale [1, C].
void dequantize(Tile<const std::int32_t> sums, Tile<const float> row_scale,
                Tile<const float> col_scale, Tile<BFloat16> y);
constexpr std::array<WorkItem, 2> dequantize_work(std::int64_t rows, std::int64_t cols) {
  const std::int64_t n = rows * cols;
  return {{{Operation::kCast, 2 * n}, {Operation::kMul, 2 * n}}};
}

/// y[c] = bf16(((first[c] + rows[0, c]) + rows[1, c]) + ...), ascending.
/// Shapes: first, y [1, C], C % 16 == 0; rows [R, C].
void add_rows(Tile<const BFloat16> first, Tile<const BFloat16> rows, Tile<BFloat16> y);
constexpr std::array<WorkItem, 2> add_rows_work(std::int64_t rows, std::int64_t cols) {
  return {{{Operation::kCast, (rows + 2) * cols}, {Operation::kAdd, rows * cols}}};
}

}  // namespace cohort::simd
