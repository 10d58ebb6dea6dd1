#include "crew.h"

#include <algorithm>

#include <fmt/format.h>

#include "cohort/lane/run_in_order.h"

#include "cpus.h"

namespace cohort::native {

Crew::Crew(ExecutorOptions options) : options_(std::move(options)) {
  const int cpus = allowed_cpus();
  const int workers = options_.workers > 0 ? options_.workers : cpus;
  patience_.spins = workers <= cpus;
  for (int w = 0; w < workers; ++w) workers_.push_back(std::make_unique<Worker>(*this, w));
}

void Crew::start() {
  alive_ = size();
  for (const auto& worker : workers_) {
    threads_.emplace_back([self = shared_from_this(), &w = *worker] { self->thread_main(w); });
  }
}

void Crew::stop() {
  exiting_.exchange(true);
  start_gate_.notify();
  const auto all_left = [this] { return alive_.load() == 0; };
  if (kept_ == nullptr) {
    done_gate_.sleep_until(all_left);
  } else if (!done_gate_.sleep_until(all_left, options_.hang_after)) {
    for (std::thread& thread : threads_) thread.detach();
    return;
  }
  for (std::thread& thread : threads_) thread.join();
}

void Crew::thread_main(Worker& worker) {
  if (options_.pin) pin_to_cpu(worker.index());
  std::uint64_t last = 0;
  const auto is_called = [&] {
    return exiting_.load() || (current_.load() != nullptr && generation_.load() != last);
  };
  for (;;) {
    if (!patience_.wait_awake(is_called)) start_gate_.sleep_until(is_called);
    if (exiting_.load()) break;
    inside_.fetch_add(1);
    if (Plan* plan = current_.load(); plan != nullptr) {
      last = generation_.load();
      worker.run(*plan);
    }
    if (inside_.fetch_sub(1) == 1) done_gate_.notify();
  }
  if (alive_.fetch_sub(1) == 1) done_gate_.notify();
}

RunResult Crew::run(const Graph& graph, std::shared_ptr<Plan> plan) {
  COHORT_CHECK(kept_ == nullptr, "an executor whose run hung runs nothing more");
  COHORT_CHECK(plan->workers == size(), "a graph runs on the executor that prepared it");
  const auto start = std::chrono::steady_clock::now();
  status_ = RunStatus::kDone;
  report_ = {.subject = graph.name()};
  set_initial_values(graph);
  plan->begin_run(options_.record_times);
  workers_.front()->begin_run(*plan);
  generation_.fetch_add(1);
  current_.exchange(plan.get());
  start_gate_.notify();

  const bool is_done = wait_until_done(*plan);
  if (!is_done) {
    kept_ = plan;
    give_up(*plan, RunStatus::kHung, hung());
  }
  const std::lock_guard lock(result_mutex_);
  RunResult result{.status = status_, .report = report_};
  if (is_done && status_ != RunStatus::kDone) plan->restore();
  if (status_ == RunStatus::kDone) {
    result.elapsed = {std::chrono::nanoseconds(end_ - start).count()};
    if (options_.record_times) result.times = plan->task_times(start);
  }
  return result;
}

// Done is: stopped, and nobody inside. False if nothing changed for too long.
bool Crew::wait_until_done(Plan& plan) {
  const auto is_stopped = [&] { return plan.stopped.load(); };
  const auto is_empty = [&] { return inside_.load() == 0; };
  const auto wait = [&](auto ready) {
    if (options_.hang_after.count() <= 0) {
      done_gate_.sleep_until(ready);
      return true;
    }
    std::uint64_t seen = progress();
    auto changed_at = std::chrono::steady_clock::now();
    while (!done_gate_.sleep_until(ready, options_.hang_after / 4)) {
      const auto now = std::chrono::steady_clock::now();
      if (const std::uint64_t at = progress(); at != seen || is_traced()) {
        seen = at;
        changed_at = now;
      } else if (now - changed_at >= options_.hang_after) {
        return false;
      }
    }
    return true;
  };
  const bool has_stopped = wait(is_stopped);
  current_.exchange(nullptr);
  return has_stopped && wait(is_empty);
}

void Crew::complete(Plan& plan) {
  end_ = std::chrono::steady_clock::now();
  plan.stopped.exchange(true);
  work_gate_.notify();
  done_gate_.notify();
}

void Crew::give_up(Plan& plan, RunStatus status, Finding finding) {
  {
    const std::lock_guard lock(result_mutex_);
    if (status_ == RunStatus::kDone) {
      status_ = status;
      report_.findings.push_back(std::move(finding));
    }
  }
  plan.stopped.exchange(true);
  if (CohortRun* cohort = plan.active.load(); cohort != nullptr) cohort->abort();
  work_gate_.notify();
  done_gate_.notify();
}

std::uint64_t Crew::progress() const {
  std::uint64_t sum = 0;
  for (const auto& worker : workers_) sum += worker->progress();
  return sum;
}

Finding Crew::hung() const {
  Finding finding{.verdict = Verdict::kUnknown, .rule = "native/hung"};
  finding.cause = fmt::format("nothing changed for {} ms", options_.hang_after.count());
  for (const auto& worker : workers_) {
    finding.evidence.push_back({fmt::format("worker {}", worker->index()), worker->doing()});
  }
  finding.advice = "look for a body that loops or waits for something outside the graph";
  return finding;
}

}  // namespace cohort::native
