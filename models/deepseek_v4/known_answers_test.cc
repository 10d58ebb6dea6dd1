// Inputs whose results are known: published values, ties, floors and rows of zeros.
#include <cmath>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/lane/run_in_order.h"

#include "deepseek_v4/inputs.h"
#include "deepseek_v4/pre_norm_graph.h"

namespace deepseek_v4 {
namespace {

using cohort::Graph;
using cohort::kernel_ref;
using testing::Each;
using testing::ElementsAre;

struct GateAnswers {
  ParameterSet set;
  double pre[8];
  double post[4];
  double comb[16];
};

// mixes * inv_rms = c - 11.5 in column c; computed in double precision from the model's weights.
constexpr GateAnswers kGateAnswers[] = {
    {ParameterSet::kLayer0Ffn,
     {0.752482298, 0.038596112, 0.043998404, 0.040774690, 0.083705206, 0.022765842, 0.000583168,
      0.519833090},
     {0.280731015, 0.074212582, 0.001782034, 1.210718153},
     {0.974965343, 0.000089839, 0.005394165, 0.019434751, 0.001580166, 0.995594297, 0.001404139,
      0.000852071, 0.005341633, 0.001603232, 0.987896448, 0.001994262, 0.018111858, 0.002711633,
      0.005304251, 0.977717912}},
    {ParameterSet::kLayer8Attention,
     {0.993578225, 0.011876403, 0.025202175, 0.018721439, 0.011199182, 0.192625915, 0.023110190,
      0.053838428},
     {0.030902987, 0.480875705, 0.058347199, 0.129450796},
     {0.969151078, 0.002367026, 0.052075225, 0.000411499, 0.002505813, 0.986798509, 0.001533984,
      0.001562681, 0.021901651, 0.007025163, 0.943336860, 0.035013799, 0.006440434, 0.003808310,
      0.003052922, 0.963011046}}};

TEST(KnownAnswers, GatesAndSinkhornOfTwoTrainedLayers) {
  for (const GateAnswers& answers : kGateAnswers) {
    const HcParameters& parameters = hc_parameters(answers.set);
    Graph graph;
    const auto inv = graph.tensor<float>("inv", {16, 1});
    const auto mixes = graph.tensor<float>("mixes", {16, kMixPad});
    const auto base = graph.tensor<float>("base", {24});
    const auto pre = graph.tensor<float>("pre", {16, kGatePad});
    const auto post = graph.tensor<float>("post", {8, 4});
    const auto comb = graph.tensor<float>("comb", {8, 16});
    // 1, 2, 4, ...: inv_rms and mixes scale against each other exactly.
    for (int t = 0; t < 16; ++t) {
      inv.host()[t] = std::ldexp(1.0f, t % 4);
      for (int c = 0; c < 24; ++c) {
        mixes.host()[kMixPad * t + c] = std::ldexp(static_cast<float>(c) - 11.5f, -(t % 4));
      }
    }
    std::ranges::copy(parameters.base, base.host());
    graph.submit(kernel_ref<SplitPrePost>(),
                 SplitPrePost::Args{inv, mixes, base, pre, post, parameters.scales.pre,
                                    parameters.scales.post});
    graph.submit(kernel_ref<CombSinkhorn>(),
                 CombSinkhorn::Args{inv, mixes, base, comb, parameters.scales.comb, 20});
    ASSERT_TRUE(graph.validate()) << graph.validate().error().message;
    cohort::run_in_order(graph);
    for (int t = 0; t < 8; ++t) {
      for (int c = 0; c < 8; ++c) {
        EXPECT_NEAR(pre.host()[kGatePad * t + c], answers.pre[c], 5e-6 * answers.pre[c]);
      }
      for (int c = 0; c < 4; ++c) {
        EXPECT_NEAR(post.host()[4 * t + c], answers.post[c], 5e-6 * answers.post[c]);
      }
      for (int c = 0; c < 16; ++c) {
        EXPECT_NEAR(comb.host()[16 * t + c], answers.comb[c], 1e-6 + 5e-5 * answers.comb[c]);
      }
    }
  }
}

// One row each of zeros, below the floor of amax, at it, and above.
TEST(KnownAnswers, TheFloorOfTheQuantisationScale) {
  constexpr std::int64_t kHidden = 1024;
  Graph graph;
  const auto x = graph.tensor<BFloat16>("x", {8, kHidden});
  const auto gamma = graph.tensor<BFloat16>("gamma", {kHidden});
  const auto xg = graph.tensor<float>("xg", {16, kHidden});
  const auto inv = graph.tensor<float>("inv", {16, 1});
  const auto scale = graph.tensor<float>("scale", {16, 1});
  const auto row_scale = graph.tensor<float>("row_scale", {8, 1});
  const auto q = graph.tensor<std::int8_t>("q", {8, kHidden});
  graph.poison_tensors();
  std::fill_n(gamma.host(), kHidden, BFloat16(2.0f));
  std::fill_n(x.host(), 8 * kHidden, BFloat16(0.0f));
  const float below = std::ldexp(1.0f, -15);  // Times gamma: 6.1e-5.
  const float above = std::ldexp(1.0f, -14);  // Times gamma: 1.2e-4.
  x.host()[1 * kHidden + 5] = BFloat16(below);
  x.host()[2 * kHidden + 6] = BFloat16(-above);
  for (std::int64_t d = 0; d < kHidden; ++d) x.host()[3 * kHidden + d] = BFloat16(1.0f);
  graph.submit(kernel_ref<FfnNorm>(), FfnNorm::Args{x, gamma, xg, inv, scale, row_scale, 8});
  graph.submit(kernel_ref<XNormQuant>(), XNormQuant::Args{xg, scale, q, 8});
  ASSERT_TRUE(graph.validate()) << graph.validate().error().message;
  cohort::run_in_order(graph);

  EXPECT_EQ(scale.host()[0], 127.0f / 1e-4f);
  EXPECT_EQ(scale.host()[1], 127.0f / 1e-4f) << "the floor is on |x gamma|";
  EXPECT_EQ(scale.host()[2], 127.0f / (2 * above));
  EXPECT_EQ(scale.host()[3], 63.5f);
  EXPECT_NEAR(inv.host()[0], 1000.0f, 2e-3f);
  EXPECT_NEAR(inv.host()[3], 1.0f / std::sqrt(1.0f + 1e-6f), 2e-6f);
  EXPECT_NEAR(row_scale.host()[3], 2.0f / 127.0f, 5e-8f);
  const auto row = [&](std::int64_t t) {
    return std::vector<int>(q.host() + t * kHidden, q.host() + (t + 1) * kHidden);
  };
  EXPECT_THAT(row(0), Each(0));
  EXPECT_EQ(row(1)[5], 78);  // 6.1e-5 * 1.27e6 = 77.5, a little above.
  EXPECT_EQ(row(2)[6], -127);
  EXPECT_EQ(row(2)[7], 0);
  EXPECT_THAT(row(3), Each(127));
}

TEST(KnownAnswers, QuantisationRoundsHalvesToEven) {
  constexpr std::int64_t kHidden = 1024;
  Graph graph;
  const auto xg = graph.tensor<float>("xg", {16, kHidden});
  const auto scale = graph.tensor<float>("scale", {16, 1});
  const auto q = graph.tensor<std::int8_t>("q", {8, kHidden});
  std::fill_n(scale.host(), 16, 0.5f);
  for (std::int64_t i = 0; i < 8 * kHidden; ++i) {
    xg.host()[i] = static_cast<float>(i % 509 - 254);  // Halves and wholes of -127 to 127.
  }
  graph.submit(kernel_ref<XNormQuant>(), XNormQuant::Args{xg, scale, q, 8});
  cohort::run_in_order(graph);
  for (std::int64_t i = 0; i < 8 * kHidden; ++i) {
    const auto twice = static_cast<int>(i % 509 - 254);
    const int lower = (twice - (twice & 1)) / 2;
    const int expected = (twice & 1) == 0 ? twice / 2 : lower + (lower & 1);
    ASSERT_EQ(q.host()[i], expected) << twice << " halves";
  }
}

class Ties : public testing::Test {
 protected:
  Ties() {
    auto result = build_pre_norm({.config = preset(Preset::kToy)},
                                 hc_parameters(ParameterSet::kLayer0Ffn).scales);
    EXPECT_TRUE(result) << result.error().message;
    built.emplace(*std::move(result));
    built->graph.poison_tensors();
    draw_inputs(*built, 4);
  }
  std::vector<int> ids_of(std::int64_t token) const {
    const auto indices = built->graph.find<std::int32_t>("indices");
    const std::int64_t k = indices->cols();
    return {indices->host() + token * k, indices->host() + (token + 1) * k};
  }
  float* at(const char* name) { return built->graph.find<float>(name)->host(); }
  std::optional<PreNormGraph> built;
};

TEST_F(Ties, EqualScoresGoToTheLowestIds) {
  const std::int64_t experts = built->extents.experts;
  std::fill_n(at("gate_w"), experts * built->extents.hidden, 0.0f);
  std::fill_n(at("gate_bias"), experts, 0.0f);
  cohort::run_in_order(built->graph);
  std::vector<int> lowest;
  for (int j = 0; j < built->extents.top_k; ++j) lowest.push_back(j);
  for (std::int64_t t = 0; t < 8; ++t) EXPECT_EQ(ids_of(t), lowest);
  // sqrt(softplus(0)) for each: the weights are equal and sum up to the factor.
  const float factor = preset(Preset::kToy).routed_scaling_factor;
  for (std::int64_t j = 0; j < 8 * built->extents.top_k; ++j) {
    EXPECT_NEAR(at("weights")[j], factor / static_cast<float>(built->extents.top_k), 1e-6f);
  }
}

TEST_F(Ties, EqualExpertsKeepTheirOrderAmongOthers) {
  // The last expert is the best, then two equal ones, far apart.
  const std::int64_t experts = built->extents.experts;
  std::fill_n(at("gate_w"), experts * built->extents.hidden, 0.0f);
  std::fill_n(at("gate_bias"), experts, -1.0f);
  at("gate_bias")[experts - 1] = 3;
  at("gate_bias")[experts - 2] = 2;
  at("gate_bias")[3] = 2;
  cohort::run_in_order(built->graph);
  const std::vector<int> ids = ids_of(5);
  EXPECT_EQ(ids[0], experts - 1);
  if (ids.size() > 2) {
    EXPECT_EQ(ids[1], 3);
    EXPECT_EQ(ids[2], experts - 2);
  }
}

TEST(Routing, TablesThatCannotBeRoutedByAreRefused) {
  const PreNormOptions options{.config = preset(Preset::kToy), .layer_id = 0};
  auto built = build_pre_norm(options, hc_parameters(ParameterSet::kLayer0Ffn).scales);
  ASSERT_TRUE(built) << built.error().message;
  ASSERT_TRUE(built->hash_routing);
  draw_inputs(*built, 4);
  std::int64_t* ids = built->graph.find<std::int64_t>("input_ids")->host();
  const auto table = *built->graph.find<std::int32_t>("tid2eid");
  const auto refusal = [&](std::int64_t n) {
    const cohort::Status status = validate_routing(*built, n);
    return status ? "" : status.error().message;
  };
  EXPECT_EQ(refusal(8), "");
  const std::int64_t id = ids[2];
  ids[2] = table.rows();
  EXPECT_EQ(refusal(8), "input_ids[2] is " + std::to_string(table.rows()) + ", expected 0 to " +
                            std::to_string(table.rows() - 1));
  EXPECT_EQ(refusal(2), "") << "inactive tokens aren't routed";
  ids[2] = -1;
  EXPECT_EQ(refusal(3), "input_ids[2] is -1, expected 0 to " + std::to_string(table.rows() - 1));
  ids[2] = id;
  std::int32_t* entry = table.host() + id * table.cols();
  const std::int32_t expert = entry[1];
  const std::string where = "tid2eid[" + std::to_string(id) + ", 1]";
  entry[1] = static_cast<std::int32_t>(built->extents.experts);
  EXPECT_EQ(refusal(8), where + " is " + std::to_string(built->extents.experts) +
                            ", expected 0 to " + std::to_string(built->extents.experts - 1));
  entry[1] = entry[0];
  EXPECT_EQ(refusal(8), where + " names expert " + std::to_string(entry[0]) +
                            " a second time: the experts of a token are distinct");
  entry[1] = expert;
  EXPECT_EQ(refusal(8), "");
}

}  // namespace
}  // namespace deepseek_v4
