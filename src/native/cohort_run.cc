#include "cohort_run.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cohort/lane/barrier.h"

namespace cohort::native {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// What ends the wait at each meeting: meetings of the same participants count in the same words.
std::vector<std::int32_t> targets_of(const BoundKernel& kernel) {
  std::vector<std::int32_t> targets;
  std::map<std::int64_t, std::int32_t> generations;  // By first word.
  for (const BoundMeeting& meeting : kernel.meetings) {
    const std::int32_t generation = ++generations[meeting.first_word];
    const auto step = static_cast<std::int32_t>(meeting.expected);
    targets.push_back(kernel.barrier == Barrier::kSlot ? generation : generation * step);
  }
  return targets;
}

// "0-3, 7".
std::string ranges(const std::vector<std::int64_t>& numbers) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    parts.push_back(last == i ? fmt::format("{}", numbers[i])
                              : fmt::format("{}-{}", numbers[i], numbers[last]));
    i = last + 1;
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string plural(std::size_t count, const std::string& one) {
  return count == 1 ? one : one + "s";
}

}  // namespace

CohortRun::CohortRun(const Task& task, int workers)
    : task_(task),
      stride_(workers),
      workers_(static_cast<int>(std::min<std::int64_t>(workers, task.bound.lanes))),
      workspace_(static_cast<std::int32_t*>(task.bound.workspace.data)),
      targets_(targets_of(task.bound)),
      states_(std::make_unique<LaneState[]>(index(task.bound.lanes))),
      counts_(std::make_unique<WorkerCount[]>(static_cast<std::size_t>(workers_))) {}

void CohortRun::begin() {
  for (std::int64_t lane = 0; lane < lanes(); ++lane) {
    LaneState& state = states_[index(lane)];
    state.meeting.store(-1, kRelaxed);
    state.arrived.store(false, kRelaxed);
    state.stage.store(Stage::kRunning, kRelaxed);
  }
  for (int worker = 0; worker < workers_; ++worker)
    counts_[index(worker)].arrivals.store(0, kRelaxed);
  hard_arrivals_.store(0, kRelaxed);
  idle_.store(0, kRelaxed);
  left_.store(0, kRelaxed);
  aborted_.store(false, kRelaxed);
}

void CohortRun::arrive(std::int64_t lane, std::size_t meeting, bool arrives) {
  LaneState& state = states_[index(lane)];
  const BoundMeeting& bound = task_.bound.meetings[meeting];
  const Barrier barrier = task_.bound.barrier;
  state.meeting.store(static_cast<std::int32_t>(meeting), kRelaxed);
  state.arrived.store(arrives, kRelaxed);
  const bool counts_in_words = arrives && barrier != Barrier::kHard;
  state.target.store(
      counts_in_words ? cohort::arrive(barrier, workspace_, bound, lane) : targets_[meeting],
      kRelaxed);
  state.stage.store(Stage::kWaiting, kRelaxed);
  if (arrives && barrier == Barrier::kHard) {
    // A worker's lanes come in one after the other, so its last one counts for all of them.
    const int worker = static_cast<int>(lane % stride_);
    std::atomic<std::int64_t>& count = counts_[index(worker)].arrivals;
    const std::int64_t mine = count.load(std::memory_order_acquire) + 1;
    count.store(mine, std::memory_order_release);
    const std::int64_t all = (bound.participants - worker + stride_ - 1) / stride_;
    if (mine % all == 0) hard_arrivals_.fetch_add(all);
  }
  gate_.notify();
}

void CohortRun::proceed(std::int64_t lane) {
  states_[index(lane)].stage.store(Stage::kRunning, kRelaxed);
}

void CohortRun::finish(std::int64_t lane) {
  states_[index(lane)].stage.store(Stage::kFinished, std::memory_order_release);
}

bool CohortRun::released(const LaneState& state) const {
  const auto meeting = static_cast<std::size_t>(state.meeting.load(kRelaxed));
  const std::int32_t target = state.target.load(kRelaxed);
  if (task_.bound.barrier == Barrier::kHard) return hard_arrivals_.load() >= target;
  return cohort::released(task_.bound.barrier, workspace_, task_.bound.meetings[meeting], target);
}

