#include "deepseek_v4/check_outputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "deepseek_v4/reference.h"

namespace deepseek_v4 {
namespace {

using cohort::DType;
using cohort::Shape;
using cohort::Tensor;
using cohort::observe::Comparison;
using cohort::observe::Tolerance;
using reference::Vector;

const Tensor& tensor_of(const PreNormGraph& graph, const std::string& name) {
  const Tensor* tensor = graph.graph.find_tensor(name);
  COHORT_CHECK(tensor != nullptr, "the graph has no tensor " + name);
  return *tensor;
}

class Checker {
 public:
  Checker(const PreNormGraph& graph, const PreNormOptions& options, const HcScales& scales)
      : g_(graph),
        o_(options),
        s_(scales),
        tokens_(graph.extents.tokens),
        active_(active_tokens(options.num_tokens, tokens_)),
        normalised_(normalised_rows(options.num_tokens, tokens_)) {}

  std::vector<OutputCheck> run() && {
    hyper_connection_inputs();
    if (o_.stop_after >= StopAfter::kMix) mix();
    if (o_.stop_after == StopAfter::kFull) {
      norm();
      if (!o_.hc_chain) routing();
      comb_and_post();
    }
    return std::move(checks_);
  }

 private:
  const Tensor& tensor(const std::string& name) const { return tensor_of(g_, name); }

  // The first `rows` rows of a tensor, and of those the first `cols` columns.
  Vector values(const std::string& name, std::int64_t rows, std::int64_t cols = -1) const {
    const Tensor& t = tensor(name);
    const std::int64_t width = t.cols();
    if (cols < 0) cols = width;
    const auto bytes = t.memory().first(static_cast<std::size_t>(rows * width * t.element_bytes()));
    Vector all = cohort::observe::to_doubles(bytes, t.dtype);
    if (cols == width) return all;
    Vector part;
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto row = all.begin() + r * width;
      part.insert(part.end(), row, row + cols);
    }
    return part;
  }

  void add(std::string name, std::string rule, const Vector& actual, std::int64_t cols,
           const Comparison& comparison) {
    const std::int64_t rows = cols > 0 ? static_cast<std::int64_t>(actual.size()) / cols : 0;
    checks_.push_back({std::move(name), std::move(rule), {rows, cols}, comparison});
  }
  void within(const std::string& name, const std::string& rule, const Vector& actual,
              const Vector& expected, std::int64_t cols, Tolerance tolerance) {
    add(name, rule, actual, cols,
        cohort::observe::compare(actual, expected, tolerance, tensor(name).element_bytes()));
  }

  void hyper_connection_inputs() {
    const std::int64_t flat = g_.extents.flat;
    const Vector x = values("x_hc", tokens_);
    const Vector base = cohort::observe::to_doubles(tensor("hc_ffn_base"));
    const Vector inv = values("inv_rms", tokens_);
    within("inv_rms", "rel 2e-6", inv, reference::inverse_rms(x, flat, 1e-6), 1, {.rtol = 2e-6});

    const Vector mixes = values("mixes_raw", tokens_, 24);
    const Vector product = reference::product(x, values("hc_ffn_fn", 24), flat);
    const auto scaled = [&](Vector v) {
      for (std::size_t i = 0; i < v.size(); ++i) v[i] *= inv[i / 24];
      return v;
    };
    within("mixes_raw", "times inv_rms, abs 1e-4", scaled(mixes), scaled(product), 24,
           {.atol = 1e-4});

    const reference::Gates gates = reference::split_pre_post(mixes, inv, base, s_.pre, s_.post);
    within("pre_val_store", "rel 5e-6", values("pre_val_store", tokens_), gates.pre, 8,
           {.rtol = 5e-6});
    within("post", "rel 5e-6", values("post", tokens_), gates.post, 4, {.rtol = 5e-6});
  }

  void mix() {
    const std::int64_t hidden = g_.extents.hidden;
    const Vector actual = values("x_mixed", tokens_);
    const Vector expected =
        reference::mix_x(values("pre_val_store", tokens_), values("x_hc", tokens_), hidden);
    add("x_mixed", "1 bf16 ulp, 0.1 % flips", actual, hidden,
        bfloat16_sums(actual, expected, expected));
  }

