#include "cohort/verdict/verdict.h"

namespace cohort {
namespace {

struct Entry {
  std::string_view word;
  std::string_view meaning;
};

constexpr std::array<Entry, kVerdicts> kEntries = {{
    {"pass", "Examined, and nothing was wrong."},
    {"layout", "Participants, slots or strides don't fit the workspace."},
    {"deadlock", "Lanes wait for something that can never come."},
    {"identity", "A lane acts under an index that isn't its dense logical one."},
    {"out-of-bounds", "An access lies outside its tensor, operand or declared region."},
    {"residency", "Lanes that wait for each other need not be resident together."},
    {"stale-read", "A lane may read a value older than the one ordered before it."},
    {"premature-release", "A barrier lets go on arrivals that aren't its own."},
    {"direction", "An operand is used against its declared direction."},
    {"inout-reuse", "A version of a tensor is used after it was consumed as InOut."},
    {"edge-surplus", "The graph orders two tasks that need no order."},
    {"edge-missing", "A required edge isn't in the graph."},
    {"bit-difference", "Two results that must be the same bits are not."},
    {"no-profit", "The fused step isn't faster."},
    {"incomplete-barrier", "A barrier was left before all its participants had arrived."},
    {"foreign-line", "Cache maintenance touched a line that another lane owns."},
    {"lost-update", "A write-back of a whole line undid another lane's bytes."},
    {"local-overlap", "Two uses of local memory overlap."},
    {"workspace-init", "A barrier's workspace didn't start at its initial value."},
    {"race", "Two conflicting tasks have no path between them."},
    {"abi", "Operands come in another order, number or type than the kernel's."},
    {"uninitialised-read", "Bytes were read that nobody wrote."},
    {"divergence", "Lanes of one grid take different paths to a barrier."},
    {"false-sharing", "Two lanes write one line in a way that can't be published safely."},
    {"unused-tensor", "A tensor is operand of no live task."},
    {"livelock", "Lanes act forever without getting further."},
    {"assert-fail", "A stated assertion is false in some execution."},
    {"unknown", "Neither shown right nor shown wrong: a bound or a precondition failed."},
}};

}  // namespace

std::string_view word(Verdict verdict) { return kEntries[static_cast<std::size_t>(verdict)].word; }

std::string_view meaning(Verdict verdict) {
  return kEntries[static_cast<std::size_t>(verdict)].meaning;
}

std::optional<Verdict> verdict_of(std::string_view word) {
  for (std::size_t i = 0; i < kEntries.size(); ++i) {
    if (kEntries[i].word == word) return static_cast<Verdict>(i);
  }
  return std::nullopt;
}

}  // namespace cohort
