#include "program.h"

#include <algorithm>
#include <optional>
#include <set>

#include "cohort/base/strings.h"

#include "lexer.h"

namespace cohort::litmus {
namespace {

constexpr std::size_t kMostInstructions = 100'000;
constexpr std::size_t kMostCases = 10'000;
constexpr std::int32_t kMostCells = 4096;
constexpr std::int32_t kMostLanes = 256;
constexpr int kDeepestCalls = 64;

// Thrown inside the compiler only; compile() and cases_of() turn it into an error.
struct Failure {
  Position at;
  std::string text;
};

[[noreturn]] void reject(Position at, std::string text) { throw Failure{at, std::move(text)}; }

std::optional<std::int32_t> apply(Operator op, std::int32_t a, std::int32_t b) {
  switch (op) {
    case Operator::kOr:
      return a != 0 || b != 0;
    case Operator::kAnd:
      return a != 0 && b != 0;
    case Operator::kEqual:
      return a == b;
    case Operator::kNotEqual:
      return a != b;
    case Operator::kLess:
      return a < b;
    case Operator::kLessEqual:
      return a <= b;
    case Operator::kGreater:
      return a > b;
    case Operator::kGreaterEqual:
      return a >= b;
    case Operator::kAdd:
      return wrap(std::int64_t{a} + b);
    case Operator::kSubtract:
      return wrap(std::int64_t{a} - b);
    case Operator::kMultiply:
      return wrap(std::int64_t{a} * b);
    case Operator::kDivide:
      if (b == 0) return std::nullopt;
      return wrap(std::int64_t{a} / b);
    case Operator::kRemainder:
      if (b == 0) return std::nullopt;
      return wrap(std::int64_t{a} % b);
    case Operator::kMin:
      return std::min(a, b);
    case Operator::kMax:
      return std::max(a, b);
    case Operator::kNot:
      return a == 0;
    case Operator::kNegate:
      return wrap(-std::int64_t{a});
  }
  return 0;
}

// What names mean inside a call: its arguments, in the caller's scope, and loop names.
struct Scope {
  const Scope* caller = nullptr;
  std::string prefix = {};  // Of its registers.
  std::map<std::string, const Expr*> arguments = {};
  std::map<std::string, std::int32_t> constants = {};
};

using Parameters = std::map<std::string, std::int32_t>;

// The value of an expression over constants, or nothing if it has none.
std::optional<std::int32_t> constant(const Expr& e, const Scope& scope,
                                     const Parameters& parameters) {
  switch (e.kind) {
    case Expr::Kind::kNumber:
      return e.value;
    case Expr::Kind::kPassed:
      return std::nullopt;
    case Expr::Kind::kUnary: {
      const auto a = constant(e.operands[0], scope, parameters);
      return a ? apply(e.op, *a, 0) : std::nullopt;
    }
    case Expr::Kind::kBinary: {
      const auto a = constant(e.operands[0], scope, parameters);
      const auto b = constant(e.operands[1], scope, parameters);
      return a && b ? apply(e.op, *a, *b) : std::nullopt;
    }
    case Expr::Kind::kName:
      break;
  }
  if (!e.operands.empty()) return std::nullopt;
  if (const auto it = scope.constants.find(e.name); it != scope.constants.end()) return it->second;
  if (const auto it = scope.arguments.find(e.name); it != scope.arguments.end()) {
    return constant(*it->second, *scope.caller, parameters);
  }
  if (const auto it = parameters.find(e.name); it != parameters.end()) return it->second;
  return std::nullopt;
}

class Compiler {
 public:
  Compiler(const Variant& variant, const Parameters& parameters, const Memory* memory)
      : variant_(variant), parameters_(parameters) {
    program_.parameters = parameters;
    for (const auto& decl : variant.decls) {
      decls_[decl->name] = decl.get();
      if (decl->kind == Decl::Kind::kMemory) program_.memory = decl->memory;
    }
    if (memory != nullptr) program_.memory = *memory;
  }

