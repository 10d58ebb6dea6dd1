#pragma once

#include <string>
#include <vector>

#include "cohort/graph/graph.h"

namespace cohort::cli {

/// What another variant of a graph launches and orders differently.
struct GraphChange {
  std::vector<std::string> gone_tasks = {};
  std::vector<std::string> new_tasks = {};
  std::size_t launches_before = 0;  ///< Tasks that run a kernel.
  std::size_t launches_after = 0;
  std::size_t edges_before = 0;  ///< Ordered pairs of tasks.
  std::size_t edges_after = 0;
  /// "hc_pre_rms -> comb_sinkhorn": pairs that are ordered directly in one of them alone. Gone
  /// tasks are read as the new one, if there is one: an edge that only changed names isn't listed.
  std::vector<std::string> gone_edges = {};
  std::vector<std::string> new_edges = {};
};

GraphChange change_of(const Graph& before, const Graph& after);

}  // namespace cohort::cli
