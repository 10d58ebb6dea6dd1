#include "worker.h"

#include <algorithm>
#include <exception>
#include <functional>

#include <fmt/format.h>

#include "cohort/lane/direct_lane.h"

#include "crew.h"

namespace cohort::native {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// Blocks [first, end) that a worker owns and nobody took: Plan::ranges.
constexpr std::uint64_t kFirst = std::uint64_t{1} << 32;
constexpr std::uint64_t pack(std::int64_t first, std::int64_t end) {
  return static_cast<std::uint64_t>(first) << 32 | static_cast<std::uint64_t>(end);
}
constexpr std::int32_t first_of(std::uint64_t range) {
  return static_cast<std::int32_t>(range >> 32);
}
constexpr std::int32_t end_of(std::uint64_t range) {
  return static_cast<std::int32_t>(range & (kFirst - 1));
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that isn't a std::exception";
  }
}

}  // namespace

Worker::Worker(Crew& crew, int index) : crew_(crew), index_(index) {}

void Worker::begin_run(Plan& plan) {
  plan_ = &plan;
  is_alone_ = plan.workers == 1;
  if (plan.root == kNone) {
    crew_.complete(plan);
    return;
  }
  release(plan.joins[plan.root], nullptr);
  finish(kNone);
}

void Worker::run(Plan& plan) {
  plan_ = &plan;
  is_alone_ = plan.workers == 1;
  next_own_ = 0;
  next_stolen_ = 0;
  seen_ = nullptr;
  while (!plan.stopped.load(std::memory_order_acquire)) {
    if (run_cohort() || run_own_block() || run_stolen_block()) continue;
    wait_for_work();
  }
}

bool Worker::is_ready(std::uint32_t position) const {
  return position < plan_->units.size() && plan_->ready[position].load() >> 32 == plan_->run;
}

bool Worker::run_own_block() {
  for (; is_ready(next_own_); ++next_own_) {
    const auto unit = static_cast<std::uint32_t>(plan_->ready[next_own_].load(kRelaxed));
    std::atomic<std::uint64_t>& range = plan_->range(unit, index_);
    std::uint64_t before;
    if (is_alone_) {
      before = range.load(kRelaxed);
      range.store(before + kFirst, kRelaxed);
    } else {
      before = range.fetch_add(kFirst, kRelaxed);
    }
    if (first_of(before) < end_of(before)) {
      execute(unit, first_of(before));
      return true;
    }
  }
  return false;
}

bool Worker::run_stolen_block() {
  if (is_alone_) return false;
  for (; is_ready(next_stolen_); ++next_stolen_) {
    const auto unit = static_cast<std::uint32_t>(plan_->ready[next_stolen_].load(kRelaxed));
    for (int i = 1; i < plan_->workers; ++i) {
      std::atomic<std::uint64_t>& range = plan_->range(unit, (index_ + i) % plan_->workers);
      std::uint64_t before = range.load(kRelaxed);
      while (first_of(before) < end_of(before)) {
        if (range.compare_exchange_weak(before, before - 1, kRelaxed)) {
          execute(unit, end_of(before) - 1);
          return true;
        }
      }
    }
  }
  return false;
}

void Worker::wait_for_work() {
  const auto ready = [this] {
    return plan_->stopped.load() || has_cohort() || is_ready(next_own_) ||
           (!is_alone_ && is_ready(next_stolen_));
  };
  if (!crew_.patience().wait_awake(ready)) crew_.work_gate().sleep_until(ready);
}

std::int32_t Worker::decrement(std::atomic<std::int32_t>& count) const {
  if (!is_alone_) return count.fetch_sub(1, std::memory_order_acq_rel) - 1;
  const std::int32_t after = count.load(kRelaxed) - 1;
  count.store(after, kRelaxed);
  return after;
}

bool Worker::run_body(std::uint32_t t, std::int32_t block) {
  const PlannedTask& task = plan_->tasks[t];
  note(t, block);
  try {
    if (const auto& hook = crew_.options().faults.before_phase; hook) {
      hook(plan_->graph->tasks()[t], 0, block);
    }
    DirectLane lane({.index = block, .lanes = task.blocks, .physical = index_},
                    crew_.options().remote);
    task.direct(lane, task.args, block);
  } catch (...) {
    failed(t, block, text_of(std::current_exception()));
    return false;
  }
  step();
  return true;
}

// Runs the block and, as long as finishing one block makes a single other one ready, that one: its
// input is in this worker's cache.
void Worker::execute(std::uint32_t unit, std::int32_t block) {
  for (;;) {
    const Unit& u = plan_->units[unit];
    const std::uint32_t t = plan_->task_of(u, block);
    if (!run_body(t, u.is_grid ? block : 0)) return;
    PlannedTask& task = plan_->tasks[t];
    if (u.is_grid) {
      if (decrement(task.remaining) != 0) return;
      task.remaining.store(task.blocks, kRelaxed);
    }
    const std::uint32_t next = finish(t);
    if (next == kNone) return;
    if (in_cohort_ || has_cohort() || plan_->stopped.load(kRelaxed)) {
      push(next);
      return;
    }
    unit = next;
    block = 0;
  }
}