  Program run() && {
    cells();
    for (const auto& decl : variant_.decls) {
      if (decl->kind == Decl::Kind::kCores) program_.cores = value(decl->range[0]);
      if (decl->kind == Decl::Kind::kGrid) task(*decl);
    }
    if (program_.cores < -1) program_.cores = 0;
    for (const auto& decl : variant_.decls) {
      if (decl->kind != Decl::Kind::kGrid || decl->finally) continue;
      TaskProgram& t = program_.tasks[static_cast<std::size_t>(task_index_.at(decl->name))];
      for (std::size_t i = 0; i < decl->after.size(); ++i) {
        const auto it = task_index_.find(decl->after[i]);
        if (it == task_index_.end()) {
          reject(decl->after_at[i], "no task is called '" + decl->after[i] + "'" +
                                        did_you_mean(decl->after[i], names_of(task_index_)));
        }
        t.after.push_back(it->second);
      }
    }
    checkpoints();
    return std::move(program_);
  }

 private:
  template <class Map>
  static std::vector<std::string> names_of(const Map& map) {
    std::vector<std::string> names;
    for (const auto& [name, unused] : map) names.push_back(name);
    return names;
  }

  std::int32_t value(const Expr& e, const Scope& scope = {}) const {
    const auto v = constant(e, scope, parameters_);
    if (!v) reject(e.at, "expected a value that is known when the file is read");
    return *v;
  }

  // ---- Shared words ----

  void cells() {
    std::map<std::pair<std::string, std::int32_t>, int> lines;
    std::map<int, std::int32_t> next_place;  // By line: where the next word without `at` goes.
    for (const auto& decl : variant_.decls) {
      if (decl->kind == Decl::Kind::kGhost) ghost(*decl);
      if (decl->kind != Decl::Kind::kWord && decl->kind != Decl::Kind::kBytes) continue;
      const bool is_bytes = decl->kind == Decl::Kind::kBytes;
      std::int32_t count = decl->count.empty() ? 1 : value(decl->count[0]);
      std::int32_t bytes = 0;
      if (is_bytes) {
        bytes = count;
        const std::int32_t offset = decl->offset.empty() ? 0 : value(decl->offset[0]);
        const int line = program_.memory.line_bytes;
        count = (offset % line + bytes + line - 1) / line;
      }
      if (count < 0 || program_.initial.size() + static_cast<std::size_t>(count) > kMostCells) {
        reject(decl->at, "'" + decl->name + "' has " + std::to_string(count) + " cells, at most " +
                             std::to_string(kMostCells) + " in all are explored");
      }
      words_[decl->name] = {static_cast<std::int32_t>(program_.initial.size()), count};
      for (std::int32_t i = 0; i < count; ++i) {
        Scope scope;
        scope.constants["i"] = i;
        const auto cell = static_cast<int>(program_.initial.size());
        program_.bits.push_back(decl->bits);
        program_.is_signed.push_back(decl->is_signed);
        program_.cell_names.push_back(
            decl->count.empty() ? decl->name : decl->name + "[" + std::to_string(i) + "]");
        program_.initial.push_back(
            decl->initial.empty()
                ? kNothing
                : program_.fit(value(decl->initial[0], scope), static_cast<std::size_t>(cell)));
        std::pair<std::string, std::int32_t> key("", cell);
        if (!decl->line.empty()) {
          key = {decl->line, decl->line_index.empty() ? 0 : value(decl->line_index[0], scope)};
          if (is_bytes) key.second += i;
        }
        const auto [it, is_new] = lines.emplace(key, static_cast<int>(program_.lines.size()));
        if (is_new) program_.lines.emplace_back();
        place(*decl, it->second, scope, next_place);
        program_.line_of.push_back(it->second);
        program_.lines[static_cast<std::size_t>(it->second)].push_back(cell);
      }
    }
  }

