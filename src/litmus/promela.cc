#include "cohort/litmus/promela.h"

#include <algorithm>

#include "program.h"

namespace cohort::litmus {
namespace {

using Kind = Instruction::Kind;

const char* symbol_of(Operator op) {
  switch (op) {
    case Operator::kOr:
      return "||";
    case Operator::kAnd:
      return "&&";
    case Operator::kEqual:
      return "==";
    case Operator::kNotEqual:
      return "!=";
    case Operator::kLess:
      return "<";
    case Operator::kLessEqual:
      return "<=";
    case Operator::kGreater:
      return ">";
    case Operator::kGreaterEqual:
      return ">=";
    case Operator::kAdd:
      return "+";
    case Operator::kSubtract:
      return "-";
    case Operator::kMultiply:
      return "*";
    case Operator::kDivide:
      return "/";
    case Operator::kRemainder:
      return "%";
    case Operator::kNot:
      return "!";
    case Operator::kNegate:
    case Operator::kMin:
    case Operator::kMax:
      break;
  }
  return "-";
}

class Writer {
 public:
  Writer(const Program& program, std::string title) : program_(program), title_(std::move(title)) {}

  Result<std::string> write() {
    if (program_.cores >= 0) return not_told("cores");
    if (program_.has_final) return not_told("finally");
    out_ = "/* " + title_ + " */\n";
    declare("int cell", program_.initial);
    declare("int ghost", program_.ghosts);
    out_ +=
        "byte running[" + std::to_string(std::max<std::size_t>(1, program_.tasks.size())) + "];\n";
    for (std::size_t l = 0; l < program_.lanes.size(); ++l) {
      const Status status = lane(l);
      if (!status) return fail(status.error());
    }
    // Everything starts at once; `running` counts the lanes of each task that haven't ended.
    out_ += "init { atomic {\n";
    for (std::size_t t = 0; t < program_.tasks.size(); ++t) {
      out_ += "  running[" + std::to_string(t) +
              "] = " + std::to_string(program_.tasks[t].lanes.size()) + ";\n";
    }
    for (std::size_t l = 0; l < program_.lanes.size(); ++l)
      out_ += "  run lane" + std::to_string(l) + "();\n";
    out_ += "} }\n";
    return std::move(out_);
  }

 private:
  static Unexpected not_told(const std::string& what) {
    return fail(ErrorCode::kInvalidArgument,
                "'" + what + "' has no counterpart in the Promela export");
  }

