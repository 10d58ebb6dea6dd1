#pragma once

#include <cstdint>
#include <vector>

/// The mathematics of DeepSeek-V4's MoE pre-processing in double precision, as plain loops. Shares
/// no code with the kernels. Values are rounded only where the model's own data types do: x_mixed
/// to bfloat16, x_norm_i8 to an integer; everything else carries double.
///
/// Matrices are row-major vectors. Each function takes what the operator takes, so that it can be
/// fed with the values an implementation computed (staged) or with its own (chained).
namespace deepseek_v4::reference {

using Vector = std::vector<double>;

/// Shapes: x [rows, cols] -> [rows].
Vector inverse_rms(const Vector& x, std::int64_t cols, double eps);

/// Shapes: x [rows, k], w [outputs, k] -> [rows, outputs].
Vector product(const Vector& x, const Vector& w, std::int64_t k);

struct Gates {
  Vector pre;   ///< [rows, 8].
  Vector post;  ///< [rows, 4].
};
/// Shapes: mixes [rows, 24], inv [rows], base [24].
Gates split_pre_post(const Vector& mixes, const Vector& inv, const Vector& base, double scale0,
                     double scale1);

/// Shapes: pre [rows, 8], x [rows, 4 D] -> [rows, D] in bfloat16.
Vector mix_x(const Vector& pre, const Vector& x, std::int64_t hidden);

struct Norm {
  Vector xg;            ///< [rows, D].
  Vector inv_rms;       ///< [rows].
  Vector xn_scale;      ///< [rows].
  Vector x_norm_scale;  ///< [rows].
};
/// Shapes: x [rows, D], gamma [D].
Norm ffn_norm(const Vector& x, const Vector& gamma);

/// Shapes: xg [rows, D], scale [rows] -> [rows, D] of integers.
Vector quantise(const Vector& xg, const Vector& scale);

/// sqrt(softplus(inv[t] * product)). Shapes: xg [rows, D], inv [rows], w [E, D] -> [rows, E].
Vector router_scores(const Vector& xg, const Vector& inv, const Vector& w);

/// Ids of the k largest of each row, descending, equal ones by id. Shapes: keys [rows, E] -> [rows,
/// k].
std::vector<std::int64_t> top_k(const Vector& keys, std::int64_t experts, std::int64_t k);

/// Shapes: scores [rows, E], ids [rows, k] -> [rows, k].
Vector route_weights(const Vector& scores, std::int64_t experts,
                     const std::vector<std::int64_t>& ids, std::int64_t k, double factor);

/// Shapes: mixes [rows, 24], inv [rows], base [24] -> [rows, 16].
Vector comb_sinkhorn(const Vector& mixes, const Vector& inv, const Vector& base, double scale2,
                     std::int64_t iterations);

/// Shapes: out [rows, D], x [rows, 4, D], post [rows, 4], comb [rows, 16] -> [rows, 4, D].
Vector hc_post(const Vector& out, const Vector& x, const Vector& post, const Vector& comb,
               std::int64_t hidden);

/// The nearest bfloat16, ties to even, as a double.
double round_to_bfloat16(double value);

}  // namespace deepseek_v4::reference
