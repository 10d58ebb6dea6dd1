#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cohort/graph/graph.h"
#include "cohort/lane/footprint.h"
#include "cohort/lane/plan.h"

namespace cohort {

/// One thing a lane of a grid does, in the order of its program.
struct LaneEvent {
  enum class Kind : std::uint8_t {
    kAccess,      ///< Touches `bytes` of `tensor`, by `access`.
    kDrain,       ///< Waits until its issued tile stores are complete.
    kClean,       ///< Writes back the lines `bytes` of `tensor` and drops them.
    kFence,       ///< Orders everything before it before everything after.
    kArrive,      ///< At `barrier`, counted in word `word` of the workspace (none if hard).
    kLeave,       ///< `barrier`, once all its participants have arrived unless it `gave_up`.
    kInvalidate,  ///< Drops the lines `bytes` of `tensor`.
  };
  Kind kind = Kind::kAccess;
  AccessKind access = AccessKind::kLoad;
  const Tensor* tensor = nullptr;
  ByteSet bytes = {};
  std::size_t phase = 0;
  std::int64_t block = 0;
  std::size_t barrier = 0;
  std::int64_t word = 0;
  bool gave_up = false;
};

/// The lanes of one launch of a fused kernel, each with what it does.
struct GridRecord {
  TaskId task = {};
  std::vector<std::vector<LaneEvent>> lanes = {};
  FusionPlan plan = {};
};

/// What one task did when it ran.
struct TaskRecord {
  TaskId task = {};
  TensorBytesMap bytes = {};  ///< Of all its blocks; its operands' regions, for a dummy.
  std::vector<std::vector<BlockFootprint>> phases = {};  ///< [phase][block].
  std::optional<GridRecord> grid = {};                   ///< Of a task whose kernel has barriers.
};

/// What every task of a graph did.
struct GraphRecord {
  std::vector<TaskRecord> tasks = {};  ///< By task.
};

/// Runs a graph's tasks one by one in the order of submission, block by block, on ModelledLane over
/// the tensors' own memory, and keeps what every block touched. Lanes publish, meet and acquire as
/// plan_fusion() derives it.
/// Requires: graph.validate() succeeds.
GraphRecord record_graph(const Graph& graph);

}  // namespace cohort
