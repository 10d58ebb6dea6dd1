#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "program.h"

namespace cohort::litmus {

/// Ways to make the explorer wrong, for tests that must notice.
enum class Weakening : std::uint8_t {
  kNone,
  kNoEviction,             ///< The cache never writes back or drops a line of its own accord.
  kNoLateWriteBack,        ///< A line on its way never reaches memory.
  kNoStaleMarks,           ///< A write-back doesn't know that others have written since.
  kWriteBackOfBytesOnly,   ///< A write-back never writes a cell that its lane didn't.
  kStoresArriveInOrder,    ///< Of a lane's dma stores only the oldest may arrive.
  kFenceDoesNotWait,       ///< A fence lets a lane go on before its lines have arrived.
  kFirstChoiceOnly,        ///< `either` is always its first block.
  kEqualityWithoutALane,   ///< States that differ in their last lane alone are taken for one.
  kNoCycleProviso,         ///< A private step is taken alone even if it leads nowhere new.
  kPrivateDespiteReaders,  ///< A cell counts as private although other lanes' conditions read it.
  kNewestValueOnly,        ///< Weak: a load reads the newest value.
  kAcquireForgets,         ///< Weak: an acquire doesn't take over the view that a release carries.
  kCohortStartsOneByOne,   ///< A cohort's lanes start as cores come free.
  kEveryHangIsADeadlock,   ///< A lane that lacks a core isn't looked for.
};
inline constexpr int kWeakenings = 15;

/// Byte strings of 32-bit words, each kept once and known by a number: equal numbers mean equal
/// strings, so states that are made of numbers are compared exactly.
class Interner {
 public:
  std::uint32_t number_of(const std::vector<std::int32_t>& words);
  const std::vector<std::int32_t>& words(std::uint32_t number) const { return strings_[number]; }
  std::size_t size() const { return strings_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  std::vector<std::vector<std::int32_t>> strings_;
  std::vector<std::uint32_t> slots_;  // Open addressing; number + 1, 0 is free.
  std::size_t bytes_ = 0;
};

/// Where a lane is: whether it has started and how it ended.
enum class LaneStatus : std::int32_t { kNotStarted, kRunning, kEnded, kFaulted, kCrashed };

/// A state of a program: a number for each lane and one for what they share.
using State = std::vector<std::uint32_t>;

/// One thing that can happen in a state.
struct Transition {
  State next = {};
  int lane = -1;         ///< Who acts; -1: a task starts, or `finally` runs.
  bool is_whim = false;  ///< The cache's own doing: may never happen.
  bool writes = false;   ///< Changes what others can see.
  std::optional<Verdict> fault = {};
  std::int32_t instruction = -1;  ///< Of the lane, or -1.
  const char* what = "";          ///< If it isn't an instruction: "writes back a line", ...
};

/// The machine of docs/litmus.md: what can happen in a state, under each memory model.
class Machine {
 public:
  explicit Machine(const Program& program, Weakening weakening = Weakening::kNone);

  State initial();
  /// In a fixed order.
  void successors(const State& state, std::vector<Transition>& out);

  /// Takes one of the things that can happen, chosen by `choose(n)` among n. False if nothing but
  /// whims can. `taken` is its place among successors(), and `fault` its fault.
  template <class Choose>
  bool take(State& state, Choose choose, std::uint32_t& taken, std::optional<Verdict>& fault);

  bool is_done(const State& state, int lane) const;  ///< Ended or faulted.
  bool has_fault(const State& state) const;
  LaneStatus status(const State& state, int lane) const;
  /// A lane that could run but has no core.
  bool lacks_core(const State& state) const;
  std::size_t bytes() const { return lanes_.bytes() + shared_.bytes(); }

  /// A step of one lane that no other lane can tell from any other time, or -1.
  int private_step(const State& state) const;

  /// "writer: store cached data", for a schedule.
  std::string text_of(const Transition& transition) const;
  std::string lane_name(int lane) const;

