#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cohort/lane/graph_record.h"
#include "cohort/verdict/verdict.h"

namespace cohort::inject {

/// A mistake people make when they fuse kernels, ready to be put into one right graph.
struct Mistake {
  std::string id = {};    ///< "M06a"
  std::string what = {};  ///< In one line.
  /// What a check must find; kPass: nothing, for what only looks like a mistake.
  Verdict expected = Verdict::kPass;
  /// What the finding's cause or evidence must name, all of them.
  std::vector<std::string> names = {};
  std::vector<Verdict> consequences = {};  ///< Other verdicts that may follow from it.
  /// Makes the wrong graph from the right one; null: the graph stays as it is.
  std::function<Graph(const Graph& graph)> graph = {};
  /// Makes the recorded run wrong; null: it stays as it is.
  std::function<void(GraphRecord& record)> record = {};
};

/// The mistakes that a graph has what they need for: a fused grid, tensors that lanes hand on,
/// tasks around it. In order of their ids. Requires: graph.validate() succeeds; its tensors hold
/// inputs.
std::vector<Mistake> mistakes_for(const Graph& graph);

}  // namespace cohort::inject
