#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cohort/base/quantity.h"
#include "cohort/base/result.h"
#include "cohort/graph/graph.h"
#include "cohort/lane/direct_lane.h"
#include "cohort/verdict/report.h"

namespace cohort::native {

struct Plan;
class Crew;

/// What may be made to go wrong, for tests. Called on workers, concurrently; null does nothing.
struct Faults {
  /// Before a lane begins a phase: delays. A plain task's blocks are lanes of phase 0.
  std::function<void(const Task& task, std::size_t phase, std::int64_t lane)> before_phase = {};
  /// True: the lane doesn't arrive at the meeting.
  std::function<bool(const Task& task, std::size_t meeting, std::int64_t lane)> skip_arrival = {};
  /// True: the lane doesn't wait at the meeting.
  std::function<bool(const Task& task, std::size_t meeting, std::int64_t lane)> skip_wait = {};
};

struct ExecutorOptions {
  int workers = 0;   ///< Threads that run blocks; 0: one per CPU this process may use.
  bool pin = false;  ///< Ties worker w to the w-th allowed CPU.
  /// A run in which nothing changes for this long is hung; 0 never is. Off under a debugger.
  std::chrono::milliseconds hang_after = std::chrono::seconds(10);
  std::size_t lane_stack_bytes = 256 * 1024;  ///< Of a lane that shares its worker.
  bool record_times = false;                  ///< Fill RunResult::times.
  /// Where bodies' remote operations go; outlives the executor. A lane that waits for another rank
  /// keeps its worker, and the wait counts as nothing changed: it has to end before `hang_after`.
  RemotePort* remote = nullptr;
  Faults faults = {};
};

/// A graph made ready to run, on as many workers as its executor has. Movable. The graph outlives
/// it and has the same tasks and edges throughout; after graph.set_scalar() call update().
class PreparedGraph {
 public:
  PreparedGraph(PreparedGraph&&) noexcept;
  PreparedGraph& operator=(PreparedGraph&&) noexcept;
  ~PreparedGraph();

  /// Takes over scalars that were set since: number of blocks and of lanes. Edges are kept.
  void update();

 private:
  friend class Executor;
  explicit PreparedGraph(std::shared_ptr<Plan> plan);
  std::shared_ptr<Plan> plan_;
};

enum class RunStatus : std::uint8_t {
  kDone,
  kDeadlock,  ///< All lanes of a cohort wait and none can be released: the report names them.
  kFailed,    ///< A body threw: the report holds its text.
  kHung,      ///< Nothing changed for `hang_after`: the executor refuses further runs.
};

/// When a task ran, since the start of its run.
struct TaskTime {
  TaskId task = {};
  Nanos begin = {};
  Nanos end = {};
};

struct RunResult {
  RunStatus status = RunStatus::kDone;
  Report report = {};                ///< Empty but for its subject if done.
  Nanos elapsed = {};                ///< From setting initial values to the last block's end.
  std::vector<TaskTime> times = {};  ///< By task, if asked for.
};

/// Runs graphs on threads of this process.
///
/// Every task starts after all its producers are complete. Block b of a grid of n belongs to worker
/// floor(b W / n); workers without work of their own take others' last blocks. A task with
/// sync_start or with barriers is a cohort: its lane l runs on worker l mod W, on the worker's own
/// stack if it is alone there, as a fiber otherwise, so that all lanes are resident for any number
/// of workers. Cohorts run one at a time.
///
/// Results equal run_in_order() of the graph, bit for bit, for kernels whose blocks of one phase
/// don't conflict.
///
/// Thread safety: one call at a time.
class Executor {
 public:
  explicit Executor(ExecutorOptions options = {});
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  /// Waits for stuck workers up to `hang_after`, then leaves them, and the memory they use, behind.
  ~Executor();

  int workers() const;

  /// Errors: kInvalidArgument with every refusal of the graph.
  Result<PreparedGraph> prepare(const Graph& graph) const;

  /// Sets initial values, runs every task, and returns when no worker touches the graph any more
  /// (a hung one excepted). Requires: prepared by this executor; no earlier run has hung.
  RunResult run(PreparedGraph& prepared);

 private:
  std::shared_ptr<Crew> crew_;
};

/// prepare() and run() in one.
Result<RunResult> run(const Graph& graph, ExecutorOptions options = {});

}  // namespace cohort::native