// Counts a complete task, and empty ones that become complete with it; returns a unit of one block
// for this worker to go on with, or kNone.
std::uint32_t Worker::finish(std::uint32_t task) {
  std::uint32_t next = kNone;
  const bool may_continue = task != kNone;
  if (may_continue) complete_.push_back(task);
  while (!complete_.empty()) {
    const std::uint32_t t = complete_.back();
    complete_.pop_back();
    const PlannedTask& done = plan_->tasks[t];
    plan_->note_end(t);
    if (done.joins == 0) {
      const std::uint32_t left = plan_->unfinished.fetch_sub(1, std::memory_order_acq_rel) - 1;
      if (left == 0) crew_.complete(*plan_);
      continue;
    }
    for (std::uint32_t i = 0; i < done.joins; ++i) {
      Join& join = plan_->joins[plan_->joins_of_tasks[done.first_join + i]];
      if (join.producers > 1) {
        if (decrement(join.pending) != 0) continue;
        join.pending.store(join.producers, kRelaxed);
      }
      release(join, may_continue ? &next : nullptr);
    }
  }
  return next;
}

// Makes a join's tasks ready; leaves the first unit of one block in `next` if that is free.
void Worker::release(const Join& join, std::uint32_t* next) {
  const std::uint32_t* member = &plan_->members[join.first_member];
  complete_.insert(complete_.end(), member, member + join.empties);
  member += join.empties;
  for (std::uint32_t i = 0; i < join.cohorts; ++i) queue_cohort(member[i]);
  const std::uint32_t units = (join.singles > 0 ? 1 : 0) + join.grids;
  for (std::uint32_t u = join.first_unit; u < join.first_unit + units; ++u) {
    if (next != nullptr && *next == kNone && plan_->units[u].blocks == 1) {
      *next = u;
    } else {
      push(u);
    }
  }
}

void Worker::push(std::uint32_t unit) {
  const std::int64_t blocks = plan_->units[unit].blocks;
  const std::int64_t workers = plan_->workers;
  // Worker w owns the blocks b with floor(b W / blocks) = w.
  std::int64_t first = 0;
  for (std::int64_t w = 0; w < workers; ++w) {
    const std::int64_t end = ((w + 1) * blocks + workers - 1) / workers;
    plan_->range(unit, static_cast<int>(w)).store(pack(first, end), kRelaxed);
    first = end;
  }
  const std::uint64_t entry = static_cast<std::uint64_t>(plan_->run) << 32 | unit;
  if (is_alone_) {
    const std::uint32_t position = plan_->ready_count.load(kRelaxed);
    plan_->ready_count.store(position + 1, kRelaxed);
    plan_->ready[position].store(entry, std::memory_order_release);
    return;  // The only worker isn't waiting for itself.
  }
  plan_->ready[plan_->ready_count.fetch_add(1)].exchange(entry);
  crew_.work_gate().notify(static_cast<std::uint32_t>(blocks));
}

bool Worker::has_cohort() const {
  const CohortRun* active = plan_->active.load();
  return active != nullptr && active != seen_ && active->has_lanes_on(index_);
}

bool Worker::run_cohort() {
  if (!has_cohort()) return false;
  CohortRun& cohort = *plan_->active.load();
  seen_ = &cohort;
  in_cohort_ = true;
  plan_->note_begin(cohort.task().id.value);
  const std::int64_t lanes = cohort.lanes_on(index_);
  if (lanes == 1) {
    run_lane(cohort, index_, nullptr);
  } else {
    share_worker(cohort, lanes);
  }
  in_cohort_ = false;
  if (cohort.become_idle()) crew_.give_up(*plan_, RunStatus::kDeadlock, cohort.deadlock());
  if (!cohort.leave() || cohort.is_aborted()) return true;
  {
    const std::lock_guard lock(plan_->cohorts_mutex);
    plan_->active.exchange(nullptr);
    start_next_cohort();
  }
  if (const std::uint32_t next = finish(cohort.task().id.value); next != kNone) push(next);
  return true;
}

void Worker::run_lane(CohortRun& cohort, std::int64_t lane, fiber::Fiber* fiber) {
  const BoundKernel& kernel = cohort.kernel();
  const std::uint32_t task = cohort.task().id.value;
  DirectLane direct({.index = lane, .lanes = kernel.lanes, .physical = index_},
                    crew_.options().remote);
  std::int64_t block = lane;
  try {
    for (std::size_t p = 0; p < kernel.phases.size(); ++p) {
      const BoundPhase& phase = kernel.phases[p];
      if (const auto& hook = crew_.options().faults.before_phase; hook)
        hook(cohort.task(), p, lane);
      for (block = lane; block < phase.blocks; block += kernel.lanes) {
        note(task, block);
        phase.body.direct(direct, phase.args.get(), block);
        step();
      }
      if (p < kernel.meetings.size() && lane < kernel.meetings[p].participants &&
          !meet(cohort, lane, p, fiber)) {
        break;
      }
    }
  } catch (...) {
    failed(task, block, text_of(std::current_exception()));
  }
  cohort.finish(lane);
}

