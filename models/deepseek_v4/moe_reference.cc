#include "deepseek_v4/moe_reference.h"

#include <algorithm>
#include <cmath>

namespace deepseek_v4::reference {
namespace {

std::int64_t size(const Vector& v) { return static_cast<std::int64_t>(v.size()); }
std::size_t at(std::int64_t row, std::int64_t cols, std::int64_t col) {
  return static_cast<std::size_t>(row * cols + col);
}
std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

Vector gate_up(const Vector& x, const Vector& x_scale, const Vector& w1, const Vector& w1_scale,
               const Vector& w3, const Vector& w3_scale, double limit) {
  const std::int64_t rows = size(x_scale);
  const std::int64_t inner = size(w1_scale);
  const std::int64_t hidden = size(w1) / inner;
  const Vector gate = product(x, w1, hidden);
  const Vector up = product(x, w3, hidden);
  Vector h;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t n = 0; n < inner; ++n) {
      double g = gate[at(r, inner, n)] * x_scale[index(r)] * w1_scale[index(n)];
      double u = up[at(r, inner, n)] * x_scale[index(r)] * w3_scale[index(n)];
      if (limit > 0) {
        if (g > limit) g = limit;
        if (std::abs(u) > limit) u = std::copysign(limit, u);
      }
      h.push_back(g * u / (1.0 + std::exp(-g)));
    }
  }
  return h;
}

QuantisedRows quantise_rows(const Vector& h, std::int64_t inner) {
  QuantisedRows out;
  for (std::int64_t r = 0; r < size(h) / inner; ++r) {
    double amax = 1e-4;
    for (std::int64_t n = 0; n < inner; ++n) amax = std::max(amax, std::abs(h[at(r, inner, n)]));
    for (std::int64_t n = 0; n < inner; ++n) {
      out.values.push_back(std::nearbyint(h[at(r, inner, n)] * (127.0 / amax)));
    }
    out.scale.push_back(amax / 127.0);
  }
  return out;
}

Vector down(const Vector& h, const Vector& row_scale, const Vector& w2, const Vector& w2_scale) {
  const std::int64_t rows = size(row_scale);
  const std::int64_t hidden = size(w2_scale);
  const Vector sums = product(h, w2, size(w2) / hidden);
  Vector y;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t d = 0; d < hidden; ++d) {
      y.push_back(
          round_to_bfloat16(sums[at(r, hidden, d)] * row_scale[index(r)] * w2_scale[index(d)]));
    }
  }
  return y;
}

Vector shared_routed(const Vector& sh, const Vector& routed, std::int64_t hidden, std::int64_t k) {
  Vector out;
  for (std::int64_t r = 0; r < size(sh) / hidden; ++r) {
    for (std::int64_t d = 0; d < hidden; ++d) {
      double sum = sh[at(r, hidden, d)];
      for (std::int64_t j = 0; j < k; ++j) sum += routed[at(r * k + j, hidden, d)];
      out.push_back(round_to_bfloat16(sum));
    }
  }
  return out;
}

Vector hc_head(const Vector& x, const Vector& fn, const Vector& base, double scale,
               std::int64_t hidden) {
  const std::int64_t flat = 4 * hidden;
  const Vector inv = inverse_rms(x, flat, 1e-6);
  const Vector mixes = product(x, fn, flat);
  Vector y;
  for (std::int64_t r = 0; r < size(x) / flat; ++r) {
    double pre[4];
    for (std::int64_t h = 0; h < 4; ++h) {
      const double l = mixes[at(r, 4, h)] * inv[index(r)] * scale + base[index(h)];
      pre[h] = 1.0 / (1.0 + std::exp(-l)) + 1e-6;
    }
    for (std::int64_t d = 0; d < hidden; ++d) {
      double sum = 0;
      for (std::int64_t h = 0; h < 4; ++h) sum += pre[h] * x[at(r, flat, h * hidden + d)];
      y.push_back(round_to_bfloat16(sum));
    }
  }
  return y;
}

}  // namespace deepseek_v4::reference
