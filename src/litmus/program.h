#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "cohort/base/result.h"
#include "cohort/litmus/ast.h"

namespace cohort::litmus {

/// The value of a cell that was never given one.
inline constexpr std::int32_t kNothing = std::numeric_limits<std::int32_t>::min();

/// Wraps to the language's 31 bits.
constexpr std::int32_t wrap(std::int64_t v) {
  constexpr std::int64_t kHalf = std::int64_t{1} << 30;
  return static_cast<std::int32_t>(((v + kHalf) & (2 * kHalf - 1)) - kHalf);
}

/// An expression as a list of operations on a stack.
struct Code {
  enum class Op : std::uint8_t {
    kPush,      ///< value
    kRegister,  ///< register `value`
    kShared,    ///< cell `value`
    kGhost,     ///< ghost `value`
    kSharedAt,  ///< pops an index below `count`: cell value + index
    kGhostAt,   ///< likewise
    kPassed,    ///< checkpoint `value`
    kUnary,     ///< op
    kBinary,    ///< op
  };
  struct Step {
    Op op = Op::kPush;
    Operator oper = Operator::kAdd;
    std::int32_t value = 0;
    std::int32_t count = 0;
  };
  std::vector<Step> steps = {};
  bool is_shared = false;  ///< Reads words, ghosts or passed(): evaluating it is a step of its own.
};

/// Cells that a statement names: cells [base + index, base + last] of `count`.
struct CellRange {
  bool is_ghost = false;
  std::int32_t base = 0;
  std::int32_t count = 0;
  std::vector<Code> index = {};  ///< Nothing: all; one: that; two: both ends.
};

/// One instruction of a lane.
struct Instruction {
  enum class Kind : std::uint8_t {
    kSet,
    kBranch,  ///< To `target` if code[0] is 0.
    kJump,
    kZero,  ///< Sets the registers `registers` to 0.
    kChoose,
    kLoad,
    kStore,
    kAdd,
    kExchange,
    kCas,
    kClean,
    kInvalidate,
    kDrain,
    kFence,
    kWait,
    kPoll,  ///< A bounded wait: to `target` if it is fulfilled; counts polls in register `result`.
    kAssert,
    kCheckpoint,
    kExit,
    kCrash,
    kSkip,
  };
  Kind kind = Kind::kSkip;
  Path path = Path::kUncached;
  Order order = {};
  Verdict word = Verdict::kAssertFail;
  Position at = {};
  std::int32_t result = -1;  ///< Register, or -1.
  std::int32_t target = -1;
  std::int32_t number = 0;  ///< Polls; checkpoint.
  bool is_all = false;      ///< clean all, invalidate all.
  std::vector<Code> code = {};
  std::vector<CellRange> cells = {};
  std::vector<std::int32_t> targets = {};
  std::vector<std::int32_t> registers = {};
  std::string text = {};  ///< As people read it: "store cached data = 7".
};

struct LaneProgram {
  int task = 0;
  int index = 0;  ///< In its task.
  std::vector<Instruction> code = {};
  int registers = 0;
  int bytes_register = -1;  ///< Where a whole-range access counts its parts; -1 if it has none.
};

struct TaskProgram {
  std::string name = {};
  std::vector<int> lanes = {};
  bool cohort = false;
  std::vector<int> after = {};
};

/// One case of a file, with every parameter fixed, ready to be explored.
struct Program {
  Memory memory = {};
  std::map<std::string, std::int32_t> parameters = {};
  std::vector<std::int32_t> initial = {};  ///< Of cells; kNothing if not initialised.
  std::vector<int> bits = {};              ///< Of cells.
  std::vector<bool> is_signed = {};
  std::vector<int> line_of = {};             ///< Of cells.
  std::vector<std::vector<int>> lines = {};  ///< Cells of each line.
  std::vector<std::string> cell_names = {};
  std::vector<std::int32_t> ghosts = {};  ///< Initial values.
  std::vector<std::string> ghost_names = {};
  std::vector<TaskProgram> tasks = {};
  std::vector<LaneProgram> lanes = {};
  bool has_final = false;
  LaneProgram final_lane = {};
  int cores = -1;  ///< -1: enough.
  std::vector<std::string> checkpoints = {};
  std::vector<bool> is_counted = {};  ///< Checkpoints that some passed() asks for.
  std::vector<std::vector<int>> checkpoint_lanes = {};  ///< Lanes whose task contains it.

  std::int32_t fit(std::int32_t value, std::size_t cell) const {
    const int b = bits[cell];
    std::int64_t v = static_cast<std::int64_t>(value) & ((std::int64_t{1} << b) - 1);
    if (is_signed[cell] && v >= std::int64_t{1} << (b - 1)) v -= std::int64_t{1} << b;
    return static_cast<std::int32_t>(v);
  }
};

/// A case of a variant: its parameters' values, and what it is expected to come out as.
struct Case {
  std::map<std::string, std::int32_t> parameters = {};
  std::vector<Verdict> expected = {};  ///< Empty if no expectation holds.
};

/// The combinations of a variant's parameter values, the first parameter's slowest. `overrides`
/// replace values by name. Errors: kInvalidArgument with file:line:col; kLimit above 10 000
/// combinations.
Result<std::vector<Case>> cases_of(const File& file, const Variant& variant,
                                   const std::map<std::string, std::int32_t>& overrides);

/// Resolves names, expands calls and loops.
/// Errors: kInvalidArgument with file:line:col, source line and caret; kLimit above 100 000
/// instructions.
Result<Program> compile(const File& file, const Variant& variant,
                        const std::map<std::string, std::int32_t>& parameters,
                        const Memory* memory = nullptr);

}  // namespace cohort::litmus