  // A word fits into its line.
  void place(const Decl& decl, int line, const Scope& scope,
             std::map<int, std::int32_t>& next_place) const {
    if (decl.kind == Decl::Kind::kBytes || program_.memory.kind != Memory::Kind::kNoncoherent)
      return;
    const std::int32_t size = decl.bits <= 8 ? 1 : decl.bits <= 16 ? 2 : 4;
    std::int32_t at = next_place[line];
    if (!decl.offset.empty()) at = value(decl.offset[0], scope);
    if (at < 0 || at + size > program_.memory.line_bytes) {
      reject(decl.at, "'" + decl.name + "' at byte " + std::to_string(at) +
                          " doesn't fit into a line of " +
                          std::to_string(program_.memory.line_bytes) + " bytes");
    }
    next_place[line] = std::max(next_place[line], at + size);
  }

  void ghost(const Decl& decl) {
    const std::int32_t count = decl.count.empty() ? 1 : value(decl.count[0]);
    if (count < 0 || count > kMostCells) reject(decl.at, "too many ghost words");
    ghosts_[decl.name] = {static_cast<std::int32_t>(program_.ghosts.size()), count};
    for (std::int32_t i = 0; i < count; ++i) {
      Scope scope;
      scope.constants["i"] = i;
      program_.ghosts.push_back(value(decl.initial[0], scope));
      program_.ghost_names.push_back(
          decl.count.empty() ? decl.name : decl.name + "[" + std::to_string(i) + "]");
    }
  }

  // ---- Tasks ----

  void task(const Decl& decl) {
    if (decl.finally) {
      program_.has_final = true;
      program_.final_lane = lane(decl, 0, 1);
      return;
    }
    const std::int32_t lanes = decl.count.empty() ? 1 : value(decl.count[0]);
    if (lanes < 0 || program_.lanes.size() + static_cast<std::size_t>(lanes) > kMostLanes) {
      reject(decl.at, "'" + decl.name + "' has " + std::to_string(lanes) + " lanes, at most " +
                          std::to_string(kMostLanes) + " in all are explored");
    }
    task_index_[decl.name] = static_cast<int>(program_.tasks.size());
    TaskProgram t{.name = decl.name, .cohort = decl.cohort};
    for (std::int32_t i = 0; i < lanes; ++i) {
      t.lanes.push_back(static_cast<int>(program_.lanes.size()));
      program_.lanes.push_back(lane(decl, i, lanes));
      program_.lanes.back().task = static_cast<int>(program_.tasks.size());
      program_.lanes.back().index = i;
    }
    program_.tasks.push_back(std::move(t));
  }

  LaneProgram lane(const Decl& decl, std::int32_t index, std::int32_t width) {
    lane_ = {};
    registers_.clear();
    calls_ = 0;
    Scope scope;
    scope.constants = {{"lane", index}, {"width", width}};
    block(decl.body, scope, nullptr);
    lane_.registers = static_cast<int>(registers_.size());
    return std::move(lane_);
  }

  void checkpoints() {
    const std::size_t count = program_.checkpoints.size();
    program_.is_counted.resize(count);
    for (const std::int32_t c : counted_) program_.is_counted[static_cast<std::size_t>(c)] = true;
    program_.checkpoint_lanes.resize(count);
    for (const TaskProgram& t : program_.tasks) {
      std::set<std::int32_t> contained;
      for (const int l : t.lanes) {
        for (const Instruction& i : program_.lanes[static_cast<std::size_t>(l)].code) {
          if (i.kind == Instruction::Kind::kCheckpoint) contained.insert(i.number);
        }
      }
      for (const std::int32_t c : contained) {
        auto& lanes = program_.checkpoint_lanes[static_cast<std::size_t>(c)];
        lanes.insert(lanes.end(), t.lanes.begin(), t.lanes.end());
      }
    }
  }

  std::int32_t checkpoint(const std::string& name) {
    const auto it = std::ranges::find(program_.checkpoints, name);
    if (it != program_.checkpoints.end())
      return static_cast<std::int32_t>(it - program_.checkpoints.begin());
    program_.checkpoints.push_back(name);
    return static_cast<std::int32_t>(program_.checkpoints.size() - 1);
  }