  void norm() {
    const std::int64_t hidden = g_.extents.hidden;
    const reference::Norm expected = reference::ffn_norm(
        values("x_mixed", normalised_), cohort::observe::to_doubles(tensor("norm_w")));
    const Vector xg = values("xg_buf", normalised_);
    within("xg_buf", "exact", xg, expected.xg, hidden, {});
    within("ffn_inv_rms_buf", "rel 2e-6", values("ffn_inv_rms_buf", normalised_), expected.inv_rms,
           1, {.rtol = 2e-6});
    const Vector scale = values("xn_scale_buf", normalised_);
    Vector rounded;
    for (const double s : expected.xn_scale) rounded.push_back(static_cast<float>(s));
    within("xn_scale_buf", "exact", scale, rounded, 1, {});
    // gate_pre_route zeroes the rows of inactive tokens afterwards.
    const std::int64_t kept = o_.hc_chain ? normalised_ : active_;
    const Vector head(expected.x_norm_scale.begin(), expected.x_norm_scale.begin() + kept);
    within("x_norm_scale", "rel 2e-6", values("x_norm_scale", kept), head, 1, {.rtol = 2e-6});
    if (normalised_ > 0) {
      within("x_norm_i8", "1 step, 0.1 % of them", values("x_norm_i8", normalised_),
             reference::quantise(expected.xg, expected.xn_scale), hidden, {.ratio = 1e-3});
    }
  }

  void routing() {
    const std::int64_t experts = g_.extents.experts;
    const std::int64_t k = g_.extents.top_k;
    if (active_ == 0) return;
    const Vector scores = values("route_scores_buf", active_, experts);
    const Vector expected =
        reference::router_scores(values("xg_buf", active_), values("ffn_inv_rms_buf", active_),
                                 cohort::observe::to_doubles(tensor("gate_w")));
    within("route_scores_buf", "abs 1e-4, rel 2e-5", scores, expected, experts,
           {.atol = 1e-4, .rtol = 2e-5});
    const Vector chosen = values("indices", active_);
    std::vector<std::int64_t> ids;
    for (const double id : chosen) ids.push_back(static_cast<std::int64_t>(id));
    if (g_.hash_routing) {
      hash_ids(chosen);
    } else {
      sorted_ids(ids, expected);
    }
    const Vector weights = reference::route_weights(
        expected, experts, ids, k, static_cast<double>(o_.config.routed_scaling_factor));
    within("weights", "abs 2e-5 at the chosen ids", values("weights", active_), weights, k,
           {.atol = 2e-5});
  }

  void hash_ids(const Vector& chosen) {
    const Vector input_ids = values("input_ids", 1);
    const Vector table = cohort::observe::to_doubles(tensor("tid2eid"));
    const std::int64_t k = g_.extents.top_k;
    Vector expected;
    for (std::int64_t t = 0; t < active_; ++t) {
      const auto row = static_cast<std::size_t>(input_ids[static_cast<std::size_t>(t)]) *
                       static_cast<std::size_t>(k);
      for (std::int64_t j = 0; j < k; ++j)
        expected.push_back(table[row + static_cast<std::size_t>(j)]);
    }
    within("indices", "exact", chosen, expected, k, {});
  }

  // No expert that was left out, or chosen later, may beat one chosen before by more than both
  // tolerances.
  void sorted_ids(const std::vector<std::int64_t>& ids, const Vector& scores) {
    const std::int64_t experts = g_.extents.experts;
    const std::int64_t k = g_.extents.top_k;
    const Vector bias = cohort::observe::to_doubles(tensor("gate_bias"));
    Vector bad;
    for (std::int64_t t = 0; t < active_; ++t) {
      const auto key = [&](std::int64_t e) {
        return scores[static_cast<std::size_t>(t * experts + e)] +
               bias[static_cast<std::size_t>(e)];
      };
      const auto tolerance = [&](std::int64_t e) {
        return 1e-4 + 2e-5 * std::abs(scores[static_cast<std::size_t>(t * experts + e)]);
      };
      std::vector<bool> before(static_cast<std::size_t>(experts), false);
      for (std::int64_t j = 0; j < k; ++j) {
        const std::int64_t id = ids[static_cast<std::size_t>(t * k + j)];
        bool wrong = id < 0 || id >= experts || before[static_cast<std::size_t>(id)];
        for (std::int64_t e = 0; e < experts && !wrong; ++e) {
          if (before[static_cast<std::size_t>(e)] || e == id) continue;
          wrong = key(e) > key(id) + tolerance(e) + tolerance(id);
        }
        bad.push_back(wrong ? 1 : 0);
        if (id >= 0 && id < experts) before[static_cast<std::size_t>(id)] = true;
      }
    }
    within("indices", "no omitted expert beats a chosen one", bad, Vector(bad.size(), 0.0), k, {});
  }

  void comb_and_post() {
    const std::int64_t hidden = g_.extents.hidden;
    const Vector comb = values("comb", tokens_);
    const Vector expected = reference::comb_sinkhorn(
        values("mixes_raw", tokens_, 24), values("inv_rms", tokens_),
        cohort::observe::to_doubles(tensor("hc_ffn_base")), s_.comb, o_.config.hc_sinkhorn_iters);
    within("comb", "abs 1e-6, rel 5e-5", comb, expected, 16, {.atol = 1e-6, .rtol = 5e-5});

    const Vector next = values("x_next", tokens_);
    const Vector post = reference::hc_post(values("ffn_out", tokens_), values("x_hc", tokens_),
                                           values("post", tokens_), comb, hidden);
    if (o_.bf16_stream) {
      Vector rounded;
      for (const double v : post) rounded.push_back(reference::round_to_bfloat16(v));
      add("x_next", "1 bf16 ulp, 0.1 % flips", next, 4 * hidden,
          bfloat16_sums(next, rounded, post));
    } else {
      within("x_next", "abs 2e-6, rel 2e-6", next, post, 4 * hidden, {.atol = 2e-6, .rtol = 2e-6});
    }
  }

