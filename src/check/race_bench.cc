// 100 000 tasks with a million accesses: layers of 100, each task reads nine slots of the layer
// before and writes its own.
#include <benchmark/benchmark.h>

#include "cohort/base/random.h"
#include "cohort/check/race.h"

namespace cohort::check {
namespace {

void race_proof_of_layers(benchmark::State& state) {
  const auto tasks = static_cast<std::uint32_t>(state.range(0));
  constexpr std::uint32_t kWidth = 100;
  Graph graph;
  Handle<float> layers[2] = {graph.tensor<float>("even", {kWidth, 16}),
                             graph.tensor<float>("odd", {kWidth, 16})};
  Random random(1, 1);
  for (std::uint32_t t = 0; t < tasks; ++t) {
    const std::uint32_t layer = t / kWidth;
    std::vector<DummyOperand> operands = {writes(layers[layer % 2].rows(t % kWidth, 1))};
    for (int i = 0; i < 9; ++i) {
      operands.push_back(reads(
          layers[(layer + 1) % 2].rows(static_cast<std::int64_t>(random.next_below(kWidth)), 1)));
    }
    graph.dummy("task", operands);
  }
  const GraphRecord record = record_graph(graph);
  for (auto _ : state) {
    const Report report = race_proof(graph, record);
    if (!report.findings.empty()) state.SkipWithError("a race");
  }
  state.counters["accesses"] = 10.0 * tasks;
}
BENCHMARK(race_proof_of_layers)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace cohort::check