  // ---- Names ----

  // A name as its caller's scope knows it, through arguments.
  struct Resolved {
    const std::string* name;
    const Scope* scope;
    const Expr* index = nullptr;  // Of an argument `word[E]`.
    const Expr* other = nullptr;  // An argument that isn't a name.
  };
  Resolved resolve(const std::string& name, const Scope& scope) const {
    const auto it = scope.arguments.find(name);
    if (it == scope.arguments.end()) return {&name, &scope};
    const Expr& e = *it->second;
    if (e.kind != Expr::Kind::kName) return {&name, &scope, nullptr, &e};
    Resolved r = resolve(e.name, *scope.caller);
    if (!e.operands.empty()) {
      r.index = &e.operands[0];
      r.scope = scope.caller;
    }
    return r;
  }
  bool is_shared(const std::string& name) const {
    return words_.contains(name) || ghosts_.contains(name);
  }

  std::int32_t reg(const std::string& name, const Scope& scope, Position at) {
    const Resolved r = resolve(name, scope);
    if (r.other != nullptr || r.index != nullptr || is_shared(*r.name)) {
      reject(at, "expected a register, and '" + name + "' stands for something else here");
    }
    if (parameters_.contains(*r.name) || r.scope->constants.contains(*r.name)) {
      reject(at, "'" + *r.name + "' is a constant and can't be assigned to");
    }
    const auto [it, is_new] =
        registers_.emplace(r.scope->prefix + *r.name, static_cast<std::int32_t>(registers_.size()));
    return it->second;
  }

  struct Cells {
    std::int32_t base;
    std::int32_t count;
  };

  CellRange range(const Place& place, const Scope& scope) {
    const Resolved r = resolve(place.name, scope);
    if (r.other != nullptr || !is_shared(*r.name)) {
      std::vector<std::string> names = names_of(words_);
      for (const auto& [name, unused] : ghosts_) names.push_back(name);
      reject(place.at,
             "no shared word is called '" + place.name + "'" + did_you_mean(place.name, names));
    }
    CellRange range;
    range.is_ghost = ghosts_.contains(*r.name);
    const Cells cells = range.is_ghost ? ghosts_.at(*r.name) : words_.at(*r.name);
    range.base = cells.base;
    range.count = cells.count;
    if (r.index != nullptr) {
      if (!place.index.empty())
        reject(place.at, "'" + place.name + "' stands for one element already");
      range.index.push_back(code(*r.index, *r.scope));
    }
    for (const Expr& e : place.index) range.index.push_back(code(e, scope));
    return range;
  }

  // ---- Expressions ----

  Code code(const Expr& e, const Scope& scope) {
    Code result;
    append(e, scope, result);
    return result;
  }

  void append(const Expr& e, const Scope& scope, Code& to) {
    if (const auto v = constant(e, scope, parameters_)) {
      to.steps.push_back({.op = Code::Op::kPush, .value = *v});
      return;
    }
    switch (e.kind) {
      case Expr::Kind::kNumber:
        break;
      case Expr::Kind::kUnary:
        append(e.operands[0], scope, to);
        to.steps.push_back({.op = Code::Op::kUnary, .oper = e.op});
        break;
      case Expr::Kind::kBinary:
        append(e.operands[0], scope, to);
        append(e.operands[1], scope, to);
        to.steps.push_back({.op = Code::Op::kBinary, .oper = e.op});
        break;
      case Expr::Kind::kPassed:
        to.is_shared = true;
        counted_.insert(checkpoint(e.name));
        to.steps.push_back({.op = Code::Op::kPassed, .value = checkpoint(e.name)});
        break;
      case Expr::Kind::kName:
        append_name(e, scope, to);
        break;
    }
  }

