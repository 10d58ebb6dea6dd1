#include "cohort/lane/contract.h"

#include <algorithm>
#include <cstring>

#include "cohort/lane/run_in_order.h"

namespace cohort {
namespace {

using Memory = std::vector<std::byte>;

std::vector<const Tensor*> tensors_of(const Task& task) {
  const ArgsType& type = *task.kernel->args_type;
  std::vector<const Tensor*> tensors;
  for (std::size_t i = 0; i < static_cast<std::size_t>(type.tensors()); ++i) {
    const Tensor* t = type.tensor(static_cast<const void*>(task.args.get()), i).tensor;
    if (std::ranges::find(tensors, t) == tensors.end()) tensors.push_back(t);
  }
  return tensors;
}

std::vector<Memory> save(const std::vector<const Tensor*>& tensors) {
  std::vector<Memory> saved;
  for (const Tensor* t : tensors) saved.emplace_back(t->memory().begin(), t->memory().end());
  return saved;
}

void restore(const std::vector<const Tensor*>& tensors, const std::vector<Memory>& saved) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::memcpy(tensors[i]->data, saved[i].data(), saved[i].size());
  }
}

std::vector<BlockFootprint> run_modelled(const Task& task, TilePoison poison) {
  const std::int64_t lanes = std::max<std::int64_t>(task.bound.lanes, 1);
  FootprintRecorder recorder(FootprintRecorder::Mode::kLive);
  std::vector<BlockFootprint> footprints;
  for (const BoundPhase& phase : task.bound.phases) {
    for (std::int64_t b = 0; b < phase.blocks; ++b) {
      const LaneIdentity identity{.index = b % lanes, .lanes = lanes, .physical = b % lanes};
      footprints.push_back(recorder.run(phase, b, identity, poison));
    }
  }
  return footprints;
}

void compare(const std::vector<const Tensor*>& tensors, const std::vector<Memory>& a,
             const std::vector<Memory>& b, const std::string& what, ContractReport& report) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    report.bytes_compared += static_cast<std::int64_t>(a[i].size());
    const auto [x, y] = std::ranges::mismatch(a[i], b[i]);
    if (x == a[i].end()) continue;
    const std::int64_t byte = x - a[i].begin();
    report.errors.push_back("tensor " + tensors[i]->name + ", element " +
                            std::to_string(byte / tensors[i]->element_bytes()) + ": " + what);
  }
}

// Each operand's declared direction against what its blocks did. An Out may be read only where it
// was written before; the blocks of a phase have no order, so only the same block's writes count.
void check_directions(const Task& task, ContractReport& report) {
  const ArgsType& type = *task.kernel->args_type;
  for (const BlockFootprint& f : report.footprints) {
    std::vector<ByteSet> written(type.table.size());
    for (const AccessRecord& r : f.accesses) {
      if (r.access.operand < 0) continue;
      const auto operand = static_cast<std::size_t>(r.access.operand);
      const OperandInfo& info = type.table[operand];
      const std::string who = "task \"" + task.name + "\", block " + std::to_string(f.block) +
                              ", operand " + std::to_string(operand) + ", " +
                              std::string(info.name);
      if (info.direction == Direction::kIn && writes_memory(r.kind)) {
        report.errors.push_back(who + " is declared In and is written: " +
                                std::string(name(r.kind)) + " of " + to_string(r.access.region));
      }
      ByteSet touched;
      touched.add(r.access.region);
      if (info.direction == Direction::kOut && reads_memory(r.kind) && !task.kernel->is_fused() &&
          !written[operand].contains(touched)) {
        report.errors.push_back(who + " is declared Out and is read before it is written: " +
                                std::string(name(r.kind)) + " of " + to_string(r.access.region));
      }
      if (writes_memory(r.kind)) written[operand].add(touched);
    }
  }
}

}  // namespace

ContractReport check_contract(const Task& task) {
  ContractReport report;
  COHORT_CHECK(!task.is_dummy(), "a dummy task has no contract");
  const std::vector<const Tensor*> tensors = tensors_of(task);
  const std::vector<Memory> before = save(tensors);

  std::vector<Memory> modelled[2];
  for (const TilePoison poison : {TilePoison::kFirst, TilePoison::kSecond}) {
    restore(tensors, before);
    std::vector<BlockFootprint> footprints = run_modelled(task, poison);
    modelled[static_cast<std::size_t>(poison)] = save(tensors);
    if (poison == TilePoison::kFirst) report.footprints = std::move(footprints);
  }

  restore(tensors, before);
  run_in_order(task);
  const std::vector<Memory> direct = save(tensors);

  report.blocks = static_cast<std::int64_t>(report.footprints.size());
  for (const BlockFootprint& f : report.footprints) {
    for (const Violation& v : f.violations) report.errors.push_back(v.text);
  }
  compare(tensors, modelled[0], modelled[1],
          "it depends on what a fresh output tile holds: the block doesn't write it", report);
  compare(tensors, direct, modelled[0], "DirectLane and ModelledLane leave different bytes",
          report);
  check_directions(task, report);
  return report;
}

}  // namespace cohort
