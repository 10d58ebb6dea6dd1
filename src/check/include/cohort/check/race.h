#pragma once

#include "cohort/lane/graph_record.h"
#include "cohort/verdict/report.h"

namespace cohort::check {

/// Whether every two tasks that touch a byte in common, of which one writes it, are ordered by a
/// path of edges. A finding `race` names both tasks, the tensor, the bytes and what to add.
///
/// Exact for the recorded run: it asks, per byte, for a path from the last write to each access
/// after it and from each read to the next write; paths between all other pairs follow.
///
/// Cost: O(accesses log accesses) and a path query each; about a second for a million accesses
/// whose
///       order is given by direct edges.
Report race_proof(const Graph& graph, const GraphRecord& record);

/// Explicit edges between tasks that touch nothing in common and that another path orders anyway:
/// findings `edge-surplus`. Approximate edges are never counted.
Report surplus_edges(const Graph& graph, const GraphRecord& record);

}  // namespace cohort::check
