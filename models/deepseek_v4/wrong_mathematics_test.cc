// Mathematics that shipped wrong elsewhere: each, put in the place of its operator, must fail the
// comparison with the reference, and the same code without the mistake must pass it.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/lane/run_in_order.h"

#include "deepseek_v4/check_outputs.h"
#include "deepseek_v4/inputs.h"

namespace deepseek_v4 {
namespace {

using cohort::BFloat16;

// A graph that has run, with the tensors an operator reads and writes.
class FinishedRun {
 public:
  FinishedRun(const PreNormOptions& options, ParameterSet set)
      : options_(options), scales_(hc_parameters(set).scales) {
    auto built = build_pre_norm(options_, scales_);
    EXPECT_TRUE(built) << built.error().message;
    graph_.emplace(*std::move(built));
    graph_->graph.poison_tensors();
    draw_inputs(*graph_, 21, set);
    cohort::run_in_order(graph_->graph);
  }

  template <class T = float>
  T* at(const std::string& name) const {
    return graph_->graph.find<T>(name)->host();
  }
  std::int64_t tokens() const { return graph_->extents.tokens; }
  std::int64_t hidden() const { return graph_->extents.hidden; }
  std::int64_t flat() const { return graph_->extents.flat; }
  std::int64_t experts() const { return graph_->extents.experts; }
  std::int64_t top_k() const { return graph_->extents.top_k; }
  const Config& config() const { return options_.config; }
  const HcScales& scales() const { return scales_; }

  bool passes(const std::string& tensor) const {
    for (const OutputCheck& c : check_outputs(*graph_, options_, scales_)) {
      if (c.tensor == tensor) return c.comparison.pass;
    }
    ADD_FAILURE() << "nothing compares " << tensor;
    return false;
  }

 private:
  PreNormOptions options_;
  HcScales scales_;
  std::optional<PreNormGraph> graph_;
};

// Recomputes one operator's output from what the run holds; `wrong` puts the mistake in.
using Operator = std::function<void(const FinishedRun& run, bool wrong)>;

struct Mutant {
  std::string name;
  std::string tensor;  // Whose comparison must notice.
  Operator compute;
  Preset preset = Preset::kToy;
  std::int64_t tokens = 8;
  ParameterSet set = ParameterSet::kLayer8Attention;
  bool hc_chain = false;
};

void PrintTo(const Mutant& m, std::ostream* out) { *out << m.name; }

float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

void post_mix(const FinishedRun& run, bool transposed) {
  for (std::int64_t t = 0; t < run.tokens(); ++t) {
    for (std::int64_t o = 0; o < 4; ++o) {
      for (std::int64_t d = 0; d < run.hidden(); ++d) {
        float sum = static_cast<float>(run.at<BFloat16>("ffn_out")[t * run.hidden() + d]) *
                    run.at("post")[4 * t + o];
        for (std::int64_t i = 0; i < 4; ++i) {
          const std::int64_t c = transposed ? 4 * o + i : 4 * i + o;
          sum += run.at("x_hc")[t * run.flat() + i * run.hidden() + d] * run.at("comb")[16 * t + c];
        }
        run.at("x_next")[t * run.flat() + o * run.hidden() + d] = sum;
      }
    }
  }
}

void post_gate(const FinishedRun& run, float factor, float eps) {
  for (std::int64_t t = 0; t < run.tokens(); ++t) {
    for (std::int64_t c = 0; c < 4; ++c) {
      const float mix = run.at("mixes_raw")[kMixPad * t + 4 + c] * run.at("inv_rms")[t];
      const float l = mix * run.scales().post + run.at("hc_ffn_base")[4 + c];
      run.at("post")[4 * t + c] = factor * sigmoid(l) + eps;
    }
  }
}

struct SinkhornForm {
  bool from_sigmoid = false;
  bool from_exponentials = false;  // Twenty times (row, column), without the softmax and its eps.
  float eps = 1e-6f;
  bool eps_outside = false;
};

void sinkhorn(const FinishedRun& run, const SinkhornForm& form) {
  for (std::int64_t t = 0; t < run.tokens(); ++t) {
    float m[4][4];
    for (int i = 0; i < 4; ++i) {
      float l[4];
      for (int j = 0; j < 4; ++j) {
        const int c = 8 + 4 * i + j;
        l[j] = run.at("mixes_raw")[kMixPad * t + c] * run.at("inv_rms")[t] * run.scales().comb +
               run.at("hc_ffn_base")[c];
      }
      const float largest = *std::max_element(l, l + 4);
      float sum = 0;
      for (int j = 0; j < 4; ++j) sum += m[i][j] = std::exp(l[j] - largest);
      for (int j = 0; j < 4; ++j) {
        if (form.from_exponentials) continue;
        m[i][j] = form.from_sigmoid ? sigmoid(l[j]) : m[i][j] / sum + form.eps;
      }
    }
    const auto divided = [&](float value, float sum) {
      return form.eps_outside ? value / sum + form.eps : value / (sum + form.eps);
    };
    const auto rows = [&] {
      for (auto& row : m) {
        const float sum = row[0] + row[1] + row[2] + row[3];
        for (float& v : row) v = divided(v, sum);
      }
    };
    const auto columns = [&] {
      for (int j = 0; j < 4; ++j) {
        const float sum = (m[0][j] + m[1][j]) + (m[2][j] + m[3][j]);
        for (auto& row : m) row[j] = divided(row[j], sum);
      }
    };
    for (int n = 0; n < 20; ++n) {
      if (n > 0 || form.from_exponentials) rows();
      columns();
    }
    std::copy(&m[0][0], &m[0][0] + 16, run.at("comb") + 16 * t);
  }
}

void inverse_rms(const FinishedRun& run, std::int64_t divisor) {
  for (std::int64_t t = 0; t < run.tokens(); ++t) {
    double sum = 0;
    for (std::int64_t i = 0; i < run.flat(); ++i) {
      const double x = run.at("x_hc")[t * run.flat() + i];
      sum += x * x;
    }
    run.at("inv_rms")[t] =
        static_cast<float>(1.0 / std::sqrt(sum / static_cast<double>(divisor) + 1e-6));
  }
}

BFloat16 half_away_from_zero(float value) {
  return BFloat16::from_bits(
      static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(value) + 0x8000u) >> 16));
}