  void declare(const std::string& what, const std::vector<std::int32_t>& values) {
    out_ += what + "[" + std::to_string(std::max<std::size_t>(1, values.size())) + "];\n";
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] == 0) continue;
      initial_ += "  " + what.substr(4) + "[" + std::to_string(i) +
                  "] = " + std::to_string(values[i]) + ";\n";
    }
  }

  std::string text(const Code& code) const {
    std::vector<std::string> stack;
    for (const Code::Step& s : code.steps) {
      const std::string value = std::to_string(s.value);
      switch (s.op) {
        case Code::Op::kPush:
          stack.push_back(s.value < 0 ? "(" + value + ")" : value);
          break;
        case Code::Op::kRegister:
          stack.push_back("r[" + value + "]");
          break;
        case Code::Op::kShared:
          stack.push_back("cell[" + value + "]");
          break;
        case Code::Op::kGhost:
          stack.push_back("ghost[" + value + "]");
          break;
        case Code::Op::kSharedAt:
          stack.back() = "cell[" + value + " + " + stack.back() + "]";
          break;
        case Code::Op::kGhostAt:
          stack.back() = "ghost[" + value + " + " + stack.back() + "]";
          break;
        case Code::Op::kPassed:
          stack.emplace_back("0");
          break;
        case Code::Op::kUnary:
          stack.back() = std::string("(") + symbol_of(s.oper) + stack.back() + ")";
          break;
        case Code::Op::kBinary: {
          const std::string b = stack.back();
          stack.pop_back();
          const std::string a = stack.back();
          if (s.oper == Operator::kMin || s.oper == Operator::kMax) {
            const char* than = s.oper == Operator::kMin ? " < " : " > ";
            stack.back() = "(" + a + than + b + " -> " + a + " : " + b + ")";
          } else {
            stack.back() = "(" + a + " " + symbol_of(s.oper) + " " + b + ")";
          }
          break;
        }
      }
    }
    return stack.back();
  }

  std::string cell(const CellRange& range) const {
    const std::string array = range.is_ghost ? "ghost[" : "cell[";
    if (range.index.empty()) return array + std::to_string(range.base) + "]";
    return array + std::to_string(range.base) + " + " + text(range.index[0]) + "]";
  }

  static std::string label(std::int32_t pc) { return "L" + std::to_string(pc); }

  Status lane(std::size_t l) {
    const LaneProgram& lane = program_.lanes[l];
    out_ += "proctype lane" + std::to_string(l) + "() {\n  int r[" +
            std::to_string(std::max(1, lane.registers)) + "];\n";
    out_ += "  int old;\n";
    for (const int before : program_.tasks[static_cast<std::size_t>(lane.task)].after) {
      out_ += "  (running[" + std::to_string(before) + "] == 0);\n";
    }
    const auto end = static_cast<std::int32_t>(lane.code.size());
    for (std::int32_t pc = 0; pc < end; ++pc) {
      const Instruction& i = lane.code[static_cast<std::size_t>(pc)];
      if (i.cells.size() == 1 && i.cells[0].index.empty() && i.cells[0].count != 1 &&
          i.kind != Kind::kClean && i.kind != Kind::kInvalidate) {
        return not_told("an access to a whole range");
      }
      out_ += label(pc) + ": ";
      const std::string result = "r[" + std::to_string(i.result) + "]";
      switch (i.kind) {
        case Kind::kSet:
          out_ += result + " = " + text(i.code[0]);
          break;
        case Kind::kBranch:
          out_ += "if :: (" + text(i.code[0]) + ") :: else -> goto " + label(i.target) + " fi";
          break;
        case Kind::kJump:
          out_ += "goto " + label(i.target);
          break;
        case Kind::kZero: {
          out_ += "skip; d_step { skip";
          for (const std::int32_t r : i.registers) out_ += "; r[" + std::to_string(r) + "] = 0";
          out_ += " }";
          break;
        }
        case Kind::kChoose:
          out_ += "if";
          for (const std::int32_t target : i.targets) out_ += " :: goto " + label(target);
          out_ += " fi";
          break;
        case Kind::kLoad:
          out_ += result + " = " + cell(i.cells[0]);
          break;
        case Kind::kStore:
          out_ += cell(i.cells[0]) + " = " + text(i.code[0]);
          break;
        case Kind::kAdd:
        case Kind::kExchange:
        case Kind::kCas: {
          const std::string place = cell(i.cells[0]);
          out_ += "skip; d_step { old = " + place + "; ";
          if (i.kind == Kind::kAdd) out_ += place + " = old + " + text(i.code[0]);
          if (i.kind == Kind::kExchange) out_ += place + " = " + text(i.code[0]);
          if (i.kind == Kind::kCas) {
            out_ += "if :: (old == " + text(i.code[0]) + ") -> " + place + " = " + text(i.code[1]) +
                    " :: else fi";
          }
          if (i.result >= 0) out_ += "; " + result + " = old";
          out_ += "; old = 0 }";
          break;
        }
        case Kind::kWait:
          out_ += "(" + text(i.code[0]) + ")";
          break;
        case Kind::kAssert:
          out_ += "assert(" + text(i.code[0]) + ")";
          break;
        case Kind::kExit:
          out_ += "goto " + label(end);
          break;
        case Kind::kClean:
        case Kind::kInvalidate:
        case Kind::kDrain:
        case Kind::kFence:
        case Kind::kSkip:
        case Kind::kCheckpoint:
          out_ += "skip";
          break;
        case Kind::kPoll:
          return not_told("a bounded wait");
        case Kind::kCrash:
          return not_told("crash");
      }
      out_ += ";\n";
    }
    out_ += label(end) + ": running[" + std::to_string(lane.task) + "]--\n}\n";
    return {};
  }

 public:
  // Values other than 0, set before any process runs.
  const std::string& initial() const { return initial_; }

 private:
  const Program& program_;
  std::string title_;
  std::string out_;
  std::string initial_;
};

}  // namespace

Result<std::string> to_promela(const File& file, const std::string& variant,
                               const std::map<std::string, std::int32_t>& parameters) {
  for (const Variant& v : file.variants) {
    if (v.name != (variant.empty() ? "base" : variant)) continue;
    COHORT_TRY(const std::vector<Case> cases, cases_of(file, v, parameters));
    const Memory sequential;
    COHORT_TRY(const Program program, compile(file, v, cases.front().parameters, &sequential));
    for (const std::int32_t value : program.initial) {
      if (value == kNothing) {
        return fail(ErrorCode::kInvalidArgument,
                    "a word that isn't initialised has no counterpart in the Promela export");
      }
    }
    Writer writer(program, file.name + ", " + v.name);
    COHORT_TRY(std::string text, writer.write());
    const std::size_t at = text.find("init { atomic {\n");
    text.insert(at + 16, writer.initial());
    return text;
  }
  return fail(ErrorCode::kNotFound, file.name + " has no variant '" + variant + "'");
}

}  // namespace cohort::litmus