  void append_name(const Expr& e, const Scope& scope, Code& to) {
    const Resolved r = resolve(e.name, scope);
    if (r.other != nullptr) return append(*r.other, *scope.caller, to);
    if (!is_shared(*r.name)) {
      if (!e.operands.empty() || r.index != nullptr) {
        reject(e.at, "'" + e.name + "' isn't an array" + did_you_mean(e.name, names_of(words_)));
      }
      to.steps.push_back({.op = Code::Op::kRegister, .value = reg(e.name, scope, e.at)});
      return;
    }
    to.is_shared = true;
    const bool is_ghost = ghosts_.contains(*r.name);
    const Cells cells = is_ghost ? ghosts_.at(*r.name) : words_.at(*r.name);
    const Expr* index = e.operands.empty() ? r.index : &e.operands[0];
    const Scope& index_scope = e.operands.empty() ? *r.scope : scope;
    if (index == nullptr) {
      if (cells.count != 1) reject(e.at, "'" + e.name + "' is an array; name one element of it");
      to.steps.push_back(
          {.op = is_ghost ? Code::Op::kGhost : Code::Op::kShared, .value = cells.base});
      return;
    }
    append(*index, index_scope, to);
    to.steps.push_back({.op = is_ghost ? Code::Op::kGhostAt : Code::Op::kSharedAt,
                        .value = cells.base,
                        .count = cells.count});
  }

  // ---- Statements ----

  struct Loop {
    std::vector<std::size_t> breaks = {};
    std::vector<std::size_t> continues = {};
  };

  Instruction& emit(Instruction::Kind kind, const Stmt& stmt) {
    if (++emitted_ > kMostInstructions) {
      reject(stmt.at, "the program is longer than " + std::to_string(kMostInstructions) +
                          " instructions with its loops and calls expanded");
    }
    Instruction i{.kind = kind, .path = stmt.path, .order = stmt.order, .at = stmt.at};
    lane_.code.push_back(std::move(i));
    return lane_.code.back();
  }
  std::int32_t here() const { return static_cast<std::int32_t>(lane_.code.size()); }
  std::size_t last() const { return lane_.code.size() - 1; }

  void block(const std::vector<Stmt>& stmts, const Scope& scope, Loop* loop) {
    for (const Stmt& stmt : stmts) statement(stmt, scope, loop);
  }

  void statement(const Stmt& s, const Scope& scope, Loop* loop) {
    using Kind = Stmt::Kind;
    switch (s.kind) {
      case Kind::kAssign: {
        const Code value = code(s.exprs[0], scope);
        const std::int32_t r = reg(s.name, scope, s.at);
        Instruction& i = emit(Instruction::Kind::kSet, s);
        i.result = r;
        i.text = s.name + " = ...";
        i.code.push_back(value);
        break;
      }
      case Kind::kLoad:
      case Kind::kStore:
      case Kind::kAdd:
      case Kind::kExchange:
      case Kind::kCas:
        access(s, scope);
        break;
      case Kind::kClean:
      case Kind::kInvalidate: {
        const auto kind =
            s.kind == Kind::kClean ? Instruction::Kind::kClean : Instruction::Kind::kInvalidate;
        const std::string word = s.kind == Kind::kClean ? "clean " : "invalidate ";
        if (s.places.empty()) {
          Instruction& i = emit(kind, s);
          i.is_all = true;
          i.text = word + "all";
        }
        for (const Place& place : s.places) {
          const CellRange r = range(place, scope);
          if (r.is_ghost) reject(place.at, "a ghost word is in no cache");
          Instruction& i = emit(kind, s);
          i.cells.push_back(r);
          i.text = word + place.name;
        }
        break;
      }
      case Kind::kDrain:
        emit(Instruction::Kind::kDrain, s).text = "drain";
        break;
      case Kind::kFence:
        emit(Instruction::Kind::kFence, s).text = "fence";
        break;
      case Kind::kSkip:
        emit(Instruction::Kind::kSkip, s).text = "skip";
        break;
      case Kind::kExit:
        emit(Instruction::Kind::kExit, s).text = "exit";
        break;
      case Kind::kCrash:
        emit(Instruction::Kind::kCrash, s).text = "crash";
        break;
      case Kind::kWait:
        wait(s, scope, loop);
        break;
      case Kind::kIf:
        if_statement(s, scope, loop);
        break;
      case Kind::kEither: {
        emit(Instruction::Kind::kChoose, s).text = "either";
        const std::size_t choose = last();
        std::vector<std::size_t> ends;
        for (const auto& b : s.blocks) {
          lane_.code[choose].targets.push_back(here());
          block(b, scope, loop);
          emit(Instruction::Kind::kJump, s);
          ends.push_back(last());
        }
        for (const std::size_t e : ends) lane_.code[e].target = here();
        break;
      }
      case Kind::kLoop:
      case Kind::kFor:
        loops(s, scope);
        break;
      case Kind::kBreak:
      case Kind::kContinue:
        if (loop == nullptr) reject(s.at, "outside a loop");
        emit(Instruction::Kind::kJump, s);
        (s.kind == Kind::kBreak ? loop->breaks : loop->continues).push_back(last());
        break;
      case Kind::kAssert: {
        const Code condition = code(s.exprs[0], scope);
        Instruction& i = emit(Instruction::Kind::kAssert, s);
        i.code.push_back(condition);
        i.word = s.word;
        i.text = "assert" + (s.text.empty() ? "" : " \"" + s.text + "\"");
        break;
      }
      case Kind::kCheckpoint: {
        const std::int32_t number = checkpoint(s.name);
        Instruction& i = emit(Instruction::Kind::kCheckpoint, s);
        i.number = number;
        i.text = "checkpoint " + s.name;
        break;
      }
      case Kind::kCall:
        call(s, scope);
        break;
    }
  }

