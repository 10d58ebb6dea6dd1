#include "deepseek_v4/fused_pre_norm.h"

#include <string>

#include <gtest/gtest.h>

#include "cohort/lane/plan.h"
#include "cohort/lane/run_in_order.h"
#include "cohort/observe/compare.h"

#include "deepseek_v4/inputs.h"
#include "deepseek_v4/pre_norm_graph.h"

namespace deepseek_v4 {
namespace {

// What a lane publishes or acquires, as lines.
struct Expected {
  Preset preset;
  std::int64_t tokens;
  std::int64_t num_tokens;
  std::int64_t blocks[3];
  std::int64_t publish1_total;
  std::int64_t acquire1_of_lane0;
  std::int64_t publish2_total;
  std::int64_t acquire2_of_lane0;
};

class FusedRanges : public testing::TestWithParam<Expected> {};

// The table of work and byte ranges of the case study, in lines of 64 bytes.
TEST_P(FusedRanges, WorkAndRangesAreTheCaseStudys) {
  const Expected& e = GetParam();
  const PreNormOptions options{.config = preset(e.preset),
                               .tokens = e.tokens,
                               .num_tokens = e.num_tokens,
                               .variant = Variant::kSlot};
  const auto built = build_pre_norm(options, {});
  ASSERT_TRUE(built) << built.error().message;
  for (const cohort::Task& task : built->graph.tasks()) {
    if (task.name != "fused_pre_norm") continue;
    EXPECT_EQ(task.bound.lanes, 8);
    for (std::size_t p = 0; p < 3; ++p) EXPECT_EQ(task.bound.phases[p].blocks, e.blocks[p]) << p;
    const auto plan = cohort::plan_fusion(task.bound);
    ASSERT_TRUE(plan) << plan.error().message;
    ASSERT_EQ(plan->repartitions.size(), 2u);
    EXPECT_EQ(plan->repartitions[0].tensor->name, "pre_val_store");
    EXPECT_EQ(plan->repartitions[1].tensor->name, "x_mixed");
    std::int64_t publish[2] = {};
    for (std::size_t k = 0; k < 2; ++k) {
      for (const cohort::LaneMaintenance& lane : plan->barriers[k]) {
        publish[k] += lane.publish_lines();
      }
    }
    EXPECT_EQ(publish[0], e.publish1_total);
    EXPECT_EQ(publish[1], e.publish2_total);
    EXPECT_EQ(plan->barriers[0][0].acquire_lines(), e.acquire1_of_lane0);
    EXPECT_EQ(plan->barriers[1][0].acquire_lines(), e.acquire2_of_lane0);
    return;
  }
  FAIL() << "the graph has no fused_pre_norm";
}

INSTANTIATE_TEST_SUITE_P(
    CaseStudy, FusedRanges,
    testing::Values(Expected{Preset::kFlash, 8, 0, {1, 4, 0}, 4, 4, 1024, 0},
                    Expected{Preset::kFlash, 8, 1, {1, 4, 8}, 4, 4, 1024, 128},
                    Expected{Preset::kFlash, 8, 8, {1, 4, 8}, 4, 4, 1024, 128},
                    Expected{Preset::kFlash, 128, 0, {16, 64, 0}, 64, 32, 16384, 0},
                    Expected{Preset::kFlash, 128, 16, {16, 64, 16}, 64, 32, 16384, 256},
                    Expected{Preset::kFlash, 128, 128, {16, 64, 128}, 64, 32, 16384, 2048},
                    Expected{Preset::kPro, 8, 8, {1, 7, 8}, 4, 4, 1792, 224},
                    Expected{Preset::kPro, 128, 128, {16, 112, 128}, 64, 56, 28672, 3584}));

// Run in order, the fused graph leaves the bytes of the unfused one in every output.
TEST(FusedPreNorm, LeavesTheBytesOfTheUnfusedChain) {
  PreNormOptions options{.config = preset(Preset::kToy), .tokens = 16, .num_tokens = 9};
  const HcScales scales = hc_parameters(ParameterSet::kLayer0Ffn).scales;
  auto unfused = build_pre_norm(options, scales);
  ASSERT_TRUE(unfused);
  for (const Variant variant : {Variant::kSlot, Variant::kCounter, Variant::kHard}) {
    options.variant = variant;
    auto fused = build_pre_norm(options, scales);
    ASSERT_TRUE(fused) << fused.error().message;
    for (PreNormGraph* graph : {&*unfused, &*fused}) {
      graph->graph.poison_tensors();
      draw_inputs(*graph, 3);
      cohort::run_in_order(graph->graph);
    }
    for (const std::string& name : outputs_of(options)) {
      const cohort::Tensor* a = unfused->graph.find_tensor(name);
      const cohort::Tensor* b = fused->graph.find_tensor(name);
      ASSERT_NE(a, nullptr) << name;
      ASSERT_NE(b, nullptr) << name;
      const auto c = cohort::observe::compare_bits(b->memory(), a->memory(), a->dtype);
      EXPECT_TRUE(c.pass) << name << ": " << to_text(c, a->shape);
    }
  }
}

}  // namespace
}  // namespace deepseek_v4
