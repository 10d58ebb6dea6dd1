#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cohort/graph/graph.h"
#include "cohort/native/executor.h"

#include "cohort_run.h"

namespace cohort::native {

inline constexpr std::uint32_t kNone = 0xFFFFFFFF;

/// How a task is run: not at all, block by block, or with all its lanes resident.
enum class TaskKind : std::uint8_t { kEmpty, kBlocks, kCohort };

/// A task as workers see it; a cache line.
struct alignas(64) PlannedTask {
  void (*direct)(DirectLane& lane, const void* args, std::int64_t block) = nullptr;
  const void* args = nullptr;
  std::uint32_t first_join = 0;  ///< Into Plan::joins_of_tasks: the joins it is a producer of.
  std::uint32_t joins = 0;
  std::int32_t blocks = 0;
  TaskKind kind = TaskKind::kEmpty;
  std::atomic<std::int32_t> remaining{0};  ///< Blocks not yet finished; whole between runs.
};

/// Tasks that wait for the same producers. They become ready together, so one count serves them
/// all.
struct Join {
  std::atomic<std::int32_t> pending{0};  ///< Producers not yet complete; whole between runs.
  std::int32_t producers = 0;
  std::uint32_t first_member = 0;  ///< Into Plan::members; sorted by how they run:
  std::uint32_t empties = 0;
  std::uint32_t cohorts = 0;
  std::uint32_t singles = 0;  ///< Of one block.
  std::uint32_t grids = 0;    ///< Of more.
  std::uint32_t first_unit = 0;
};

/// Blocks that are handed out together: those of a grid, or one of each single task of a join.
struct Unit {
  std::uint32_t first_member = 0;
  std::int32_t blocks = 0;
  bool is_grid = false;
};

/// A graph flattened for `workers` workers, with everything a run changes.
///
/// A run is: release() of the tasks without producers, then finish() after every task, until
/// `unfinished` is zero. What becomes ready is appended to `ready`; a worker walks it with cursors
/// of its own. `ranges` hold, per unit and worker, the blocks not yet taken: first in the upper
/// half, end in the lower.
struct Plan {
  Plan(const Graph& source, int crew_size);

  /// Takes over numbers of blocks and lanes from the graph.
  void update();
  /// Brings counts into the state between runs, after a run that was stopped.
  void restore();
  /// Prepares a run. Requires: nobody runs it.
  void begin_run(bool record_times);

  /// A worker begins a block of a task, or ends its last; kept only if times are recorded.
  void note_begin(std::uint32_t task) {
    if (!begin_times.empty()) note_begin_at(task, std::chrono::steady_clock::now());
  }
  void note_end(std::uint32_t task) {
    if (!end_times.empty()) end_times[task] = std::chrono::steady_clock::now();
  }
  std::vector<TaskTime> task_times(std::chrono::steady_clock::time_point start) const;

  std::atomic<std::uint64_t>& range(std::uint32_t unit, int worker) {
    return ranges[static_cast<std::size_t>(unit) * static_cast<std::size_t>(workers) +
                  static_cast<std::size_t>(worker)];
  }
  std::uint32_t task_of(const Unit& unit, std::int32_t block) const {
    return members[unit.first_member + (unit.is_grid ? 0 : static_cast<std::uint32_t>(block))];
  }

  void note_begin_at(std::uint32_t task, std::chrono::steady_clock::time_point now);

  const Graph* graph;  ///< For update(): a hung worker may outlive it, so a run doesn't touch it.
  std::shared_ptr<const void> memory;             ///< Of the graph's tensors.
  std::vector<std::shared_ptr<const void>> args;  ///< By task.
  int workers;

  std::unique_ptr<PlannedTask[]> tasks;
  std::unique_ptr<Join[]> joins;
  std::uint32_t join_count = 0;
  std::uint32_t root = kNone;  ///< The join without producers.
  std::vector<std::uint32_t> joins_of_tasks;
  std::vector<std::uint32_t> members;  ///< Tasks, by join.
  std::vector<Unit> units;
  std::vector<std::uint32_t> cohort_of_task;  ///< Into `cohorts`, or kNone.
  std::vector<std::unique_ptr<CohortRun>> cohorts;
  std::uint32_t sinks = 0;  ///< Tasks that nobody waits for.
  std::int64_t most_lanes_per_worker = 0;

  // A run.
  std::unique_ptr<std::atomic<std::uint64_t>[]> ranges;
  /// Units that became ready, in order, tagged with the run in the upper half: entries of earlier
  /// runs look empty.
  std::unique_ptr<std::atomic<std::uint64_t>[]> ready;
  std::uint32_t run = 0;
  alignas(64) std::atomic<std::uint32_t> ready_count{0};
  alignas(64) std::atomic<std::uint32_t> unfinished{0};  ///< Sinks.
  alignas(64) std::atomic<CohortRun*> active{nullptr};   ///< The cohort that runs.
  std::atomic<bool> stopped{false};                      ///< Done, or given up.
  std::vector<std::atomic<std::int64_t>> begin_times;    ///< By task; since the clock's epoch.
  std::vector<std::chrono::steady_clock::time_point> end_times;
  std::mutex cohorts_mutex;
  std::vector<std::uint32_t> waiting_cohorts;  ///< Ready tasks, descending.
};

}  // namespace cohort::native
