#include "deepseek_v4/reference.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace deepseek_v4::reference {
namespace {

std::size_t at(std::int64_t row, std::int64_t cols, std::int64_t col) {
  return static_cast<std::size_t>(row * cols + col);
}

std::int64_t rows_of(const Vector& v, std::int64_t cols) {
  return static_cast<std::int64_t>(v.size()) / cols;
}

double sigmoid(double l) { return 1.0 / (1.0 + std::exp(-l)); }

constexpr std::int64_t kMixes = 24;
constexpr double kEps = 1e-6;

}  // namespace

double round_to_bfloat16(double value) {
  if (value == 0.0 || !std::isfinite(value)) return value;
  int exponent = 0;
  std::frexp(value, &exponent);                  // |value| in [2^(exponent - 1), 2^exponent).
  const int ulp = std::max(exponent - 8, -133);  // Eight significant bits; denormals have fewer.
  return std::ldexp(std::nearbyint(std::ldexp(value, -ulp)), ulp);
}

Vector inverse_rms(const Vector& x, std::int64_t cols, double eps) {
  Vector inv;
  for (std::int64_t r = 0; r < rows_of(x, cols); ++r) {
    double sum = 0;
    for (std::int64_t c = 0; c < cols; ++c) sum += x[at(r, cols, c)] * x[at(r, cols, c)];
    inv.push_back(1.0 / std::sqrt(sum / static_cast<double>(cols) + eps));
  }
  return inv;
}

Vector product(const Vector& x, const Vector& w, std::int64_t k) {
  const std::int64_t outputs = rows_of(w, k);
  Vector out;
  for (std::int64_t r = 0; r < rows_of(x, k); ++r) {
    for (std::int64_t n = 0; n < outputs; ++n) {
      double sum = 0;
      for (std::int64_t i = 0; i < k; ++i) sum += x[at(r, k, i)] * w[at(n, k, i)];
      out.push_back(sum);
    }
  }
  return out;
}

Gates split_pre_post(const Vector& mixes, const Vector& inv, const Vector& base, double scale0,
                     double scale1) {
  Gates gates;
  for (std::int64_t r = 0; r < rows_of(mixes, kMixes); ++r) {
    const double scale = inv[static_cast<std::size_t>(r)];
    for (std::int64_t c = 0; c < 8; ++c) {
      const double l = mixes[at(r, kMixes, c)] * scale * scale0 + base[static_cast<std::size_t>(c)];
      gates.pre.push_back(sigmoid(l) + kEps);
    }
    for (std::int64_t c = 4; c < 8; ++c) {
      const double l = mixes[at(r, kMixes, c)] * scale * scale1 + base[static_cast<std::size_t>(c)];
      gates.post.push_back(2.0 * sigmoid(l));
    }
  }
  return gates;
}

Vector mix_x(const Vector& pre, const Vector& x, std::int64_t hidden) {
  Vector out;
  for (std::int64_t r = 0; r < rows_of(pre, 8); ++r) {
    for (std::int64_t d = 0; d < hidden; ++d) {
      double sum = 0;
      for (std::int64_t h = 0; h < 4; ++h) {
        sum += pre[at(r, 8, h)] * x[at(r, 4 * hidden, h * hidden + d)];
      }
      out.push_back(round_to_bfloat16(sum));
    }
  }
  return out;
}

Norm ffn_norm(const Vector& x, const Vector& gamma) {
  const auto hidden = static_cast<std::int64_t>(gamma.size());
  Norm norm;
  norm.inv_rms = inverse_rms(x, hidden, kEps);
  for (std::int64_t r = 0; r < rows_of(x, hidden); ++r) {
    double amax = 1e-4;
    for (std::int64_t d = 0; d < hidden; ++d) {
      const double xg = x[at(r, hidden, d)] * gamma[static_cast<std::size_t>(d)];
      norm.xg.push_back(xg);
      amax = std::max(amax, std::abs(xg));
    }
    norm.xn_scale.push_back(127.0 / amax);
    norm.x_norm_scale.push_back(amax / 127.0 * norm.inv_rms[static_cast<std::size_t>(r)]);
  }
  return norm;
}