  void access(const Stmt& s, const Scope& scope) {
    const CellRange cells = range(s.places[0], scope);
    std::vector<Code> values;
    for (const Expr& e : s.exprs) values.push_back(code(e, scope));
    const std::int32_t result = s.name.empty() ? -1 : reg(s.name, scope, s.at);
    const bool is_plain = s.kind == Stmt::Kind::kLoad || s.kind == Stmt::Kind::kStore;
    if (cells.index.empty() && cells.count != 1) {
      const auto decl = decls_.find(*resolve(s.places[0].name, scope).name);
      const bool is_bytes = decl != decls_.end() && decl->second->kind == Decl::Kind::kBytes;
      if (!is_bytes || !is_plain) {
        reject(s.places[0].at, "'" + s.places[0].name + "' has " + std::to_string(cells.count) +
                                   " cells; name one of them");
      }
      if (lane_.bytes_register < 0) {
        lane_.bytes_register = static_cast<std::int32_t>(registers_.size());
        registers_.emplace("#part", lane_.bytes_register);
        registers_.emplace("#value", lane_.bytes_register + 1);
      }
    }
    if (cells.index.size() > 1) reject(s.places[0].at, "expected one cell, found a range of them");
    const std::string place = s.places[0].name + (cells.index.empty() ? "" : "[...]");
    const char* paths[] = {"", "cached ", "dma "};
    const std::string path = paths[static_cast<int>(s.path)];
    Instruction::Kind kind = Instruction::Kind::kLoad;
    std::string text = s.name + " = load " + path + place;
    if (s.kind == Stmt::Kind::kStore) {
      kind = Instruction::Kind::kStore;
      text = "store " + path + place;
    } else if (s.kind == Stmt::Kind::kAdd) {
      kind = Instruction::Kind::kAdd;
      text = "add " + place;
    } else if (s.kind == Stmt::Kind::kExchange) {
      kind = Instruction::Kind::kExchange;
      text = "exchange " + place;
    } else if (s.kind == Stmt::Kind::kCas) {
      kind = Instruction::Kind::kCas;
      text = "cas " + place;
    }
    Instruction& i = emit(kind, s);
    i.result = result;
    i.cells.push_back(cells);
    i.code = std::move(values);
    i.text = text;
  }

