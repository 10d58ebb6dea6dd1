#pragma once

#include <string>
#include <vector>

#include "cohort/lane/graph_record.h"
#include "cohort/verdict/report.h"

namespace cohort::check {

/// What a graph's author promises of one task: tasks it is ordered behind by an edge of its own.
struct DeclaredProducers {
  std::string task = {};
  std::vector<std::string> producers = {};
  bool exact = true;  ///< No others.
};

/// A graph's refusals as findings: abi, inout-reuse, layout, false-sharing. Silent for a valid one.
Report audit_submissions(const Graph& graph);

/// Rules over a valid graph and its recorded run, each with a stable id:
///   audit/sync-start          residency: lanes that wait for each other are resident together
///   audit/workspace-private   premature-release: no two grids count in one workspace
///   audit/workspace-zero      workspace-init: it starts at zero in every run
///   audit/workspace-inout     direction: it is an InOut operand
///   audit/directions          direction: operands are used as they are declared
///   audit/local-memory        local-overlap: tiles end below the barrier's scratch
///   audit/tile-contract       abi: blocks keep the contract between kernels and lanes
///   audit/operand-names       abi: no two operands of a task are bound to each other's tensor
///   audit/initialised         uninitialised-read: what is read was written, or is an input
///   audit/unused-tensor       unused-tensor: every tensor but the inputs is an operand of a task
///   audit/producers           edge-missing, edge-surplus: `declared` is what the graph has
/// Source: the invariants of a fused grid, docs/verify.md.
///
/// `inputs` names the tensors that the caller sets before a run.
Report audit(const Graph& graph, const GraphRecord& record, const std::vector<std::string>& inputs,
             const std::vector<DeclaredProducers>& declared);

}  // namespace cohort::check
