#include "cohort/lane/graph_record.h"

#include <algorithm>

#include "cohort/lane/run_in_order.h"

namespace cohort {
namespace {

using Kind = LaneEvent::Kind;

// Appends one clean or invalidate a tensor.
void add_maintenance(std::vector<LaneEvent>& events, Kind kind,
                     const std::vector<LineRange>& ranges) {
  for (const LineRange& range : ranges) {
    if (!range.lines.empty())
      events.push_back({.kind = kind, .tensor = range.tensor, .bytes = range.lines});
  }
}

void add_block(std::vector<LaneEvent>& events, std::size_t phase, const BlockFootprint& block) {
  for (const AccessRecord& a : block.accesses) {
    LaneEvent event{.kind = Kind::kAccess,
                    .access = a.kind,
                    .tensor = a.access.tensor,
                    .phase = phase,
                    .block = block.block};
    event.bytes.add(a.access.region);
    events.push_back(std::move(event));
  }
}

// The end of a block: its stores are drained, and what went through the data cache is cleaned.
void add_end(std::vector<LaneEvent>& events) {
  TensorBytesMap cached;
  for (const LaneEvent& e : events) {
    if (e.kind == Kind::kAccess && e.access == AccessKind::kPut) {
      cached.at(*e.tensor).writes.add(e.bytes);
    }
  }
  events.push_back({.kind = Kind::kDrain});
  for (const TensorBytes& t : cached.entries()) {
    events.push_back(
        {.kind = Kind::kClean, .tensor = t.tensor, .bytes = t.writes.rounded_to_lines()});
  }
  events.push_back({.kind = Kind::kFence});
}

GridRecord grid_of(const Task& task, const TaskRecord& record) {
  GridRecord grid{.task = task.id};
  Result<FusionPlan> plan = plan_fusion(task.bound);
  COHORT_CHECK(plan.has_value(), "a fused task that can't be planned was submitted");
  grid.plan = *std::move(plan);
  const BoundKernel& kernel = task.bound;
  for (std::int64_t l = 0; l < kernel.lanes; ++l) {
    std::vector<LaneEvent>& events = grid.lanes.emplace_back();
    for (std::size_t p = 0; p < kernel.phases.size(); ++p) {
      for (std::int64_t b = l; b < kernel.phases[p].blocks; b += kernel.lanes) {
        add_block(events, p, record.phases[p][static_cast<std::size_t>(b)]);
      }
      if (p >= kernel.meetings.size() || l >= kernel.meetings[p].participants) continue;
      const LaneMaintenance& maintenance = grid.plan.barriers[p][static_cast<std::size_t>(l)];
      events.push_back({.kind = Kind::kDrain});
      add_maintenance(events, Kind::kClean, maintenance.publish);
      events.push_back({.kind = Kind::kFence});
      const std::int64_t slot = kernel.barrier == Barrier::kSlot ? 8 * l : 0;
      events.push_back(
          {.kind = Kind::kArrive, .barrier = p, .word = kernel.meetings[p].first_word + slot});
      events.push_back({.kind = Kind::kLeave, .barrier = p});
      add_maintenance(events, Kind::kInvalidate, maintenance.acquire);
      events.push_back({.kind = Kind::kFence});
    }
    add_end(events);
  }
  return grid;
}

}  // namespace

GraphRecord record_graph(const Graph& graph) {
  set_initial_values(graph);
  GraphRecord result;
  FootprintRecorder recorder(FootprintRecorder::Mode::kLive);
  for (const Task& task : graph.tasks()) {
    TaskRecord& record = result.tasks.emplace_back();
    record.task = task.id;
    if (task.is_dummy()) {
      for (const OperandUse& use : task.operands) {
        TensorBytes& bytes = record.bytes.at(graph.tensor_of(use.region.tensor));
        if (use.direction != Direction::kOut) bytes.reads.add(use.region);
        if (use.direction != Direction::kIn) bytes.writes.add(use.region);
      }
      continue;
    }
    const std::int64_t lanes = std::max<std::int64_t>(task.bound.lanes, 1);
    for (const BoundPhase& phase : task.bound.phases) {
      std::vector<BlockFootprint>& blocks = record.phases.emplace_back();
      for (std::int64_t b = 0; b < phase.blocks; ++b) {
        blocks.push_back(
            recorder.run(phase, b, {.index = b % lanes, .lanes = lanes, .physical = b % lanes}));
        for (const AccessRecord& access : blocks.back().accesses) record.bytes.add(access);
      }
    }
    if (task.bound.barrier != Barrier::kNone) {
      // The barrier's own words: every lane reads and writes them, whatever its protocol.
      TensorBytes& words = record.bytes.at(*task.bound.workspace.tensor);
      if (task.bound.barrier != Barrier::kHard) {
        words.reads.add(task.bound.workspace.region());
        words.writes.add(task.bound.workspace.region());
      }
      record.grid = grid_of(task, record);
    }
  }
  return result;
}

}  // namespace cohort