Vector quantise(const Vector& xg, const Vector& scale) {
  const std::int64_t hidden = rows_of(xg, static_cast<std::int64_t>(scale.size()));
  Vector q;
  for (std::size_t i = 0; i < xg.size(); ++i) {
    q.push_back(std::nearbyint(xg[i] * scale[i / static_cast<std::size_t>(hidden)]));
  }
  return q;
}

Vector router_scores(const Vector& xg, const Vector& inv, const Vector& w) {
  const std::int64_t hidden = rows_of(xg, static_cast<std::int64_t>(inv.size()));
  const std::int64_t experts = rows_of(w, hidden);
  Vector scores = product(xg, w, hidden);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const double l = scores[i] * inv[i / static_cast<std::size_t>(experts)];
    scores[i] = std::sqrt(std::max(l, 0.0) + std::log1p(std::exp(-std::abs(l))));
  }
  return scores;
}

std::vector<std::int64_t> top_k(const Vector& keys, std::int64_t experts, std::int64_t k) {
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> order(static_cast<std::size_t>(experts));
  for (std::int64_t r = 0; r < rows_of(keys, experts); ++r) {
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return keys[at(r, experts, a)] > keys[at(r, experts, b)];
    });
    ids.insert(ids.end(), order.begin(), order.begin() + k);
  }
  return ids;
}

Vector route_weights(const Vector& scores, std::int64_t experts,
                     const std::vector<std::int64_t>& ids, std::int64_t k, double factor) {
  Vector weights;
  for (std::int64_t r = 0; r < rows_of(scores, experts); ++r) {
    double sum = 0;
    for (std::int64_t j = 0; j < k; ++j) sum += scores[at(r, experts, ids[at(r, k, j)])];
    for (std::int64_t j = 0; j < k; ++j) {
      weights.push_back(scores[at(r, experts, ids[at(r, k, j)])] / sum * factor);
    }
  }
  return weights;
}

Vector comb_sinkhorn(const Vector& mixes, const Vector& inv, const Vector& base, double scale2,
                     std::int64_t iterations) {
  Vector comb;
  for (std::int64_t r = 0; r < rows_of(mixes, kMixes); ++r) {
    double m[4][4];
    for (std::int64_t i = 0; i < 4; ++i) {
      double largest = -INFINITY;
      for (std::int64_t j = 0; j < 4; ++j) {
        const std::int64_t c = 8 + 4 * i + j;
        m[i][j] = mixes[at(r, kMixes, c)] * inv[static_cast<std::size_t>(r)] * scale2 +
                  base[static_cast<std::size_t>(c)];
        largest = std::max(largest, m[i][j]);
      }
      double sum = 0;
      for (double& v : m[i]) sum += v = std::exp(v - largest);
      for (double& v : m[i]) v = v / sum + kEps;
    }
    const auto columns = [&] {
      for (std::int64_t j = 0; j < 4; ++j) {
        const double sum = m[0][j] + m[1][j] + m[2][j] + m[3][j] + kEps;
        for (auto& row : m) row[j] /= sum;
      }
    };
    columns();
    for (std::int64_t n = 1; n < iterations; ++n) {
      for (auto& row : m) {
        const double sum = row[0] + row[1] + row[2] + row[3] + kEps;
        for (double& v : row) v /= sum;
      }
      columns();
    }
    for (const auto& row : m) comb.insert(comb.end(), row, row + 4);
  }
  return comb;
}

Vector hc_post(const Vector& out, const Vector& x, const Vector& post, const Vector& comb,
               std::int64_t hidden) {
  Vector next;
  for (std::int64_t r = 0; r < rows_of(post, 4); ++r) {
    for (std::int64_t o = 0; o < 4; ++o) {
      for (std::int64_t d = 0; d < hidden; ++d) {
        double sum = out[at(r, hidden, d)] * post[at(r, 4, o)];
        for (std::int64_t i = 0; i < 4; ++i) {
          sum += x[at(r, 4 * hidden, i * hidden + d)] * comb[at(r, 16, 4 * i + o)];
        }
        next.push_back(sum);
      }
    }
  }
  return next;
}

}  // namespace deepseek_v4::reference