void mix(const FinishedRun& run, std::int64_t columns, bool half_away) {
  for (std::int64_t t = 0; t < run.tokens(); ++t) {
    for (std::int64_t d = 0; d < run.hidden(); ++d) {
      float y[4];
      for (std::int64_t h = 0; h < 4; ++h) {
        y[h] = run.at("x_hc")[t * run.flat() + h * run.hidden() + d] *
               run.at("pre_val_store")[kGatePad * t + h];
      }
      const float sum = (y[0] + y[1]) + (y[2] + y[3]);
      BFloat16 result = half_away ? half_away_from_zero(sum) : BFloat16(sum);
      if (d >= columns) result.bits = 0x7FC1;  // Untouched memory.
      run.at<BFloat16>("x_mixed")[t * run.hidden() + d] = result;
    }
  }
}

// Gates and streams whose mixture lies exactly halfway between two bfloat16 in every element: the
// first gate is a half, and the first stream twice such a tie.
void set_ties(const FinishedRun& run) {
  for (std::int64_t t = 0; t < run.tokens(); ++t) {
    std::fill_n(run.at("pre_val_store") + kGatePad * t, kGatePad, 0.5f);
    std::fill_n(run.at("x_hc") + t * run.flat(), run.flat(), 0.0f);
    for (std::int64_t d = 0; d < run.hidden(); ++d) {
      const auto lower = static_cast<std::uint32_t>(0x3F80 + d % 100);
      run.at("x_hc")[t * run.flat() + d] = 2 * std::bit_cast<float>(lower << 16 | 0x8000u);
    }
  }
}

// mixes_raw from parts of the product over K; with one accumulator for all parts each part's result
// takes the place of the one before.
void linear(const FinishedRun& run, bool one_accumulator) {
  const std::int64_t part = run.flat() / kLinearSplits;
  for (std::int64_t t = 0; t < run.tokens(); ++t) {
    for (std::int64_t c = 0; c < 24; ++c) {
      double sum = 0;
      for (std::int64_t s = 0; s < kLinearSplits; ++s) {
        if (one_accumulator) sum = 0;
        for (std::int64_t i = s * part; i < (s + 1) * part; ++i) {
          sum += static_cast<double>(run.at("x_hc")[t * run.flat() + i]) *
                 static_cast<double>(run.at("hc_ffn_fn")[c * run.flat() + i]);
        }
      }
      run.at("mixes_raw")[kMixPad * t + c] = static_cast<float>(sum);
    }
  }
}

