#pragma once

#include "cohort/graph/graph.h"
#include "cohort/lane/direct_lane.h"

namespace cohort {

/// Runs one task's blocks on DirectLane, phase by phase, in ascending order, on the calling thread.
/// Remote operations go to `remote`.
void run_in_order(const Task& task, RemotePort* remote = nullptr);

/// Sets every tensor with an initial value to it, as the start of every run does.
void set_initial_values(const Graph& graph);

/// Runs a graph's tasks one by one in the order of submission: what every executor's result equals.
/// Requires: graph.validate() succeeds.
void run_in_order(const Graph& graph, RemotePort* remote = nullptr);

}  // namespace cohort