  // Where large terms cancel, one ulp of the sum is far below the error of adding them up in float:
  // there the distance from `exact` decides.
  static Comparison bfloat16_sums(const Vector& actual, Vector rounded, const Vector& exact) {
    for (std::size_t i = 0; i < actual.size(); ++i) {
      if (std::abs(actual[i] - exact[i]) <= 2e-6) rounded[i] = actual[i];
    }
    return cohort::observe::compare_bfloat16(actual, rounded, 1, 1e-3);
  }

  const PreNormGraph& g_;
  const PreNormOptions& o_;
  const HcScales& s_;
  std::int64_t tokens_, active_, normalised_;
  std::vector<OutputCheck> checks_;
};

// What rows of a tensor must hold, by their bits.
enum class Content { kZero, kPoison, kNegInf };

class StatusChecker {
 public:
  StatusChecker(const PreNormGraph& graph, const PreNormOptions& options)
      : g_(graph), o_(options) {}

  std::vector<OutputCheck> run() && {
    const Extents& e = g_.extents;
    const std::int64_t t = e.tokens;
    const std::int64_t tp = e.padded_tokens;
    const std::int64_t n = active_tokens(o_.num_tokens, t);
    const std::int64_t g = normalised_rows(o_.num_tokens, t);
    rows("inv_rms", t, tp, Content::kPoison);
    rows("mixes_raw", t, tp, Content::kZero);
    columns("mixes_raw", 0, t, 24, kMixPad, Content::kZero);
    rows("pre_val_store", t, tp, Content::kPoison);
    rows("xg_buf", g, tp, Content::kPoison);
    rows("ffn_inv_rms_buf", g, tp, Content::kPoison);
    rows("xn_scale_buf", g, tp, Content::kPoison);
    rows("x_norm_i8", g, t, Content::kPoison);
    if (o_.hc_chain) {
      rows("x_norm_scale", g, t, Content::kPoison);
      return std::move(checks_);
    }
    rows("x_norm_scale", n, t, Content::kZero);
    rows("indices", n, t, Content::kZero);
    rows("weights", n, t, Content::kZero);
    columns("biased_scores_buf", 0, tp, e.experts, e.score_pad, Content::kNegInf);
    return std::move(checks_);
  }

 private:
  void rows(const std::string& name, std::int64_t first, std::int64_t last, Content content) {
    columns(name, first, last, 0, tensor(name).cols(), content);
  }

  void columns(const std::string& name, std::int64_t first, std::int64_t last, std::int64_t col,
               std::int64_t end, Content content) {
    const Tensor& t = tensor(name);
    const std::int64_t size = t.element_bytes();
    std::vector<std::byte> actual;
    std::vector<std::byte> expected;
    for (std::int64_t r = first; r < last; ++r) {
      const std::byte* row = t.data + (r * t.cols() + col) * size;
      actual.insert(actual.end(), row, row + (end - col) * size);
      for (std::int64_t c = col; c < end; ++c) append(expected, t.dtype, content);
    }
    if (actual.empty()) return;
    constexpr const char* kRules[] = {"zero", "untouched", "smallest float"};
    checks_.push_back({name,
                       kRules[static_cast<std::size_t>(content)],
                       {last - first, end - col},
                       cohort::observe::compare_bits(actual, expected, t.dtype)});
  }

  static void append(std::vector<std::byte>& bytes, DType dtype, Content content) {
    std::uint64_t bits = 0;
    if (content == Content::kPoison) bits = cohort::poison_pattern(dtype);
    if (content == Content::kNegInf) {
      const float value = kNegInf;
      std::memcpy(&bits, &value, sizeof value);
    }
    std::byte element[8];
    std::memcpy(element, &bits, sizeof element);
    bytes.insert(bytes.end(), element, element + cohort::size_of(dtype));
  }

  const Tensor& tensor(const std::string& name) const { return tensor_of(g_, name); }

  const PreNormGraph& g_;
  const PreNormOptions& o_;
  std::vector<OutputCheck> checks_;
};

}  // namespace

std::vector<OutputCheck> check_outputs(const PreNormGraph& graph, const PreNormOptions& options,
                                       const HcScales& scales) {
  return Checker(graph, options, scales).run();
}

std::vector<OutputCheck> check_status(const PreNormGraph& graph, const PreNormOptions& options) {
  return StatusChecker(graph, options).run();
}

}  // namespace deepseek_v4
