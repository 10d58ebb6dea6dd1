#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "cohort/graph/graph.h"

namespace cohort::check {

/// Which tasks of a graph come before which.
///
/// Cost: a direct edge is found by binary search; a path by walking back from the later task
/// through
///       those between the two, once per later task and lowest earlier one asked for.
class Order {
 public:
  explicit Order(const Graph& graph);

  /// Whether a path of edges leads from `from` to `to`. Cheapest if calls for one `to` are
  /// together.
  bool has_path(TaskId from, TaskId to);

 private:
  std::vector<std::uint32_t> first_;      // Into producers_, by task; one more than tasks.
  std::vector<std::uint32_t> producers_;  // Ascending per task.
  std::vector<std::uint32_t> seen_;       // By task: the walk that last came through.
  std::vector<std::uint32_t> todo_;
  std::uint32_t walk_ = 0;
  std::uint32_t walked_from_ = 0;  // The last walk's later task ...
  std::uint32_t walked_to_ = 0;    // ... and the lowest task it went down to.
};

}  // namespace cohort::check
