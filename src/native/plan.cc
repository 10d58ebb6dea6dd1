#include "plan.h"

#include <algorithm>
#include <map>
#include <utility>

namespace cohort::native {
namespace {

TaskKind kind_of(const Task& task) {
  if (task.is_dummy() || task.bound.phases.empty()) return TaskKind::kEmpty;
  if (task.launch.sync_start || task.bound.phases.size() > 1 || !task.bound.meetings.empty()) {
    return task.bound.lanes > 0 ? TaskKind::kCohort : TaskKind::kEmpty;
  }
  return task.bound.phases.front().blocks > 0 ? TaskKind::kBlocks : TaskKind::kEmpty;
}

// Of each task, ascending and without repeats.
std::vector<std::vector<std::uint32_t>> producers_of_tasks(const Graph& graph) {
  std::vector<std::vector<std::uint32_t>> producers(graph.tasks().size());
  for (const Edge& edge : graph.edges()) producers[edge.to.value].push_back(edge.from.value);
  for (auto& list : producers) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  return producers;
}

}  // namespace

Plan::Plan(const Graph& source, int crew_size)
    : graph(&source), memory(source.memory()), workers(crew_size) {
  const std::size_t count = source.tasks().size();
  tasks = std::make_unique<PlannedTask[]>(count);
  const auto producers = producers_of_tasks(source);

  std::map<std::vector<std::uint32_t>, std::vector<std::uint32_t>> waiting;  // By producers.
  for (std::uint32_t t = 0; t < count; ++t) waiting[producers[t]].push_back(t);
  join_count = static_cast<std::uint32_t>(waiting.size());
  joins = std::make_unique<Join[]>(join_count);
  std::vector<std::vector<std::uint32_t>> joins_of(count);
  std::uint32_t j = 0;
  for (const auto& [from, to] : waiting) {
    joins[j].producers = static_cast<std::int32_t>(from.size());
    joins[j].first_member = static_cast<std::uint32_t>(members.size());
    joins[j].grids = static_cast<std::uint32_t>(to.size());  // update() tells them apart.
    members.insert(members.end(), to.begin(), to.end());
    for (const std::uint32_t producer : from) joins_of[producer].push_back(j);
    if (from.empty()) root = j;
    ++j;
  }
  for (std::uint32_t t = 0; t < count; ++t) {
    tasks[t].first_join = static_cast<std::uint32_t>(joins_of_tasks.size());
    tasks[t].joins = static_cast<std::uint32_t>(joins_of[t].size());
    joins_of_tasks.insert(joins_of_tasks.end(), joins_of[t].begin(), joins_of[t].end());
    if (joins_of[t].empty()) ++sinks;
  }
  // A join has at most as many units as members.
  ranges =
      std::make_unique<std::atomic<std::uint64_t>[]>(count * static_cast<std::size_t>(workers));
  ready = std::make_unique<std::atomic<std::uint64_t>[]>(count);
  update();
}

void Plan::update() {
  const std::vector<Task>& source = graph->tasks();
  cohorts.clear();
  args.assign(source.size(), nullptr);
  cohort_of_task.assign(source.size(), kNone);
  most_lanes_per_worker = 0;
  for (std::uint32_t t = 0; t < source.size(); ++t) {
    PlannedTask& task = tasks[t];
    task.kind = kind_of(source[t]);
    task.blocks = 0;
    if (task.kind == TaskKind::kBlocks) {
      const BoundPhase& phase = source[t].bound.phases.front();
      task.direct = phase.body.direct;
      args[t] = phase.args;
      task.args = phase.args.get();
      COHORT_CHECK(phase.blocks <= INT32_MAX, "more blocks than the executor counts");
      task.blocks = static_cast<std::int32_t>(phase.blocks);
    } else if (task.kind == TaskKind::kCohort) {
      cohort_of_task[t] = static_cast<std::uint32_t>(cohorts.size());
      cohorts.push_back(std::make_unique<CohortRun>(source[t], workers));
      most_lanes_per_worker =
          std::max(most_lanes_per_worker, (source[t].bound.lanes + workers - 1) / workers);
    }
  }
  units.clear();
  const auto order = [&](std::uint32_t t) {
    if (tasks[t].kind == TaskKind::kEmpty) return 0;
    if (tasks[t].kind == TaskKind::kCohort) return 1;
    return tasks[t].blocks == 1 ? 2 : 3;
  };
  for (std::uint32_t j = 0; j < join_count; ++j) {
    Join& join = joins[j];
    const std::uint32_t count = join.empties + join.cohorts + join.singles + join.grids;
    const auto first = members.begin() + join.first_member;
    std::sort(first, first + count, [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(order(a), a) < std::pair(order(b), b);
    });
    std::uint32_t counts[4] = {};
    for (auto it = first; it != first + count; ++it) ++counts[order(*it)];
    join.empties = counts[0];
    join.cohorts = counts[1];
    join.singles = counts[2];
    join.grids = counts[3];
    join.first_unit = static_cast<std::uint32_t>(units.size());
    std::uint32_t member = join.first_member + join.empties + join.cohorts;
    if (join.singles > 0) {
      units.push_back({member, static_cast<std::int32_t>(join.singles), false});
      member += join.singles;
    }
    for (std::uint32_t i = 0; i < join.grids; ++i, ++member) {
      units.push_back({member, tasks[members[member]].blocks, true});
    }
  }
  restore();
}

void Plan::restore() {
  for (std::uint32_t j = 0; j < join_count; ++j) joins[j].pending = joins[j].producers;
  for (std::uint32_t t = 0; t < graph->tasks().size(); ++t) tasks[t].remaining = tasks[t].blocks;
}

void Plan::note_begin_at(std::uint32_t task, std::chrono::steady_clock::time_point now) {
  const std::int64_t time = now.time_since_epoch().count();
  std::int64_t first = begin_times[task].load(std::memory_order_relaxed);
  while (time < first && !begin_times[task].compare_exchange_weak(first, time)) {
  }
}

std::vector<TaskTime> Plan::task_times(std::chrono::steady_clock::time_point start) const {
  std::vector<TaskTime> times;
  const auto since_start = [&](std::chrono::steady_clock::time_point at) {
    return Nanos{std::chrono::nanoseconds(at - start).count()};
  };
  for (std::uint32_t t = 0; t < end_times.size(); ++t) {
    const std::chrono::steady_clock::duration first(begin_times[t].load());
    const Nanos end = since_start(end_times[t]);
    const bool has_run = tasks[t].kind != TaskKind::kEmpty;
    times.push_back({TaskId{t},
                     has_run ? since_start(std::chrono::steady_clock::time_point(first)) : end,
                     end});
  }
  return times;
}

void Plan::begin_run(bool record_times) {
  if (record_times) {
    begin_times = std::vector<std::atomic<std::int64_t>>(args.size());
    for (auto& time : begin_times) time = INT64_MAX;
    end_times.assign(args.size(), {});
  }
  if (++run == 0) {  // Tags start again: forget those of four thousand million runs ago.
    for (std::size_t i = 0; i < graph->tasks().size(); ++i) ready[i] = 0;
    run = 1;
  }
  ready_count = 0;
  unfinished = sinks;
  active = nullptr;
  stopped = false;
  waiting_cohorts.clear();
}

}  // namespace cohort::native
