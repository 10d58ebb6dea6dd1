#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cohort/graph/graph.h"
#include "cohort/verdict/report.h"

#include "gate.h"

namespace cohort::native {

/// One launch of a cohort: who its lanes are, where each stands, and how they meet.
///
/// Lanes are shared out round: lane l belongs to worker l mod W. Nothing here orders one lane's
/// writes before another's reads but a meeting.
class CohortRun {
 public:
  CohortRun(const Task& task, int workers);

  /// Requires: no lane runs.
  void begin();

  const Task& task() const { return task_; }
  const BoundKernel& kernel() const { return task_.bound; }
  std::int64_t lanes() const { return task_.bound.lanes; }
  bool has_lanes_on(int worker) const { return worker < workers_; }
  std::int64_t lanes_on(int worker) const {
    return worker < workers_ ? (lanes() - worker + stride_ - 1) / stride_ : 0;
  }
  std::int64_t lane_of(int worker, std::int64_t n) const { return worker + n * stride_; }

  // Called by a lane.
  /// Begins to wait at a meeting, counted in its words unless `arrives` is false.
  void arrive(std::int64_t lane, std::size_t meeting, bool arrives);
  /// Ends a wait.
  void proceed(std::int64_t lane);
  void finish(std::int64_t lane);

  // Called by anyone.
  bool is_finished(std::int64_t lane) const {
    return states_[index(lane)].stage.load(std::memory_order_acquire) == Stage::kFinished;
  }
  bool is_waiting(std::int64_t lane) const {
    return states_[index(lane)].stage.load(std::memory_order_relaxed) == Stage::kWaiting;
  }
  /// Whether the meeting a lane waits at has been attended by all; acquires what they released.
  bool is_released(std::int64_t lane) const;
  bool is_aborted() const { return aborted_.load(); }
  /// Makes every wait end, and every lane with it.
  void abort();

  /// A worker can do nothing for its lanes until one is released: true if that holds for every
  /// worker and no lane is, so that none ever will be.
  bool become_idle();
  /// Before the worker continues.
  void end_idle();
  /// All of a worker's lanes are finished; whether it was the last such worker.
  bool leave() { return left_.fetch_add(1) + 1 == workers_; }

  Gate& gate() { return gate_; }

  /// What each lane waits for, who hasn't arrived, and which cores have no lane.
  Finding deadlock() const;

 private:
  enum class Stage : std::uint8_t { kRunning, kWaiting, kFinished };
  struct alignas(64) LaneState {
    std::atomic<std::int32_t> meeting{-1};  // The last one it came to.
    std::atomic<std::int32_t> target{0};    // What ends its wait there.
    std::atomic<bool> arrived{false};
    std::atomic<Stage> stage{Stage::kRunning};
  };
  struct alignas(64) WorkerCount {
    std::atomic<std::int64_t> arrivals{0};  // At hard barriers; written by its worker only.
  };

  static std::size_t index(std::int64_t lane) { return static_cast<std::size_t>(lane); }
  bool released(const LaneState& state) const;
  bool has_passed(std::int64_t lane, std::int32_t meeting) const;

  const Task task_;  // A copy: a hung lane may outlive the graph.
  int stride_;       // Workers of the executor.
  int workers_;      // Those with lanes.
  std::int32_t* workspace_;
  std::vector<std::int32_t> targets_;  // By meeting: what its words must reach.
  std::unique_ptr<LaneState[]> states_;
  std::unique_ptr<WorkerCount[]> counts_;
  std::atomic<std::int64_t> hard_arrivals_{0};
  alignas(64) std::atomic<int> idle_{0};
  std::atomic<std::uint64_t> moves_{0};
  std::atomic<int> left_{0};
  std::atomic<bool> aborted_{false};
  Gate gate_;
};

}  // namespace cohort::native
