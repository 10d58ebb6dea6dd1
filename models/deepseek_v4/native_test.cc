// The fused graph on the native executor: the bytes of the unfused one, for any number of lanes and
// workers.
#include <chrono>
#include <cstring>
#include <map>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "cohort/base/random.h"
#include "cohort/lane/run_in_order.h"
#include "cohort/native/executor.h"
#include "cohort/observe/compare.h"

#include "deepseek_v4/inputs.h"
#include "deepseek_v4/pre_norm_graph.h"

namespace deepseek_v4 {
namespace {

using cohort::native::Executor;
using cohort::native::ExecutorOptions;
using cohort::native::PreparedGraph;
using cohort::native::RunStatus;

using TensorBytes = std::map<std::string, std::vector<std::byte>>;

PreNormGraph build(const PreNormOptions& options) {
  auto built = build_pre_norm(options, hc_parameters(ParameterSet::kLayer0Ffn).scales);
  EXPECT_TRUE(built) << built.error().message;
  built->graph.poison_tensors();
  draw_inputs(*built, 11);
  return *std::move(built);
}

// Poisons what a run computes; inputs stay.
void poison_outputs(const PreNormGraph& graph, const PreNormOptions& options) {
  for (const std::string& name : outputs_of(options)) {
    cohort::poison(*graph.graph.find_tensor(name));
  }
}

// What the unfused graph computes when its tasks run one by one.
TensorBytes expected_of(PreNormOptions options) {
  options.variant = Variant::kUnfused;
  const PreNormGraph graph = build(options);
  cohort::run_in_order(graph.graph);
  TensorBytes bytes;
  for (const std::string& name : outputs_of(options)) {
    const auto memory = graph.graph.find_tensor(name)->memory();
    bytes[name].assign(memory.begin(), memory.end());
  }
  return bytes;
}

void expect_outputs(const PreNormGraph& graph, const TensorBytes& expected) {
  for (const auto& [name, bytes] : expected) {
    const cohort::Tensor& tensor = *graph.graph.find_tensor(name);
    if (std::memcmp(tensor.data, bytes.data(), bytes.size()) == 0) continue;
    ADD_FAILURE() << name << ": "
                  << to_text(cohort::observe::compare_bits(tensor.memory(), bytes, tensor.dtype),
                             tensor.shape);
  }
}

void expect_all_variants_equal(PreNormOptions options, const std::vector<std::int64_t>& lanes) {
  const TensorBytes expected = expected_of(options);
  struct Launch {
    Variant variant;
    std::int64_t lanes;
  };
  std::vector<Launch> launches = {{Variant::kUnfused, 8}, {Variant::kHard, 48}};
  for (const std::int64_t n : lanes) {
    launches.push_back({Variant::kSlot, n});
    launches.push_back({Variant::kCounter, n});
  }
  for (const Launch& launch : launches) {
    options.variant = launch.variant;
    options.lanes = launch.lanes;
    const PreNormGraph graph = build(options);
    for (const cohort::Task& task : graph.graph.tasks()) {
      if (task.name == "fused_pre_norm") {
        EXPECT_EQ(task.bound.lanes, launch.lanes);
      }
    }
    for (const int workers : {1, 2, 3, 8}) {
      SCOPED_TRACE(std::to_string(workers) + " workers, " + std::to_string(launch.lanes) +
                   " lanes, variant " + std::to_string(static_cast<int>(launch.variant)));
      poison_outputs(graph, options);
      Executor executor({.workers = workers});
      auto prepared = executor.prepare(graph.graph);
      ASSERT_TRUE(prepared) << prepared.error().message;
      const auto result = executor.run(*prepared);
      ASSERT_EQ(result.status, RunStatus::kDone) << to_text(result.report);
      expect_outputs(graph, expected);
    }
  }
}

TEST(NativePreNorm, FusedEqualsUnfusedOnToy) {
  for (const bool bf16 : {false, true}) {
    expect_all_variants_equal(
        {.config = preset(Preset::kToy), .tokens = 128, .num_tokens = 77, .bf16_stream = bf16},
        {1, 2, 3, 5, 8, 16});
  }
}

TEST(NativePreNorm, FusedEqualsUnfusedOnFlash) {
  expect_all_variants_equal({.config = preset(Preset::kFlash), .tokens = 8, .num_tokens = 7},
                            {1, 3, 8});
}

TEST(NativePreNorm, AThousandRunsWithDelaysLeaveTheSameBytes) {
  std::atomic<std::uint64_t> calls{0};
  ExecutorOptions delayed;
  delayed.faults.before_phase = [&](const cohort::Task&, std::size_t, std::int64_t) {
    const cohort::Random random(5, calls.fetch_add(1));
    if (random.below(0, 4) != 0) return;
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(1, 50)));
  };
  PreNormOptions options{.config = preset(Preset::kToy), .tokens = 16, .num_tokens = 13};
  const TensorBytes expected = expected_of(options);
  int runs = 0;
  for (const int workers : {1, 2, 3, 8}) {
    delayed.workers = workers;
    Executor executor(delayed);
    for (const Variant variant : {Variant::kSlot, Variant::kCounter}) {
      options.variant = variant;
      const PreNormGraph graph = build(options);
      auto prepared = executor.prepare(graph.graph);
      ASSERT_TRUE(prepared) << prepared.error().message;
      for (int i = 0; i < 125; ++i, ++runs) {
        poison_outputs(graph, options);
        ASSERT_EQ(executor.run(*prepared).status, RunStatus::kDone);
        expect_outputs(graph, expected);
        ASSERT_FALSE(HasFailure()) << workers << " workers, run " << i;
      }
    }
  }
  EXPECT_EQ(runs, 1000);
}

