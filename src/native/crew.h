#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "cohort/native/executor.h"

#include "gate.h"
#include "plan.h"
#include "worker.h"

namespace cohort::native {

/// The workers of an executor and what they share. Each worker's thread owns a part of it, so that
/// one that never comes back harms nobody.
class Crew : public std::enable_shared_from_this<Crew> {
 public:
  explicit Crew(ExecutorOptions options);
  void start();
  /// Ends the threads, or leaves stuck ones behind after `hang_after`.
  void stop();

  int size() const { return static_cast<int>(workers_.size()); }
  const ExecutorOptions& options() const { return options_; }
  const Patience& patience() const { return patience_; }
  RunResult run(const Graph& graph, std::shared_ptr<Plan> plan);

  // Called by workers.
  Gate& work_gate() { return work_gate_; }
  /// Every task is complete.
  void complete(Plan& plan);
  /// Ends the run early; the first reason counts.
  void give_up(Plan& plan, RunStatus status, Finding finding);

 private:
  void thread_main(Worker& worker);
  bool wait_until_done(Plan& plan);
  std::uint64_t progress() const;
  Finding hung() const;

  const ExecutorOptions options_;
  Patience patience_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::thread> threads_;

  // Between runs `current_` is null. A worker is counted inside before it looks at `current_`, and
  // the caller takes `current_` away before it looks whether anyone is inside.
  alignas(64) std::atomic<Plan*> current_{nullptr};
  std::atomic<std::uint64_t> generation_{0};
  alignas(64) std::atomic<int> inside_{0};
  std::atomic<bool> exiting_{false};
  std::atomic<int> alive_{0};
  alignas(64) Gate start_gate_;
  alignas(64) Gate work_gate_;
  alignas(64) Gate done_gate_;

  std::shared_ptr<Plan> kept_;  // The plan of a hung run.
  std::mutex result_mutex_;
  RunStatus status_ = RunStatus::kDone;
  Report report_;
  std::chrono::steady_clock::time_point end_;
};

}  // namespace cohort::native
