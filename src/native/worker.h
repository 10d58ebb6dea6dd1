#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cohort/fiber/fiber.h"

#include "plan.h"

namespace cohort::native {

class Crew;

/// One thread's part in running a plan.
class alignas(64) Worker {
 public:
  Worker(Crew& crew, int index);

  int index() const { return index_; }

  /// Releases the tasks without producers. Requires: no worker is in the plan.
  void begin_run(Plan& plan);
  /// Runs what is ready until the plan is stopped.
  void run(Plan& plan);

  /// Changes whenever the worker gets further; for other threads.
  std::uint64_t progress() const { return progress_.load(std::memory_order_relaxed); }
  /// What it was doing last; for other threads.
  std::string doing() const;

 private:
  struct LaneJob {
    Worker* worker = nullptr;
    CohortRun* cohort = nullptr;
    std::int64_t lane = 0;
    fiber::Fiber* fiber = nullptr;
    bool is_done = false;
  };

  // Plain tasks.
  bool run_own_block();
  bool run_stolen_block();
  void execute(std::uint32_t unit, std::int32_t block);
  bool run_body(std::uint32_t task, std::int32_t block);
  std::uint32_t finish(std::uint32_t task);
  void release(const Join& join, std::uint32_t* next);
  void push(std::uint32_t unit);
  bool is_ready(std::uint32_t position) const;
  void wait_for_work();
  std::int32_t decrement(std::atomic<std::int32_t>& count) const;

  // Cohorts.
  bool has_cohort() const;
  bool run_cohort();
  void run_lane(CohortRun& cohort, std::int64_t lane, fiber::Fiber* fiber);
  bool meet(CohortRun& cohort, std::int64_t lane, std::size_t meeting, fiber::Fiber* fiber);
  void share_worker(CohortRun& cohort, std::int64_t lanes);
  void wait_for_release(CohortRun& cohort);
  void queue_cohort(std::uint32_t task);
  void start_next_cohort();

  void note(std::uint32_t task, std::int64_t block);
  void step() {
    progress_.store(progress_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  void failed(std::uint32_t task, std::int64_t block, const std::string& what);

  Crew& crew_;
  const int index_;
  bool is_alone_ = false;  // The only worker: counts need no atomic operation.
  Plan* plan_ = nullptr;
  std::uint32_t next_own_ = 0;  // Into Plan::ready: units before it hold no block of this worker's,
  std::uint32_t next_stolen_ = 0;  // ... or no block of anyone else's.
  CohortRun* seen_ = nullptr;      // The last cohort whose lanes it ran.
  bool in_cohort_ = false;
  std::vector<std::uint32_t> complete_;  // Tasks whose joins are to be counted down.
  std::vector<std::unique_ptr<fiber::Fiber>> fibers_;
  std::vector<LaneJob> lane_jobs_;

  alignas(64) std::atomic<std::uint64_t> progress_{0};
  std::atomic<std::uint64_t> doing_{~std::uint64_t{0}};  // Task and block.
};

}  // namespace cohort::native