// False if the cohort was aborted: the lane ends.
bool Worker::meet(CohortRun& cohort, std::int64_t lane, std::size_t meeting, fiber::Fiber* fiber) {
  const Faults& faults = crew_.options().faults;
  const auto is_skipped = [&](const auto& hook) {
    return hook != nullptr && hook(cohort.task(), meeting, lane);
  };
  const bool arrives = !is_skipped(faults.skip_arrival);
  const bool waits = !is_skipped(faults.skip_wait);
  if (arrives || waits) cohort.arrive(lane, meeting, arrives);
  step();
  while (waits && !cohort.is_released(lane)) {
    if (cohort.is_aborted()) return false;
    if (fiber != nullptr) {
      fiber->suspend();
    } else {
      wait_for_release(cohort);
    }
  }
  cohort.proceed(lane);
  return true;
}

// Lanes take turns. All are started before any runs, so that nothing but a meeting orders them.
void Worker::share_worker(CohortRun& cohort, std::int64_t lanes) {
  const auto count = static_cast<std::size_t>(lanes);
  while (fibers_.size() < count) {
    fibers_.push_back(std::make_unique<fiber::Fiber>(crew_.options().lane_stack_bytes));
  }
  lane_jobs_.resize(std::max(lane_jobs_.size(), count));
  for (std::size_t i = 0; i < count; ++i) {
    lane_jobs_[i] = {this, &cohort, cohort.lane_of(index_, static_cast<std::int64_t>(i)),
                     fibers_[i].get()};
    fibers_[i]->start(
        [job = &lane_jobs_[i]] { job->worker->run_lane(*job->cohort, job->lane, job->fiber); });
  }
  for (std::size_t left = count; left > 0;) {
    bool has_moved = false;
    for (std::size_t i = 0; i < count; ++i) {
      LaneJob& job = lane_jobs_[i];
      if (job.is_done) continue;
      if (cohort.is_waiting(job.lane) && !cohort.is_released(job.lane) && !cohort.is_aborted()) {
        continue;
      }
      job.fiber->resume();
      has_moved = true;
      if (!cohort.is_finished(job.lane)) continue;
      job.is_done = true;
      --left;
    }
    if (!has_moved) wait_for_release(cohort);
  }
}

// Returns when one of this worker's lanes may have been released, or the cohort was aborted.
void Worker::wait_for_release(CohortRun& cohort) {
  const std::int64_t lanes = cohort.lanes_on(index_);
  const auto ready = [&] {
    if (cohort.is_aborted()) return true;
    for (std::int64_t i = 0; i < lanes; ++i) {
      const std::int64_t lane = cohort.lane_of(index_, i);
      if (cohort.is_waiting(lane) && cohort.is_released(lane)) return true;
    }
    return false;
  };
  if (crew_.patience().wait_awake(ready)) return;
  if (run_own_block() || run_stolen_block()) return;
  if (cohort.become_idle()) crew_.give_up(*plan_, RunStatus::kDeadlock, cohort.deadlock());
  cohort.gate().sleep_until(ready);
  cohort.end_idle();
}

void Worker::queue_cohort(std::uint32_t task) {
  const std::lock_guard lock(plan_->cohorts_mutex);
  std::vector<std::uint32_t>& waiting = plan_->waiting_cohorts;
  waiting.insert(std::lower_bound(waiting.begin(), waiting.end(), task, std::greater<>()), task);
  if (plan_->active.load() == nullptr) start_next_cohort();
}

// Requires: the cohorts' mutex is held, and no cohort is active.
void Worker::start_next_cohort() {
  if (plan_->waiting_cohorts.empty()) return;
  CohortRun& next = *plan_->cohorts[plan_->cohort_of_task[plan_->waiting_cohorts.back()]];
  plan_->waiting_cohorts.pop_back();
  next.begin();
  plan_->active.exchange(&next);
  if (plan_->stopped.load()) next.abort();  // Whoever stopped it may not have seen this cohort.
  crew_.work_gate().notify();
}

void Worker::note(std::uint32_t task, std::int64_t block) {
  doing_.store(static_cast<std::uint64_t>(task) << 32 | static_cast<std::uint32_t>(block),
               kRelaxed);
  plan_->note_begin(task);
}

std::string Worker::doing() const {
  const std::uint64_t doing = doing_.load(kRelaxed);
  if (doing == ~std::uint64_t{0}) return "has run nothing";
  return fmt::format("was last given block {} of task #{}", doing & (kFirst - 1), doing >> 32);
}

void Worker::failed(std::uint32_t task, std::int64_t block, const std::string& what) {
  Finding finding{.verdict = Verdict::kUnknown, .rule = "native/exception"};
  finding.cause = fmt::format("block {} of task #{} threw: {}", block, task, what);
  finding.location = fmt::format("task #{}", task);
  crew_.give_up(*plan_, RunStatus::kFailed, std::move(finding));
}

}  // namespace cohort::native
