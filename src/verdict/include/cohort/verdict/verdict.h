#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace cohort {

/// The closed list of verdict words. Every checker, message, file format and expectation uses these
/// and no others.
enum class Verdict {
  kPass,               ///< Examined, and nothing was wrong.
  kLayout,             ///< Participants, slots or strides don't fit the workspace.
  kDeadlock,           ///< Lanes wait for something that can never come.
  kIdentity,           ///< A lane acts under an index that isn't its dense logical one.
  kOutOfBounds,        ///< An access outside its tensor, operand or declared region.
  kResidency,          ///< Lanes that wait for each other need not be resident together.
  kStaleRead,          ///< A lane may read a value older than the one ordered before it.
  kPrematureRelease,   ///< A barrier lets go on arrivals that aren't its own.
  kDirection,          ///< An operand is used against its declared direction.
  kInoutReuse,         ///< A version of a tensor is used after it was consumed as InOut.
  kEdgeSurplus,        ///< The graph orders two tasks that need no order.
  kEdgeMissing,        ///< A required edge isn't in the graph.
  kBitDifference,      ///< Two results that must be the same bits are not.
  kNoProfit,           ///< The fused step isn't faster.
  kIncompleteBarrier,  ///< A barrier was left before all its participants had arrived.
  kForeignLine,        ///< Cache maintenance of a line that another lane owns.
  kLostUpdate,         ///< A write-back of a whole line undid another lane's bytes.
  kLocalOverlap,       ///< Two uses of local memory overlap.
  kWorkspaceInit,      ///< A barrier's workspace didn't start at its initial value.
  kRace,               ///< Two conflicting tasks without a path between them.
  kAbi,                ///< Operands in another order, number or type than the kernel's.
  kUninitialisedRead,  ///< Bytes were read that nobody wrote.
  kDivergence,         ///< Lanes of one grid take different paths to a barrier.
  kFalseSharing,       ///< Two lanes write one line in a way that can't be published safely.
  kUnusedTensor,       ///< A tensor that no live task has as an operand.
  kLivelock,           ///< Lanes act forever without getting further.
  kAssertFail,         ///< A stated assertion is false in some execution.
  kUnknown,            ///< Neither shown right nor shown wrong: a bound or a precondition failed.
};
inline constexpr int kVerdicts = 28;

/// The word of a verdict: "stale-read".
std::string_view word(Verdict verdict);

/// The verdict of a word, or nothing.
std::optional<Verdict> verdict_of(std::string_view word);

/// One sentence that says what the word means, for people and for SARIF rules.
std::string_view meaning(Verdict verdict);

/// What a command of Cohort exits with.
enum class ExitStatus {
  kPass = 0,           ///< Everything asked for was done and nothing was found.
  kFinding = 1,        ///< A finding, or a comparison that failed.
  kUsage = 2,          ///< Wrong flags or unusable input.
  kGaveUp = 3,         ///< A budget or watchdog ended it, or a verdict is unknown.
  kInterrupted = 130,  ///< Ctrl-C.
};

}  // namespace cohort
