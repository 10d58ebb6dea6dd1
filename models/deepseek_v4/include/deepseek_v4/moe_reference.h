#pragma once

#include <cstdint>

#include "deepseek_v4/reference.h"

/// The mathematics of DeepSeek-V4's experts and of the model's tail in double precision, as plain
/// loops that share no code with the kernels. Rounded only where the data types are: INT8
/// activations to integers, sh, recv_y, ffn_out and y to bfloat16. Sums of integers are exact.
namespace deepseek_v4::reference {

/// Shapes: x [rows, D] and w1, w3 [I, D] of integers, x_scale [rows], w1_scale, w3_scale [I] ->
/// [rows, I]. `limit` 0 cuts nothing.
Vector gate_up(const Vector& x, const Vector& x_scale, const Vector& w1, const Vector& w1_scale,
               const Vector& w3, const Vector& w3_scale, double limit);

struct QuantisedRows {
  Vector values;  ///< [rows, I] of integers.
  Vector scale;   ///< [rows]: back from them.
};
/// Shapes: h [rows, I].
QuantisedRows quantise_rows(const Vector& h, std::int64_t inner);

/// Shapes: h [rows, I] and w2 [D, I] of integers, row_scale [rows], w2_scale [D] -> [rows, D] in
/// bfloat16.
Vector down(const Vector& h, const Vector& row_scale, const Vector& w2, const Vector& w2_scale);

/// Shapes: sh [rows, D], routed [rows k, D] -> [rows, D] in bfloat16.
Vector shared_routed(const Vector& sh, const Vector& routed, std::int64_t hidden, std::int64_t k);

/// Shapes: x [rows, 4 D], fn [4, 4 D], base [4] -> [rows, D] in bfloat16.
Vector hc_head(const Vector& x, const Vector& fn, const Vector& base, double scale,
               std::int64_t hidden);

}  // namespace deepseek_v4::reference
