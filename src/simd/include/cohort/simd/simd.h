#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "cohort/base/float16.h"
#include "cohort/base/result.h"
#include "cohort/base/tile.h"
#include "cohort/base/work.h"

/// Row and tile mathematics, one call per tile, dispatched at run time to AVX-512 or AVX2.
///
/// Requires: the shapes that each function names; a failed CHECK names function and operand.
/// Numerics: every + - * / sqrt is rounded to nearest float, in the order that the formula gives.
///   Dot products and sums of squares, and only they, use fused multiply-add, in 16 partial sums:
///   partial j takes the elements j, j + 16, j + 32, ... in ascending order, and the tree
///   ((0+8)+(4+12))+((2+10)+(6+14)) plus the same of the odd ones adds them. So results are the
///   same bits on every target, but for which NaN a NaN is.
/// Work: beside each function stands what it does to its tile, as a list of counted operations.
/// Thread safety: all functions are safe on distinct outputs.
namespace cohort::simd {

/// Partial sums per dot product; also the number of columns that tile widths are multiples of.
inline constexpr std::int64_t kPartials = 16;

namespace detail {
/// Conversions of n stream elements of type S to or from float.
template <class S>
constexpr std::int64_t casts(std::int64_t n) {
  return std::is_same_v<S, float> ? 0 : n;
}
}  // namespace detail

/// Whether this CPU can run the functions below at speed. Executors call it first.
/// Errors: kNotFound without AVX2 and FMA, where only a slow scalar form is left.
Status check_cpu();
/// The name of the instruction set in use: "AVX3" (AVX-512), "AVX2" or "scalar".
const char* target_name();

/// sums[r] += sum of squares of row r, the row's own sum first.
/// Shapes: x [R, C], C % 16 == 0; sums [R, 1].
void add_sums_of_squares(Tile<const float> x, Tile<float> sums);
void add_sums_of_squares(Tile<const BFloat16> x, Tile<float> sums);
template <class S>
constexpr std::array<WorkItem, 3> sums_of_squares_work(std::int64_t rows, std::int64_t cols) {
  return {{{Operation::kCast, detail::casts<S>(rows * cols)},
           {Operation::kFma, rows * cols},
           {Operation::kReduce, rows * kPartials}}};
}

/// inv[r] = 1 / sqrt(sums[r] * scale + eps).
/// Shapes: sums, inv [R, 1].
void inverse_rms(Tile<const float> sums, float scale, float eps, Tile<float> inv);
constexpr std::array<WorkItem, 4> inverse_rms_work(std::int64_t rows) {
  return {{{Operation::kMul, rows},
           {Operation::kAdd, rows},
           {Operation::kSqrt, rows},
           {Operation::kDiv, rows}}};
}

/// partials[m, 16 n + j] += sum over k = j mod 16 of x[m, k] * w[n, k], ascending, fused.
/// Calling it for consecutive ranges of k continues the same sums.
/// Shapes: x [M, K], w [N, K], partials [M, 16 N]; K % 16 == 0.
void accumulate_products(Tile<const float> x, Tile<const float> w, Tile<float> partials);
void accumulate_products(Tile<const BFloat16> x, Tile<const float> w, Tile<float> partials);
template <class S>
constexpr std::array<WorkItem, 2> products_work(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {{{Operation::kCast, detail::casts<S>(m * k)}, {Operation::kFma, m * n * k}}};
}

/// out[m, n] = the tree over partials[m, 16 n .. 16 n + 15].
/// Shapes: partials [M, 16 N], out [M, N].
void reduce_products(Tile<const float> partials, Tile<float> out);
constexpr std::array<WorkItem, 1> reduce_products_work(std::int64_t m, std::int64_t n) {
  return {{{Operation::kReduce, m * n * kPartials}}};
}

/// out = ((a + b) + c) + d.
/// Shapes: all [R, C], C % 16 == 0.
void add4(Tile<const float> a, Tile<const float> b, Tile<const float> c, Tile<const float> d,
          Tile<float> out);
constexpr std::array<WorkItem, 3> add4_work(std::int64_t rows, std::int64_t cols) {
  const WorkItem add{Operation::kAdd, rows * cols};
  return {add, add, add};
}

/// pre[t, c]  = sigmoid(mixes[t, c] * inv[t] * scale0 + base[c]) + eps,          c < 8
/// post[t, c] = 2 sigmoid(mixes[t, 4 + c] * inv[t] * scale1 + base[4 + c]),      c < 4
/// with sigmoid(l) = 1 / (1 + exp(-l)). Columns 4..7 of pre are computed like the others.
/// Shapes: mixes [R, >= 16], inv [R, 1], base [1, >= 16], pre [R, 8], post [R, 4].
void split_gates(Tile<const float> mixes, Tile<const float> inv, Tile<const float> base,
                 float scale0, float scale1, float eps, Tile<float> pre, Tile<float> post);
constexpr std::array<WorkItem, 6> split_gates_work(std::int64_t rows) {
  // One register row holds 16 columns of a token; both outputs are computed for all of them.
  const std::int64_t n = rows * kPartials;
  return {{{Operation::kMul, n},
           {Operation::kMul, 2 * n},
           {Operation::kAdd, 6 * n},
           {Operation::kExp, 2 * n},
           {Operation::kDiv, 2 * n},
           {Operation::kAdd, 2 * n}}};
}

/// y[r, c] = bf16((x0 * pre[r, 0] + x1 * pre[r, 1]) + (x2 * pre[r, 2] + x3 * pre[r, 3])).
/// Shapes: pre [R, >= 4]; x0..x3, y [R, C], C % 16 == 0.
void mix4(Tile<const float> pre, Tile<const float> x0, Tile<const float> x1, Tile<const float> x2,
          Tile<const float> x3, Tile<BFloat16> y);
void mix4(Tile<const float> pre, Tile<const BFloat16> x0, Tile<const BFloat16> x1,
          Tile<const BFloat16> x2, Tile<const BFloat16> x3, Tile<BFloat16> y);
template <class S>
constexpr std::array<WorkItem, 8> mix4_work(std::int64_t rows, std::int64_t cols) {
  const WorkItem mul{Operation::kMul, rows * cols};
  const WorkItem add{Operation::kAdd, rows * cols};
  const std::int64_t casts = rows * cols + detail::casts<S>(4 * rows * cols);
  return {mul, mul, mul, mul, add, add, add, WorkItem{Operation::kCast, casts}};
}

/// xg = x * gamma; sums = sum of x^2 as eight groups of C / 8, each summed, then added in order;
/// amax = max(max |xg|, floor).
/// Shapes: x, xg [R, C]; gamma [1, C]; sums, amax [R, 1]; C % 128 == 0.
void scale_by_gamma(Tile<const BFloat16> x, Tile<const BFloat16> gamma, float floor, Tile<float> xg,
                    Tile<float> sums, Tile<float> amax);
constexpr std::array<WorkItem, 5> scale_by_gamma_work(std::int64_t rows, std::int64_t cols) {
  const std::int64_t n = rows * cols;
  return {{{Operation::kCast, 2 * n},
           {Operation::kMul, n},
           {Operation::kFma, n},
           {Operation::kSelect, 2 * n},
           {Operation::kReduce, rows * 9 * kPartials}}};
}

/// inv = 1 / sqrt(sums * scale + eps); xn_scale = 127 / amax;
/// x_norm_scale = (amax * (1/127)) * inv.
///
/// Shapes: all [R, 1].
void norm_scales(Tile<const float> sums, Tile<const float> amax, float scale, float eps,
                 Tile<float> inv, Tile<float> xn_scale, Tile<float> x_norm_scale);
constexpr std::array<WorkItem, 7> norm_scales_work(std::int64_t rows) {
  return {{{Operation::kMul, rows},
           {Operation::kAdd, rows},
           {Operation::kSqrt, rows},
           {Operation::kDiv, rows},
           {Operation::kDiv, rows},
           {Operation::kMul, rows},
           {Operation::kMul, rows}}};
}

/// q[r, c] = int8(round(x[r, c] * scale[r])), ties to even.
/// Shapes: x, q [R, C], C % 16 == 0; scale [R, 1]. Requires: |x * scale| < 127.5.
void quantize(Tile<const float> x, Tile<const float> scale, Tile<std::int8_t> q);
constexpr std::array<WorkItem, 2> quantize_work(std::int64_t rows, std::int64_t cols) {
  return {{{Operation::kMul, rows * cols}, {Operation::kCast, rows * cols}}};
}

/// comb[t, 4 i + j] after the Sinkhorn normalisation of
/// l = mixes[t, 8 + 4 i + j] * inv[t] * scale + base[8 + 4 i + j]: a softmax over j plus eps, a
/// column step, then iterations - 1 times a row and a column step, each m / (sum + eps), with sums
/// as (0+1)+(2+3).
///
/// Shapes: mixes [R, >= 24], inv [R, 1], base [1, >= 24], comb [R, 16]; R <= 16.
/// Source: Sinkhorn, Knopp, "Concerning nonnegative matrices and doubly stochastic matrices", 1967.
void sinkhorn(Tile<const float> mixes, Tile<const float> inv, Tile<const float> base, float scale,
              float eps, std::int64_t iterations, Tile<float> comb);
constexpr std::array<WorkItem, 8> sinkhorn_work(std::int64_t iterations) {
  // Lanes are tokens: every operation is on a register row of 16 tokens.
  const std::int64_t m = 16 * kPartials;
  const std::int64_t steps = 2 * iterations - 1;
  return {{{Operation::kMul, 2 * m},
           {Operation::kAdd, m + 4 * 3 * kPartials + m + m},
           {Operation::kSelect, 4 * 3 * kPartials},
           {Operation::kExp, m},
           {Operation::kDiv, m},
           {Operation::kAdd, steps * 4 * 3 * kPartials},
           {Operation::kAdd, steps * 4 * kPartials},
           {Operation::kDiv, steps * m}}};
}

/// l = raw[m, n] * inv[m]; scores = sqrt(max(l, 0) + log1p(exp(-|l|))), the square root of
/// softplus; biased = scores + bias[n], unless biased has no data.
///
/// Shapes: raw, scores, biased [M, N], N % 16 == 0; inv [M, 1]; bias [1, N].
void router_scores(Tile<const float> raw, Tile<const float> inv, Tile<const float> bias,
                   Tile<float> scores, Tile<float> biased);
constexpr std::array<WorkItem, 7> router_scores_work(std::int64_t m, std::int64_t n) {
  const std::int64_t e = m * n;
  return {{{Operation::kMul, e},
           {Operation::kSelect, 2 * e},
           {Operation::kExp, e},
           {Operation::kLog, e},
           {Operation::kAdd, e},
           {Operation::kSqrt, e},
           {Operation::kAdd, 2 * e}}};
}

/// The `ids.cols` largest of each row of `keys`, descending, equal keys in order of index.
/// Shapes: keys [R, N], ids [R, k], 1 <= k <= 8, k <= N. Requires: no key is a NaN.
void top_k(Tile<const float> keys, Tile<std::int32_t> ids);
constexpr std::array<WorkItem, 1> top_k_work(std::int64_t rows, std::int64_t n) {
  return {{{Operation::kSort, rows * n}}};
}

/// weights[r, j] = scores[r, ids[r, j]] / (sum over j, ascending) * factor.
/// Shapes: scores [R, N]; ids, weights [R, k].
void route_weights(Tile<const float> scores, Tile<const std::int32_t> ids, float factor,
                   Tile<float> weights);
constexpr std::array<WorkItem, 3> route_weights_work(std::int64_t rows, std::int64_t k) {
  return {{{Operation::kAdd, rows * k}, {Operation::kDiv, rows * k}, {Operation::kMul, rows * k}}};
}

/// y[t, d] = (((x * post[t] + r0 * comb0[t]) + r1 * comb1[t]) + r2 * comb2[t]) + r3 * comb3[t],
/// rounded to bfloat16 if y is.
///
/// Shapes: x, residual[i], y [R, C], C % 16 == 0; gates [R, 5]: post, then comb of streams 0..3.
void post_mix(Tile<const BFloat16> x, const std::array<Tile<const float>, 4>& residual,
              Tile<const float> gates, Tile<float> y);
void post_mix(Tile<const BFloat16> x, const std::array<Tile<const BFloat16>, 4>& residual,
              Tile<const float> gates, Tile<BFloat16> y);
template <class S>
constexpr std::array<WorkItem, 10> post_mix_work(std::int64_t rows, std::int64_t cols) {
  const WorkItem mul{Operation::kMul, rows * cols};
  const WorkItem add{Operation::kAdd, rows * cols};
  const std::int64_t casts = rows * cols + detail::casts<S>(5 * rows * cols);
  return {mul, mul, mul, mul, mul, add, add, add, add, WorkItem{Operation::kCast, casts}};
}

/// y = value in every element. For any element type.
template <class T>
void fill(Tile<T> y, std::type_identity_t<T> value) {
  for (std::int64_t r = 0; r < y.rows; ++r) std::fill_n(y.row(r), y.cols, value);
}
constexpr std::array<WorkItem, 1> fill_work(std::int64_t rows, std::int64_t cols) {
  return {{{Operation::kCopy, rows * cols}}};
}

/// Element-wise, the same code as inside the functions above.
///
/// Shapes: x, y [R, C], C % 16 == 0.
/// Numerics: over all floats, exp is within 1.05 ulp of e^x (+inf above 88.7228, 0 below -103.98, a
///   NaN stays one) and log1p on [0, 1] within 1.33 ulp of log(1 + x). Only + - * / and rounding to
///   an integer, so that no library's differ.
void exp(Tile<const float> x, Tile<float> y);
void log1p(Tile<const float> x, Tile<float> y);
/// Rounds to bfloat16, ties to even.
void to_bfloat16(Tile<const float> x, Tile<BFloat16> y);

}  // namespace cohort::simd