bool CohortRun::is_released(std::int64_t lane) const { return released(states_[index(lane)]); }

void CohortRun::abort() {
  aborted_.exchange(true);
  gate_.notify();
}

// A lane's state only changes while its worker isn't idle, and a worker that ends being idle first
// leaves the count and then marks a move. So if all workers are in the count, and no move was
// marked from before that was seen until after all states were read, the states were read at rest.
bool CohortRun::become_idle() {
  idle_.fetch_add(1);
  for (;;) {
    const std::uint64_t moves = moves_.load();
    if (idle_.load() != workers_) return false;
    bool is_stuck = false;
    for (std::int64_t lane = 0; lane < lanes(); ++lane) {
      const LaneState& state = states_[index(lane)];
      if (state.stage.load(std::memory_order_acquire) != Stage::kWaiting) continue;
      if (released(state)) return false;
      is_stuck = true;
    }
    if (moves_.load() == moves) return is_stuck;
  }
}

void CohortRun::end_idle() {
  idle_.fetch_sub(1);
  moves_.fetch_add(1);
}

bool CohortRun::has_passed(std::int64_t lane, std::int32_t meeting) const {
  const LaneState& state = states_[index(lane)];
  const std::int32_t at = state.meeting.load(kRelaxed);
  return at > meeting || (at == meeting && state.arrived.load(kRelaxed));
}

Finding CohortRun::deadlock() const {
  const BoundKernel& bound = task_.bound;
  Finding finding;
  finding.verdict = Verdict::kDeadlock;
  finding.rule = "native/deadlock";
  finding.location = fmt::format("task #{} \"{}\"", task_.id.value, task_.name);

  std::vector<std::int64_t> waiting;
  for (std::int64_t lane = 0; lane < lanes(); ++lane) {
    if (is_waiting(lane)) waiting.push_back(lane);
  }
  finding.cause = fmt::format("{} {} of {} wait and can't be released",
                              plural(waiting.size(), "lane"), ranges(waiting), finding.location);
  for (std::size_t m = 0; m < bound.meetings.size(); ++m) {
    const auto meeting = static_cast<std::int32_t>(m);
    std::vector<std::int64_t> here;
    std::vector<std::int64_t> missing;
    for (std::int64_t lane = 0; lane < lanes(); ++lane) {
      if (is_waiting(lane) && states_[index(lane)].meeting.load(kRelaxed) == meeting) {
        here.push_back(lane);
      }
      if (lane < bound.meetings[m].participants && !has_passed(lane, meeting)) {
        missing.push_back(lane);
      }
    }
    if (here.empty()) continue;
    const std::string label = fmt::format("barrier {}", m);
    finding.evidence.push_back(
        {label,
         fmt::format("{} {} at the {} barrier after \"{}\", which needs {} arrivals",
                     plural(here.size(), "lane"),
                     ranges(here) + (here.size() == 1 ? " waits" : " wait"), name(bound.barrier),
                     bound.phases[m].body.info.name, bound.meetings[m].expected)});
    for (const std::int64_t lane : missing) {
      const LaneState& state = states_[index(lane)];
      const char* where = is_finished(lane) ? "finished" : "waits";
      const std::int32_t at = state.meeting.load(kRelaxed);
      finding.evidence.push_back(
          {fmt::format("missing arrival at {}", label),
           is_finished(lane) || at == meeting
               ? fmt::format("lane {} {} without having arrived", lane, where)
               : fmt::format("lane {} waits at barrier {}", lane, at)});
    }
    if (bound.meetings[m].expected > lanes()) {
      finding.evidence.push_back(
          {fmt::format("missing arrival at {}", label),
           fmt::format("cores {}-{} have no lane", lanes(), bound.meetings[m].expected - 1)});
      finding.advice = fmt::format("launch {} lanes, or use a slot or counter barrier",
                                   bound.meetings[m].expected);
    }
  }
  if (finding.advice.empty()) {
    finding.advice = "make every participant reach the barrier, also with nothing to do";
  }
  return finding;
}

}  // namespace cohort::native