void weights(const FinishedRun& run, const char* scores, bool scales_first) {
  const std::int64_t pitch = run.experts() > 256 ? 512 : 256;
  for (std::int64_t t = 0; t < run.tokens(); ++t) {
    const std::int32_t* ids = run.at<std::int32_t>("indices") + t * run.top_k();
    const float factor = run.config().routed_scaling_factor;
    const auto score = [&](std::int64_t j) {
      return run.at(scores)[t * pitch + ids[j]] * (scales_first ? factor : 1.0f);
    };
    float sum = 0;
    for (std::int64_t j = 0; j < run.top_k(); ++j) sum += score(j);
    for (std::int64_t j = 0; j < run.top_k(); ++j) {
      run.at("weights")[t * run.top_k() + j] = score(j) / sum * (scales_first ? 1.0f : factor);
    }
  }
}

void quantisation_scale(const FinishedRun& run, bool by_reciprocal) {
  for (std::int64_t t = 0; t < run.tokens(); ++t) {
    float amax = 1e-4f;
    for (std::int64_t d = 0; d < run.hidden(); ++d) {
      amax = std::max(amax, std::abs(run.at("xg_buf")[t * run.hidden() + d]));
    }
    run.at("xn_scale_buf")[t] = by_reciprocal ? 1.0f / amax * 127.0f : 127.0f / amax;
  }
}

class WrongMathematics : public testing::TestWithParam<Mutant> {};

TEST_P(WrongMathematics, FailsTheComparison) {
  const Mutant& m = GetParam();
  const PreNormOptions options{.config = preset(m.preset),
                               .tokens = m.tokens,
                               .num_tokens = m.tokens,
                               .hc_chain = m.hc_chain};
  const FinishedRun run(options, m.set);
  EXPECT_TRUE(run.passes(m.tensor)) << "the operator itself";
  m.compute(run, false);
  EXPECT_TRUE(run.passes(m.tensor)) << "the right form of the mutant";
  m.compute(run, true);
  EXPECT_FALSE(run.passes(m.tensor)) << "the wrong form";
}

const Mutant kMutants[] = {
    {"W01_comb_untransposed", "x_next", post_mix},
    {"W02_post_without_two", "post",
     [](const FinishedRun& r, bool w) { post_gate(r, w ? 1.0f : 2.0f, 0); }},
    {"W02_post_with_eps", "post",
     [](const FinishedRun& r, bool w) { post_gate(r, 2, w ? 1e-6f : 0.0f); }, Preset::kToy, 8,
     ParameterSet::kLayer0Attention},
    {"W03_comb_from_sigmoid", "comb",
     [](const FinishedRun& r, bool w) { sinkhorn(r, {.from_sigmoid = w}); }},
    {"W03_twenty_row_steps", "comb",
     [](const FinishedRun& r, bool w) { sinkhorn(r, {.from_exponentials = w}); }, Preset::kToy, 8,
     ParameterSet::kLayer0Attention},
    {"W04_smaller_eps", "comb",
     [](const FinishedRun& r, bool w) { sinkhorn(r, {.eps = w ? 1e-8f : 1e-6f}); }, Preset::kToy, 8,
     ParameterSet::kLayer0Attention},
    {"W04_eps_outside_the_denominator", "comb",
     [](const FinishedRun& r, bool w) { sinkhorn(r, {.eps_outside = w}); }, Preset::kToy, 8,
     ParameterSet::kLayer0Attention},
    {"W05_rms_over_one_stream", "inv_rms",
     [](const FinishedRun& r, bool w) { inverse_rms(r, w ? r.hidden() : r.flat()); }},
    {"W06_wide_model_through_a_narrow_kernel", "x_mixed",
     [](const FinishedRun& r, bool w) { mix(r, w ? 4096 : r.hidden(), false); }, Preset::kPro, 8,
     ParameterSet::kLayer0Ffn, true},
    {"W07_one_accumulator_for_all_parts", "mixes_raw", linear},
    {"W08_half_away_from_zero", "x_mixed",
     [](const FinishedRun& r, bool w) {
       set_ties(r);
       mix(r, r.hidden(), w);
     }},
    {"W09_bias_in_the_weights", "weights",
     [](const FinishedRun& r, bool w) {
       weights(r, w ? "biased_scores_buf" : "route_scores_buf", false);
     }},
    {"W09_scale_before_renormalising", "weights",
     [](const FinishedRun& r, bool w) { weights(r, "route_scores_buf", w); }},
    {"W10_scale_by_reciprocal", "xn_scale_buf", quantisation_scale, Preset::kToy, 128},
};

INSTANTIATE_TEST_SUITE_P(Mutants, WrongMathematics, testing::ValuesIn(kMutants),
                         [](const auto& mutant) { return mutant.param.name; });

}  // namespace
}  // namespace deepseek_v4
