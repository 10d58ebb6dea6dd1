// Cohort's side of `cohort bench`: the same benchmarks as the peers', and those that compare Cohort
// with itself.
#include <memory>
#include <optional>

#include "cohort/lane/fuse.h"
#include "cohort/native/executor.h"

#include "deepseek_v4/inputs.h"
#include "deepseek_v4/pre_norm_graph.h"
#include "peers/samples.h"

namespace {

using cohort::Barrier;
using cohort::Graph;
using cohort::InOut;
using cohort::KernelRef;
using cohort::Launch;
using cohort::Submission;
using cohort::native::Executor;
using cohort::native::PreparedGraph;
using cohort::native::RunStatus;
using samples::Benchmark;

struct Empty {
  static constexpr cohort::KernelInfo kInfo{.name = "empty"};
  struct Args {
    InOut<std::int32_t> workspace;
    std::int64_t count = 0;
    COHORT_OPERANDS(workspace, count)
  };
  static std::int64_t blocks(const Args& a) { return a.count; }
  static std::int64_t capacity(const Args&) { return 64; }
  template <class L>
  static void run(L&, const Args&, std::int64_t) {}
};

PreparedGraph prepared(const Executor& executor, const Graph& graph) {
  auto result = executor.prepare(graph);
  COHORT_CHECK(result.has_value(), result ? "" : result.error().message);
  return *std::move(result);
}

double run_once(Executor& executor, PreparedGraph& graph) {
  const auto result = executor.run(graph);
  COHORT_CHECK(result.status == RunStatus::kDone, to_text(result.report));
  return static_cast<double>(result.elapsed.value);
}

std::vector<double> run_times(Executor& executor, PreparedGraph& graph, int count, double per) {
  std::vector<double> taken;
  for (int i = -2; i < count; ++i) {
    const double nanos = run_once(executor, graph) / per;
    if (i >= 0) taken.push_back(nanos);
  }
  return taken;
}

// A grid that does nothing but meet.
std::vector<double> barrier(Barrier kind, std::int64_t lanes, int workers) {
  constexpr int kMeetings = 4000;
  const auto self = [](const Empty::Args& a) { return a; };
  auto fusion =
      cohort::fuse<Empty::Args>("meet", {.lanes = lanes, .barrier = kind, .vector_cores = lanes})
          .phase<Empty>(self);
  for (int i = 0; i < kMeetings; ++i) std::move(fusion).barrier().phase<Empty>(self);
  KernelRef kernel = std::move(fusion);
  Graph graph;
  const auto workspace = graph.tensor<std::int32_t>("workspace", {512}, {.initial = 0});
  graph.submit(kernel, Empty::Args{workspace, 0}, {.sync_start = true});
  Executor executor({.workers = workers});
  PreparedGraph plan = prepared(executor, graph);
  return run_times(executor, plan, workers > 2 ? 7 : 21, kMeetings);
}

// `count` layers of `width` tasks with empty bodies; each waits for all of the layer before.
Graph layers_graph(int count, int width) {
  Graph graph;
  const auto none = graph.tensor<std::int32_t>("none", {1}, {.manual_dep = true});
  std::vector<cohort::TaskId> before;
  Submission last;
  for (int layer = 0; layer < count; ++layer) {
    std::vector<cohort::TaskId> now;
    for (int i = 0; i < width; ++i) {
      const auto handle = last.id.value == 0 && now.empty() && before.empty()
                              ? none
                              : last.handle<std::int32_t>("workspace");
      last = graph.submit(cohort::kernel_ref<Empty>(), Empty::Args{handle, 1}, {.deps = before});
      now.push_back(last.id);
    }
    before = now;
  }
  return graph;
}

std::vector<double> tasks(int count, int width, int workers) {
  const Graph graph = layers_graph(count, width);
  Executor executor({.workers = workers});
  PreparedGraph plan = prepared(executor, graph);
  return run_times(executor, plan, 21, static_cast<double>(count) * width);
}

std::vector<double> preparation() {
  const Graph graph = layers_graph(1000, 8);
  const Executor executor({.workers = 2});
  const auto edges = static_cast<double>(graph.edges().size());
  return samples::time(11, edges, [&] { prepared(executor, graph); });
}

deepseek_v4::PreNormGraph pre_norm(const deepseek_v4::PreNormOptions& options) {
  using deepseek_v4::ParameterSet;
  auto built = build_pre_norm(options, hc_parameters(ParameterSet::kLayer0Ffn).scales);
  COHORT_CHECK(built.has_value(), built ? "" : built.error().message);
  draw_inputs(*built, 1);
  return *std::move(built);
}

std::vector<double> another_num_tokens() {
  auto built = pre_norm({.config = preset(deepseek_v4::Preset::kFlash)});
  const Executor executor({.workers = 2});
  PreparedGraph plan = prepared(executor, built.graph);
  double n = 0;
  return samples::time(51, 1, [&] {
    n = n == 8 ? 3 : 8;
    COHORT_CHECK(built.graph.set_scalar("num_tokens", n).has_value(), "num_tokens can't be set");
    plan.update();
  });
}

// A graph of the tasks of FLASH's pre-norm whose names are given, with their data as it was
// computed.
std::vector<double> operators(std::int64_t tokens, const std::vector<std::string>& names,
                              int workers) {
  auto built = pre_norm(
      {.config = preset(deepseek_v4::Preset::kFlash), .tokens = tokens, .num_tokens = tokens});
  Executor executor({.workers = workers, .record_times = true});
  PreparedGraph plan = prepared(executor, built.graph);
  std::vector<double> taken;
  for (int i = -2; i < 31; ++i) {
    const auto result = executor.run(plan);
    COHORT_CHECK(result.status == RunStatus::kDone, to_text(result.report));
    std::int64_t begin = INT64_MAX;
    std::int64_t end = 0;
    for (const auto& time : result.times) {
      const std::string& name = built.graph.task(time.task).name;
      if (std::find(names.begin(), names.end(), name) == names.end()) continue;
      begin = std::min(begin, time.begin.value);
      end = std::max(end, time.end.value);
    }
    if (i >= 0) taken.push_back(static_cast<double>(end - begin));
  }
  return taken;
}

std::vector<double> step(deepseek_v4::Variant variant, std::int64_t tokens, int workers,
                         bool hc_chain, bool bf16) {
  const auto built = pre_norm({.config = preset(deepseek_v4::Preset::kFlash),
                               .tokens = tokens,
                               .num_tokens = tokens,
                               .variant = variant,
                               .bf16_stream = bf16,
                               .hc_chain = hc_chain});
  Executor executor({.workers = workers});
  PreparedGraph plan = prepared(executor, built.graph);
  return run_times(executor, plan, tokens > 8 ? 21 : 51, 1);
}

std::map<std::string, Benchmark> benchmarks() {
  using deepseek_v4::Variant;
  std::map<std::string, Benchmark> all = {
      {"tasks/chain/1", {[] { return tasks(10'000, 1, 1); }}},
      {"tasks/layers/1", {[] { return tasks(1000, 8, 1); }}},
      {"tasks/layers/2", {[] { return tasks(1000, 8, 2); }}},
      {"graph/prepare", {preparation, "ns per edge"}},
      {"graph/num_tokens", {another_num_tokens}},
      {"linear/8", {[] {
         return operators(8, {"hc_pre_rms", "hc_pre_linear", "hc_pre_reduce"}, 2);
       }}},
      {"linear/128", {[] {
         return operators(128, {"hc_pre_rms", "hc_pre_linear", "hc_pre_reduce"}, 2);
       }}},
      {"gate/8", {[] {
         return operators(8, {"gate", "route_sort"}, 2);
       }}},
      {"gate/128", {[] {
         return operators(128, {"gate", "route_sort"}, 2);
       }}},
  };
  const std::pair<const char*, Barrier> kBarriers[] = {
      {"hard", Barrier::kHard}, {"slot", Barrier::kSlot}, {"counter", Barrier::kCounter}};
  for (const auto& [name, kind] : kBarriers) {
    for (const auto& [lanes, workers] : {std::pair{2, 2}, {8, 2}, {8, 1}, {8, 8}}) {
      all["barrier/" + std::string(name) + "/" + std::to_string(lanes) + "x" +
          std::to_string(workers)] = {[kind = kind, lanes = lanes, workers = workers] {
        return barrier(kind, lanes, workers);
      }};
    }
  }
  const std::pair<const char*, Variant> kVariants[] = {
      {"unfused", Variant::kUnfused}, {"slot", Variant::kSlot}, {"counter", Variant::kCounter}};
  for (const auto& [name, variant] : kVariants) {
    for (const int tokens : {8, 128}) {
      for (const int workers : {1, 2}) {
        all["pre-norm/" + std::string(name) + "/" + std::to_string(tokens) + "/" +
            std::to_string(workers)] = {[variant = variant, tokens, workers] {
          return step(variant, tokens, workers, false, false);
        }};
      }
    }
  }
  for (const int tokens : {8, 128}) {
    for (const bool bf16 : {false, true}) {
      all["hc-chain/" + std::string(bf16 ? "bf16" : "fp32") + "/" + std::to_string(tokens)] = {
          [tokens, bf16] { return step(Variant::kUnfused, tokens, 2, true, bf16); }};
    }
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) { return samples::main(argc, argv, benchmarks()); }