 private:
  struct Line;    // A held line, or one on its way to memory.
  struct Dma;     // An issued store.
  struct Lane;    // A lane's part of a state, taken apart.
  struct Shared;  // Likewise of what is shared.
  // A lane's transition, before it is put into a state.
  struct Step {
    std::uint32_t lane = 0;
    std::uint32_t shared = 0;
    bool is_whim = false;
    bool writes = false;
    std::optional<Verdict> fault = {};
    std::int32_t instruction = -1;
    const char* what = "";
    std::vector<std::pair<std::int32_t, std::uint32_t>> stale =
        {};  // Lines and cells written in memory.
  };
  struct Reader;   // How an expression reads shared words.
  struct Stepper;  // All steps of one lane.

  Lane lane_of(std::uint32_t number) const;
  std::uint32_t number_of(const Lane& lane);
  Shared shared_of(std::uint32_t number) const;
  std::uint32_t number_of(const Shared& shared);
  const LaneProgram& code_of(int lane) const {
    return program_.lanes[static_cast<std::size_t>(lane)];
  }

  void run_locally(int lane, Lane& data, std::optional<Verdict>& fault) const;
  bool is_after_done(const State& state, int task) const;
  void starts(const State& state, std::vector<Transition>& out);
  const std::vector<Step>& steps(const State& state, int lane, bool may_run);
  void put(const State& state, int lane, const Step& step, std::vector<Transition>& out);
  void run_final(const State& state, std::vector<Transition>& out);

  const Program& program_;
  const Weakening weakening_;
  Interner lanes_;
  Interner shared_;
  // What a lane can do depends on its own part and the shared one alone, unless some passed() asks.
  struct StepKey {
    std::uint32_t lane_number, shared_number, lane;
    bool operator==(const StepKey&) const = default;
  };
  struct StepKeyHash {
    std::size_t operator()(const StepKey& k) const {
      std::uint64_t h =
          (std::uint64_t{k.lane_number} << 32 | k.shared_number) * 0x9E3779B97F4A7C15u;
      return static_cast<std::size_t>((h ^ h >> 29 ^ k.lane) * 0xBF58476D1CE4E5B9u >> 7);
    }
  };
  std::unordered_map<StepKey, std::vector<Step>, StepKeyHash> memo_;
  std::vector<std::vector<Step>> scratch_;            // By lane.
  std::vector<std::pair<int, const Step*>> options_;  // Of take().
  std::vector<Transition> transitions_;               // Likewise.
  std::vector<int> line_owner_;  // The only lane that names the line, -1 none, -2 several.
  bool has_counted_ = false;
};

template <class Choose>
bool Machine::take(State& state, Choose choose, std::uint32_t& taken,
                   std::optional<Verdict>& fault) {
  transitions_.clear();
  starts(state, transitions_);
  const std::size_t starting = transitions_.size();
  options_.clear();
  bool can_act = starting > 0;
  bool all_ended = true;
  for (std::size_t l = 0; l < program_.lanes.size(); ++l) {
    const int lane = static_cast<int>(l);
    const LaneStatus s = status(state, lane);
    all_ended = all_ended && s == LaneStatus::kEnded;
    const bool may_run = s == LaneStatus::kRunning && is_after_done(state, program_.lanes[l].task);
    if (!may_run && program_.memory.kind != Memory::Kind::kNoncoherent) continue;
    for (const Step& step : steps(state, lane, may_run)) {
      options_.emplace_back(lane, &step);
      can_act = can_act || !step.is_whim;
    }
  }
  if (all_ended && program_.has_final) {
    run_final(state, transitions_);
    if (transitions_.size() > starting) fault = transitions_.back().fault;
  }
  const auto count = static_cast<std::uint32_t>(starting + options_.size());
  // Whims that nothing follows may happen or not: stopping is one of the choices then.
  if (count == 0) return false;
  taken = choose(can_act ? count : count + 1);
  if (taken == count) return false;
  if (taken >= starting) {
    const auto& [lane, step] = options_[taken - starting];
    put(state, lane, *step, transitions_);
    fault = step->fault;
    state = transitions_.back().next;
  } else {
    fault = transitions_[taken].fault;
    state = transitions_[taken].next;
  }
  return true;
}

}  // namespace cohort::litmus
