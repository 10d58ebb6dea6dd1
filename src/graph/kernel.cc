#include "cohort/graph/kernel.h"

#include <algorithm>

namespace cohort {
namespace {

constexpr std::int64_t kSlotWords = 8;
constexpr std::int64_t kCounterWords = 16;

std::int64_t words_per_set(Barrier barrier, std::int64_t lanes) {
  switch (barrier) {
    case Barrier::kSlot:
      return kSlotWords * lanes;
    case Barrier::kCounter:
      return kCounterWords;
    case Barrier::kNone:
    case Barrier::kHard:
      return 0;
  }
  return 0;
}

std::int64_t participants_of(const Meeting& meeting, std::int64_t lanes) {
  return meeting.participants == 0 ? lanes : std::min(meeting.participants, lanes);
}

// Meetings of the same participants share words; sets are numbered in order of appearance.
std::vector<std::int64_t> set_of_meetings(const KernelRef& kernel, std::int64_t lanes) {
  std::vector<std::int64_t> sets;
  std::vector<std::int64_t> known;
  for (const Meeting& meeting : kernel.meetings) {
    const std::int64_t participants = participants_of(meeting, lanes);
    auto it = std::ranges::find(known, participants);
    if (it == known.end()) it = known.insert(known.end(), participants);
    sets.push_back(it - known.begin());
  }
  return sets;
}

std::int64_t lanes_of(const KernelRef& kernel, const BoundKernel& bound) {
  if (!kernel.is_fused()) return bound.phases.front().blocks;
  if (kernel.barrier == Barrier::kHard) return kernel.vector_cores;
  std::int64_t widest = 1;
  for (const BoundPhase& phase : bound.phases) widest = std::max(widest, phase.capacity);
  return std::min(kernel.lane_cap, widest);
}

}  // namespace

std::string_view name(CoreKind kind) { return kind == CoreKind::kVector ? "vector" : "cube"; }

std::string_view name(Barrier barrier) {
  switch (barrier) {
    case Barrier::kNone:
      return "none";
    case Barrier::kSlot:
      return "slot";
    case Barrier::kCounter:
      return "counter";
    case Barrier::kHard:
      return "hard";
  }
  return "";
}

std::int64_t ArgsType::tensors() const {
  return std::ranges::count_if(table, [](const OperandInfo& info) { return info.is_tensor(); });
}
ViewFields& ArgsType::tensor(void* args, std::size_t operand) const {
  return *static_cast<ViewFields*>(scalar(args, operand));
}
const ViewFields& ArgsType::tensor(const void* args, std::size_t operand) const {
  return *static_cast<const ViewFields*>(scalar(args, operand));
}
void* ArgsType::scalar(void* args, std::size_t operand) const {
  return static_cast<std::byte*>(args) + offsets[operand];
}
const void* ArgsType::scalar(const void* args, std::size_t operand) const {
  return static_cast<const std::byte*>(args) + offsets[operand];
}

std::int64_t KernelRef::participant_sets(std::int64_t lanes) const {
  std::int64_t sets = 0;
  for (const std::int64_t set : set_of_meetings(*this, lanes)) sets = std::max(sets, set + 1);
  return sets;
}

std::int64_t KernelRef::workspace_words(std::int64_t lanes) const {
  return participant_sets(lanes) * words_per_set(barrier, lanes);
}

BoundKernel bind_kernel(const KernelRef& kernel, const std::shared_ptr<const void>& args,
                        std::int64_t lanes) {
  BoundKernel bound;
  bound.barrier = kernel.barrier;
  bound.phases.reserve(kernel.phases.size());
  for (const Phase& phase : kernel.phases) {
    BoundPhase b{.body = phase.body, .args = phase.project ? phase.project(args.get()) : args};
    b.blocks = phase.body.blocks(b.args.get());
    b.capacity = std::max(b.blocks, phase.body.capacity(b.args.get()));
    bound.phases.push_back(std::move(b));
  }
  bound.lanes = lanes > 0 ? lanes : lanes_of(kernel, bound);
  const std::vector<std::int64_t> sets = set_of_meetings(kernel, bound.lanes);
  for (std::size_t i = 0; i < kernel.meetings.size(); ++i) {
    const std::int64_t participants = participants_of(kernel.meetings[i], bound.lanes);
    bound.meetings.push_back(
        {.participants = participants,
         .expected = kernel.barrier == Barrier::kHard ? kernel.vector_cores : participants,
         .first_word = sets[i] * words_per_set(kernel.barrier, bound.lanes)});
  }
  if (kernel.barrier != Barrier::kNone) {
    const std::int64_t tensors = kernel.args_type->tensors();
    if (tensors > 0) {
      bound.workspace = kernel.args_type->tensor(args.get(), static_cast<std::size_t>(tensors - 1));
    }
  }
  if (kernel.steps) {
    const auto total = static_cast<std::int64_t>(bound.phases.size() + bound.meetings.size());
    const std::int64_t steps = std::clamp<std::int64_t>(kernel.steps(args.get()), 1, total);
    bound.phases.resize(static_cast<std::size_t>((steps + 1) / 2));
    bound.meetings.resize(static_cast<std::size_t>(steps / 2));
  }
  return bound;
}

}  // namespace cohort
