#include "cohort/lane/run_in_order.h"

#include <algorithm>

#include "cohort/lane/direct_lane.h"

namespace cohort {

void run_in_order(const Task& task, RemotePort* remote) {
  const std::int64_t lanes = std::max<std::int64_t>(task.bound.lanes, 1);
  for (const BoundPhase& phase : task.bound.phases) {
    for (std::int64_t b = 0; b < phase.blocks; ++b) {
      DirectLane lane({.index = b % lanes, .lanes = lanes, .physical = b % lanes}, remote);
      phase.body.direct(lane, phase.args.get(), b);
    }
  }
}

void set_initial_values(const Graph& graph) {
  for (const Tensor& t : graph.tensors()) {
    if (t.initial) fill(t, *t.initial);
  }
}

void run_in_order(const Graph& graph, RemotePort* remote) {
  set_initial_values(graph);
  for (const Task& task : graph.tasks()) run_in_order(task, remote);
}

}  // namespace cohort