  void wait(const Stmt& s, const Scope& scope, Loop* loop) {
    const Code condition = code(s.exprs[0], scope);
    if (s.blocks.empty()) {
      Instruction& i = emit(Instruction::Kind::kWait, s);
      i.code.push_back(condition);
      i.text = "wait";
      return;
    }
    const auto polls = static_cast<std::int32_t>(registers_.size());
    registers_.emplace("#polls" + std::to_string(polls), polls);
    Instruction& i = emit(Instruction::Kind::kPoll, s);
    i.code.push_back(condition);
    i.number = s.exprs[1].value;
    i.result = polls;
    i.text = "poll";
    const std::size_t at = last();
    block(s.blocks[0], scope, loop);
    lane_.code[at].target = here();
  }

  void if_statement(const Stmt& s, const Scope& scope, Loop* loop) {
    const std::vector<Stmt> nothing;
    const std::vector<Stmt>& other = s.blocks.size() > 1 ? s.blocks[1] : nothing;
    if (const auto v = constant(s.exprs[0], scope, parameters_)) {
      block(*v != 0 ? s.blocks[0] : other, scope, loop);
      return;
    }
    const Code condition = code(s.exprs[0], scope);
    Instruction& i = emit(Instruction::Kind::kBranch, s);
    i.code.push_back(condition);
    i.text = "if";
    const std::size_t branch = last();
    block(s.blocks[0], scope, loop);
    if (other.empty()) {
      lane_.code[branch].target = here();
      return;
    }
    emit(Instruction::Kind::kJump, s);
    const std::size_t jump = last();
    lane_.code[branch].target = here();
    block(other, scope, loop);
    lane_.code[jump].target = here();
  }

  void loops(const Stmt& s, const Scope& scope) {
    Loop loop;
    const auto close = [&](std::vector<std::size_t>& jumps, std::int32_t target) {
      for (const std::size_t j : jumps) lane_.code[j].target = target;
      jumps.clear();
    };
    if (s.kind == Stmt::Kind::kLoop && s.exprs.empty()) {
      const std::int32_t top = here();
      block(s.blocks[0], scope, &loop);
      if (here() == top) reject(s.at, "a loop for ever with nothing in it");
      emit(Instruction::Kind::kJump, s).target = top;
      close(loop.continues, top);
    } else {
      const bool is_for = s.kind == Stmt::Kind::kFor;
      const std::int32_t first = is_for ? value(s.exprs[0], scope) : 1;
      const std::int32_t last_one = is_for ? value(s.exprs[1], scope) : value(s.exprs[0], scope);
      for (std::int32_t v = first; v <= last_one; ++v) {
        Scope inner = scope;
        if (is_for) inner.constants[s.name] = v;
        block(s.blocks[0], inner, &loop);
        close(loop.continues, here());
        if (++emitted_ > kMostInstructions) reject(s.at, "the loop is too long to be expanded");
      }
    }
    close(loop.breaks, here());
  }

  void call(const Stmt& s, const Scope& scope) {
    const auto it = decls_.find(s.name);
    if (it == decls_.end() || it->second->kind != Decl::Kind::kProc) {
      std::vector<std::string> names;
      for (const auto& [name, decl] : decls_) {
        if (decl->kind == Decl::Kind::kProc) names.push_back(name);
      }
      reject(s.at, "no procedure is called '" + s.name + "'" + did_you_mean(s.name, names));
    }
    const Decl& proc = *it->second;
    if (proc.parameters.size() != s.exprs.size()) {
      reject(s.at, "'" + s.name + "' takes " + std::to_string(proc.parameters.size()) +
                       " arguments, found " + std::to_string(s.exprs.size()));
    }
    if (++depth_ > kDeepestCalls) reject(s.at, "procedures call each other without end");
    Scope inner;
    inner.caller = &scope;
    inner.prefix = s.name + "#" + std::to_string(++calls_) + ".";
    for (const char* name : {"lane", "width"}) inner.constants[name] = *constant_of(name, scope);
    for (std::size_t i = 0; i < s.exprs.size(); ++i)
      inner.arguments[proc.parameters[i]] = &s.exprs[i];
    // Registers of the call are its own, and 0 outside it, so that they make no difference there.
    emit(Instruction::Kind::kZero, s);
    const std::size_t before = last();
    block(proc.body, inner, nullptr);
    std::vector<std::int32_t> own;
    for (const auto& [name, r] : registers_) {
      if (name.compare(0, inner.prefix.size(), inner.prefix) == 0) own.push_back(r);
    }
    lane_.code[before].registers = own;
    emit(Instruction::Kind::kZero, s).registers = own;
    --depth_;
  }