// A debug entry that stops after a step leaves the arrivals of the barriers it passed, and nothing
// of later phases.
TEST(NativePreNorm, DebugStopsLeaveTheirArrivalsInTheWorkspace) {
  const struct {
    StopAfter stop;
    int barriers;
    bool has_mixed;
    bool has_normed;
  } kStops[] = {{StopAfter::kSplit, 0, false, false},
                {StopAfter::kBarrier1, 1, false, false},
                {StopAfter::kMix, 1, true, false},
                {StopAfter::kBarrier2, 2, true, false}};
  for (const Variant variant : {Variant::kSlot, Variant::kCounter}) {
    for (const auto& stop : kStops) {
      SCOPED_TRACE(static_cast<int>(stop.stop));
      const PreNormOptions options{
          .config = preset(Preset::kToy), .variant = variant, .stop_after = stop.stop};
      const PreNormGraph graph = build(options);
      ASSERT_EQ(cohort::native::run(graph.graph, {.workers = 3})->status, RunStatus::kDone);
      const auto words = graph.graph.find<std::int32_t>("sync_workspace");
      for (int lane = 0; lane < 8; ++lane) {
        const int slot = stop.barriers;
        const int counter = lane == 0 ? 8 * stop.barriers : 0;
        EXPECT_EQ(words->host()[8 * lane], variant == Variant::kSlot ? slot : counter) << lane;
      }
      const auto is_poisoned = [&](const char* name) {
        const cohort::Tensor& t = *graph.graph.find_tensor(name);
        std::uint64_t pattern = cohort::poison_pattern(t.dtype);
        return std::memcmp(t.data, &pattern, static_cast<std::size_t>(t.element_bytes())) == 0;
      };
      EXPECT_FALSE(is_poisoned("pre_val_store"));
      EXPECT_EQ(is_poisoned("x_mixed"), !stop.has_mixed);
      EXPECT_EQ(is_poisoned("xg_buf"), !stop.has_normed);
    }
  }
}

}  // namespace
}  // namespace deepseek_v4