  static std::optional<std::int32_t> constant_of(const std::string& name, const Scope& scope) {
    const auto it = scope.constants.find(name);
    return it != scope.constants.end() ? std::optional(it->second) : std::nullopt;
  }

  const Variant& variant_;
  const Parameters& parameters_;
  Program program_;
  std::map<std::string, const Decl*> decls_;
  std::map<std::string, Cells> words_;
  std::map<std::string, Cells> ghosts_;
  std::map<std::string, int> task_index_;
  std::set<std::int32_t> counted_;
  LaneProgram lane_;
  std::map<std::string, std::int32_t> registers_;
  int calls_ = 0;
  int depth_ = 0;
  std::size_t emitted_ = 0;
};

}  // namespace

Result<Program> compile(const File& file, const Variant& variant,
                        const std::map<std::string, std::int32_t>& parameters,
                        const Memory* memory) {
  try {
    return Compiler(variant, parameters, memory).run();
  } catch (const Failure& failure) {
    return fail_at(file.name, file.text, failure.at, failure.text);
  }
}

Result<std::vector<Case>> cases_of(const File& file, const Variant& variant,
                                   const std::map<std::string, std::int32_t>& overrides) {
  std::vector<const Decl*> open;
  for (const auto& decl : variant.decls) {
    if (decl->kind == Decl::Kind::kParam) open.push_back(decl.get());
  }
  std::vector<Parameters> all = {{}};
  try {
    while (!open.empty()) {
      // The first that depends on nothing still open: the same for every combination.
      const auto ready = std::ranges::find_if(open, [&](const Decl* d) {
        return std::ranges::all_of(
            d->range, [&](const Expr& e) { return constant(e, {}, all.front()).has_value(); });
      });
      if (ready == open.end()) {
        reject(open.front()->at, "'" + open.front()->name +
                                     "' depends on a name that isn't a parameter, or on itself");
      }
      std::vector<Parameters> more;
      for (const Parameters& values : all) {
        std::int32_t from = *constant((*ready)->range.front(), {}, values);
        std::int32_t to = *constant((*ready)->range.back(), {}, values);
        if (const auto it = overrides.find((*ready)->name); it != overrides.end())
          from = to = it->second;
        for (std::int32_t v = from; v <= to; ++v) {
          more.push_back(values);
          more.back()[(*ready)->name] = v;
          if (more.size() > kMostCases)
            reject((*ready)->at, "more than 10 000 combinations of parameters");
        }
      }
      if (more.empty()) reject((*ready)->at, "the range of '" + (*ready)->name + "' is empty");
      all = std::move(more);
      open.erase(ready);
    }
    std::vector<Case> cases;
    for (Parameters& values : all) {
      Case c;
      for (const Expect& expect : variant.expects) {
        if (!expect.when.empty()) {
          const auto holds = constant(expect.when[0], {}, values);
          if (!holds) reject(expect.when[0].at, "expected a condition over parameters");
          if (*holds == 0) continue;
        }
        c.expected = expect.words;
        break;
      }
      c.parameters = std::move(values);
      cases.push_back(std::move(c));
    }
    return cases;
  } catch (const Failure& failure) {
    return fail_at(file.name, file.text, failure.at, failure.text);
  }
}

}  // namespace cohort::litmus
