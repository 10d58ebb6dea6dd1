#include "machine.h"

#include <algorithm>

#include "cohort/base/check.h"

namespace cohort::litmus {
namespace {

using Kind = Instruction::Kind;
using Words = std::vector<std::int32_t>;

constexpr std::size_t kMostRemembered = 2'000'000;  // Steps of a lane, kept to be used again.

std::uint64_t hash_of(const Words& words) {
  std::uint64_t h = 0x9E3779B97F4A7C15u ^ words.size();
  for (const std::int32_t w : words) {
    h = (h ^ static_cast<std::uint32_t>(w)) * 0xFF51AFD7ED558CCDu;
    h ^= h >> 32;
  }
  return h;
}

std::int32_t result_of(Operator op, std::int32_t a, std::int32_t b, std::optional<Verdict>& fault) {
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
    case Operator::kRemainder:
      if (b == 0) {
        fault = Verdict::kAssertFail;
        return 0;
      }
      return wrap(op == Operator::kDivide ? std::int64_t{a} / b : std::int64_t{a} % b);
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

bool is_local(const Instruction& i, const std::vector<bool>& is_counted) {
  switch (i.kind) {
    case Kind::kJump:
    case Kind::kZero:
      return true;
    case Kind::kSet:
    case Kind::kBranch:
      return !i.code[0].is_shared;
    case Kind::kCheckpoint:
      return !is_counted[static_cast<std::size_t>(i.number)];
    default:
      return false;
  }
}

}  // namespace

std::uint32_t Interner::number_of(const std::vector<std::int32_t>& words) {
  if ((strings_.size() + 1) * 2 > slots_.size()) {
    slots_.assign(std::max<std::size_t>(1024, slots_.size() * 2), 0);
    for (std::uint32_t n = 0; n < strings_.size(); ++n) {
      std::size_t at = hash_of(strings_[n]) & (slots_.size() - 1);
      while (slots_[at] != 0) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = n + 1;
    }
  }
  std::size_t at = hash_of(words) & (slots_.size() - 1);
  for (; slots_[at] != 0; at = (at + 1) & (slots_.size() - 1)) {
    if (strings_[slots_[at] - 1] == words) return slots_[at] - 1;
  }
  strings_.push_back(words);
  bytes_ += sizeof(Words) + 4 * words.size() + 8;
  slots_[at] = static_cast<std::uint32_t>(strings_.size());
  return static_cast<std::uint32_t>(strings_.size() - 1);
}

struct Machine::Line {
  std::int32_t line = 0;
  std::uint32_t written = 0;  // Cells this lane wrote, a bit each.
  std::uint32_t stale = 0;    // Cells that others have written in memory since the fetch.
  bool late = false;          // Of a line on its way: no fence waits for it.
  Words values = {};
  auto operator<=>(const Line&) const = default;
};

struct Machine::Dma {
  std::int32_t cell = 0;
  std::int32_t value = 0;
  bool complete = false;
};

struct Machine::Lane {
  LaneStatus status = LaneStatus::kRunning;
  std::int32_t pc = 0;
  Words registers = {};
  Words passed = {};
  std::vector<Line> cache = {};      // By line.
  std::vector<Line> under_way = {};  // Sorted.
  std::vector<Dma> dma = {};         // In order of issue.
  Words view = {};                   // Weak: the oldest value of each cell it may read.
};

struct Machine::Shared {
  struct Value {
    std::int32_t value = 0;
    bool has_message = false;
    Words message = {};
  };
  Words memory = {};                            // Not weak.
  std::vector<std::vector<Value>> values = {};  // Weak: by cell, in the order of writing.
  Words fence_view = {};
  Words ghosts = {};
};

Machine::Machine(const Program& program, Weakening weakening)
    : program_(program), weakening_(weakening) {
  line_owner_.assign(program.lines.size(), -1);
  const auto touch = [&](int lane, std::int32_t cell) {
    int& owner =
        line_owner_[static_cast<std::size_t>(program.line_of[static_cast<std::size_t>(cell)])];
    owner = owner == -1 || owner == lane ? lane : -2;
  };
  for (std::size_t l = 0; l < program.lanes.size(); ++l) {
    for (const Instruction& i : program.lanes[l].code) {
      for (const CellRange& r : i.cells) {
        for (std::int32_t c = 0; c < r.count && !r.is_ghost; ++c) {
          // A constant index names one cell.
          const bool is_one = r.index.size() == 1 && r.index[0].steps.size() == 1 &&
                              r.index[0].steps[0].op == Code::Op::kPush;
          if (is_one && r.index[0].steps[0].value != c) continue;
          touch(static_cast<int>(l), r.base + c);
        }
      }
      for (const Code& code : i.code) {
        if (weakening_ == Weakening::kPrivateDespiteReaders) continue;
        for (const Code::Step& s : code.steps) {
          if (s.op == Code::Op::kShared) touch(static_cast<int>(l), s.value);
          for (std::int32_t c = 0; s.op == Code::Op::kSharedAt && c < s.count; ++c) {
            touch(static_cast<int>(l), s.value + c);
          }
        }
      }
    }
  }
  for (const bool counted : program.is_counted) has_counted_ = has_counted_ || counted;
}

Machine::Lane Machine::lane_of(std::uint32_t number) const {
  const Words& w = lanes_.words(number);
  std::size_t at = 0;
  const auto next = [&] { return w[at++]; };
  Lane lane;
  lane.status = static_cast<LaneStatus>(next());
  lane.pc = next();
  const auto read = [&](Words& to) {
    to.resize(static_cast<std::size_t>(next()));
    for (std::int32_t& v : to) v = next();
  };
  read(lane.registers);
  read(lane.passed);
  for (std::vector<Line>* lines : {&lane.cache, &lane.under_way}) {
    lines->resize(static_cast<std::size_t>(next()));
    for (Line& l : *lines) {
      l.line = next();
      l.written = static_cast<std::uint32_t>(next());
      l.stale = static_cast<std::uint32_t>(next());
      l.late = next() != 0;
      read(l.values);
    }
  }
  lane.dma.resize(static_cast<std::size_t>(next()));
  for (Dma& d : lane.dma) {
    d.cell = next();
    d.value = next();
    d.complete = next() != 0;
  }
  read(lane.view);
  return lane;
}

std::uint32_t Machine::number_of(const Lane& lane) {
  Words w = {static_cast<std::int32_t>(lane.status), lane.pc};
  const auto write = [&](const Words& from) {
    w.push_back(static_cast<std::int32_t>(from.size()));
    w.insert(w.end(), from.begin(), from.end());
  };
  write(lane.registers);
  write(lane.passed);
  for (const std::vector<Line>* lines : {&lane.cache, &lane.under_way}) {
    w.push_back(static_cast<std::int32_t>(lines->size()));
    for (const Line& l : *lines) {
      w.insert(w.end(), {l.line, static_cast<std::int32_t>(l.written),
                         static_cast<std::int32_t>(l.stale), l.late ? 1 : 0});
      write(l.values);
    }
  }
  w.push_back(static_cast<std::int32_t>(lane.dma.size()));
  for (const Dma& d : lane.dma) w.insert(w.end(), {d.cell, d.value, d.complete ? 1 : 0});
  write(lane.view);
  return lanes_.number_of(w);
}

Machine::Shared Machine::shared_of(std::uint32_t number) const {
  const Words& w = shared_.words(number);
  std::size_t at = 0;
  const auto next = [&] { return w[at++]; };
  Shared shared;
  const std::size_t cells = program_.initial.size();
  if (program_.memory.kind == Memory::Kind::kWeak) {
    shared.values.resize(cells);
    for (auto& list : shared.values) {
      list.resize(static_cast<std::size_t>(next()));
      for (Shared::Value& v : list) {
        v.value = next();
        v.has_message = next() != 0;
        if (!v.has_message) continue;
        v.message.resize(cells);
        for (std::int32_t& m : v.message) m = next();
      }
    }
    shared.fence_view.resize(cells);
    for (std::int32_t& v : shared.fence_view) v = next();
  } else {
    shared.memory.assign(w.begin(), w.begin() + static_cast<std::ptrdiff_t>(cells));
    at = cells;
  }
  shared.ghosts.assign(w.begin() + static_cast<std::ptrdiff_t>(at), w.end());
  return shared;
}

std::uint32_t Machine::number_of(const Shared& shared) {
  Words w = shared.memory;
  if (program_.memory.kind == Memory::Kind::kWeak) {
    for (const auto& list : shared.values) {
      w.push_back(static_cast<std::int32_t>(list.size()));
      for (const Shared::Value& v : list) {
        w.push_back(v.value);
        w.push_back(v.has_message ? 1 : 0);
        if (v.has_message) w.insert(w.end(), v.message.begin(), v.message.end());
      }
    }
    w.insert(w.end(), shared.fence_view.begin(), shared.fence_view.end());
  }
  w.insert(w.end(), shared.ghosts.begin(), shared.ghosts.end());
  return shared_.number_of(w);
}

// How an expression reads what is shared. The choice of a value, and the cells it depends on, are
// the caller's.
struct Machine::Reader {
  const Shared& shared;
  const Lane& lane;
  const State* state = nullptr;  // For passed().
  const Machine* machine = nullptr;
  const std::unordered_map<std::int32_t, std::int32_t>* chosen =
      nullptr;                                  // Weak waits: values by cell.
  std::vector<std::int32_t>* probed = nullptr;  // Weak waits: cells read.
  bool through_cache = false;
  std::int32_t missing_line = -1;  // Set if a cached read finds its line not held.
  std::optional<Verdict> fault = {};

  std::int32_t cell(std::int32_t c) {
    const auto at = static_cast<std::size_t>(c);
    std::int32_t v = 0;
    if (!shared.values.empty()) {
      if (probed != nullptr && std::ranges::find(*probed, c) == probed->end()) probed->push_back(c);
      v = shared.values[at].back().value;
      if (probed != nullptr && v == kNothing) v = 0;
      if (chosen != nullptr) {
        const auto it = chosen->find(c);
        if (it != chosen->end()) {
          v = shared.values[at][static_cast<std::size_t>(it->second)].value;
        }
      }
    } else if (through_cache) {
      const int line = machine->program_.line_of[at];
      const auto held = std::ranges::find(lane.cache, line, &Line::line);
      if (held == lane.cache.end()) {
        if (missing_line < 0) missing_line = line;
        return 0;
      }
      const auto& cells = machine->program_.lines[static_cast<std::size_t>(line)];
      v = held->values[static_cast<std::size_t>(std::ranges::find(cells, c) - cells.begin())];
    } else {
      v = shared.memory[at];
    }
    if (v == kNothing) {
      fault = fault ? fault : Verdict::kUninitialisedRead;
      return 0;
    }
    return v;
  }

  std::int32_t value(const Code& code) {
    std::int32_t stack[256];
    std::size_t top = 0;
    for (const Code::Step& s : code.steps) {
      if (top >= 250) {
        fault = Verdict::kUnknown;
        return 0;
      }
      switch (s.op) {
        case Code::Op::kPush:
          stack[top++] = s.value;
          break;
        case Code::Op::kRegister:
          stack[top++] = lane.registers[static_cast<std::size_t>(s.value)];
          break;
        case Code::Op::kShared:
          stack[top++] = cell(s.value);
          break;
        case Code::Op::kGhost:
          stack[top++] = shared.ghosts[static_cast<std::size_t>(s.value)];
          break;
        case Code::Op::kSharedAt:
        case Code::Op::kGhostAt: {
          const std::int32_t index = stack[top - 1];
          if (index < 0 || index >= s.count) {
            fault = fault ? fault : Verdict::kOutOfBounds;
            stack[top - 1] = 0;
          } else if (s.op == Code::Op::kGhostAt) {
            stack[top - 1] = shared.ghosts[static_cast<std::size_t>(s.value + index)];
          } else {
            stack[top - 1] = cell(s.value + index);
          }
          break;
        }
        case Code::Op::kPassed: {
          std::int32_t least = std::numeric_limits<std::int32_t>::max();
          for (const int l :
               machine->program_.checkpoint_lanes[static_cast<std::size_t>(s.value)]) {
            const Lane other = machine->lane_of((*state)[static_cast<std::size_t>(l)]);
            least = std::min(least, other.passed[static_cast<std::size_t>(s.value)]);
          }
          stack[top++] = least == std::numeric_limits<std::int32_t>::max() ? 0 : least;
          break;
        }
        case Code::Op::kUnary:
          stack[top - 1] = result_of(s.oper, stack[top - 1], 0, fault);
          break;
        case Code::Op::kBinary:
          --top;
          stack[top - 1] = result_of(s.oper, stack[top - 1], stack[top], fault);
          break;
      }
    }
    return stack[0];
  }
};

State Machine::initial() {
  State state;
  for (std::size_t l = 0; l < program_.lanes.size(); ++l) {
    Lane lane;
    lane.status = program_.cores >= 0 ? LaneStatus::kNotStarted : LaneStatus::kRunning;
    lane.registers.assign(static_cast<std::size_t>(program_.lanes[l].registers), 0);
    lane.passed.assign(program_.checkpoints.size(), 0);
    if (program_.memory.kind == Memory::Kind::kWeak) lane.view.assign(program_.initial.size(), 0);
    std::optional<Verdict> fault;
    run_locally(static_cast<int>(l), lane, fault);
    state.push_back(number_of(lane));
  }
  Shared shared;
  if (program_.memory.kind == Memory::Kind::kWeak) {
    for (const std::int32_t v : program_.initial) shared.values.push_back({{v, false, {}}});
    shared.fence_view.assign(program_.initial.size(), 0);
  } else {
    shared.memory = program_.initial;
  }
  shared.ghosts = program_.ghosts;
  state.push_back(number_of(shared));
  return state;
}

// Steps that touch nothing shared are taken at once: no other lane can tell when.
void Machine::run_locally(int lane, Lane& data, std::optional<Verdict>& fault) const {
  if (data.status != LaneStatus::kRunning) return;
  const std::vector<Instruction>& code = code_of(lane).code;
  const Shared nothing;
  for (int n = 0; n < 100'000; ++n) {
    if (static_cast<std::size_t>(data.pc) >= code.size()) {
      data.status = LaneStatus::kEnded;
      break;
    }
    const Instruction& i = code[static_cast<std::size_t>(data.pc)];
    if (!is_local(i, program_.is_counted)) break;
    Reader reader{.shared = nothing, .lane = data, .machine = this};
    if (i.kind == Kind::kJump) {
      data.pc = i.target;
    } else if (i.kind == Kind::kZero) {
      for (const std::int32_t r : i.registers) data.registers[static_cast<std::size_t>(r)] = 0;
      ++data.pc;
    } else if (i.kind == Kind::kSet) {
      data.registers[static_cast<std::size_t>(i.result)] = reader.value(i.code[0]);
      ++data.pc;
    } else if (i.kind == Kind::kBranch) {
      data.pc = reader.value(i.code[0]) != 0 ? data.pc + 1 : i.target;
    } else {
      ++data.pc;
    }
    if (reader.fault) {
      fault = reader.fault;
      data.status = LaneStatus::kFaulted;
      break;
    }
  }
  if (data.status == LaneStatus::kEnded || data.status == LaneStatus::kFaulted) {
    std::ranges::fill(data.registers, 0);
    data.pc = 0;
  }
}

LaneStatus Machine::status(const State& state, int lane) const {
  return static_cast<LaneStatus>(lanes_.words(state[static_cast<std::size_t>(lane)])[0]);
}

bool Machine::is_done(const State& state, int lane) const {
  const LaneStatus s = status(state, lane);
  return s == LaneStatus::kEnded || s == LaneStatus::kFaulted;
}

bool Machine::has_fault(const State& state) const {
  for (std::size_t l = 0; l < program_.lanes.size(); ++l) {
    if (status(state, static_cast<int>(l)) == LaneStatus::kFaulted) return true;
  }
  return false;
}

bool Machine::is_after_done(const State& state, int task) const {
  for (const int before : program_.tasks[static_cast<std::size_t>(task)].after) {
    for (const int lane : program_.tasks[static_cast<std::size_t>(before)].lanes) {
      if (!is_done(state, lane)) return false;
    }
  }
  return true;
}

bool Machine::lacks_core(const State& state) const {
  if (program_.cores < 0 || weakening_ == Weakening::kEveryHangIsADeadlock) return false;
  for (std::size_t l = 0; l < program_.lanes.size(); ++l) {
    if (status(state, static_cast<int>(l)) == LaneStatus::kNotStarted &&
        is_after_done(state, program_.lanes[l].task)) {
      return true;
    }
  }
  return false;
}

void Machine::starts(const State& state, std::vector<Transition>& out) {
  if (program_.cores < 0) return;
  int used = 0;
  for (std::size_t l = 0; l < program_.lanes.size(); ++l) {
    const LaneStatus s = status(state, static_cast<int>(l));
    used += s == LaneStatus::kRunning || s == LaneStatus::kCrashed ? 1 : 0;
  }
  for (std::size_t t = 0; t < program_.tasks.size(); ++t) {
    if (!is_after_done(state, static_cast<int>(t))) continue;
    std::vector<int> waiting;
    for (const int lane : program_.tasks[t].lanes) {
      if (status(state, lane) == LaneStatus::kNotStarted) waiting.push_back(lane);
    }
    if (waiting.empty()) continue;
    const bool splits = weakening_ == Weakening::kCohortStartsOneByOne;
    if (!program_.tasks[t].cohort || splits) waiting.resize(1);
    if (used + static_cast<int>(waiting.size()) > program_.cores) continue;
    Transition transition{.next = state, .writes = true, .what = "starts"};
    transition.lane = waiting.front();
    for (const int lane : waiting) {
      Lane data = lane_of(state[static_cast<std::size_t>(lane)]);
      data.status = LaneStatus::kRunning;
      run_locally(lane, data, transition.fault);
      transition.next[static_cast<std::size_t>(lane)] = number_of(data);
    }
    out.push_back(std::move(transition));
  }
}

// All steps of one lane in one state.
struct Machine::Stepper {
  Machine& m;
  const Program& p;
  const State& state;
  int index;
  const Lane lane;
  const Shared shared;
  std::vector<Step>& out;

  void emit(Lane next, const Shared& changed, bool writes, std::int32_t instruction,
            const char* what = "", bool is_whim = false,
            std::vector<std::pair<std::int32_t, std::uint32_t>> stale = {},
            std::optional<Verdict> fault = {}) {
    if (fault) {
      next.status = LaneStatus::kFaulted;
      next.pc = 0;
      std::ranges::fill(next.registers, 0);
    }
    m.run_locally(index, next, fault);
    out.push_back({m.number_of(next), m.number_of(changed), is_whim, writes, fault, instruction,
                   what, std::move(stale)});
  }

  void fault(Verdict verdict) { emit(lane, shared, true, lane.pc, "", false, {}, verdict); }

  std::uint32_t bit_of(std::int32_t cell) const {
    const auto& cells =
        p.lines[static_cast<std::size_t>(p.line_of[static_cast<std::size_t>(cell)])];
    return 1u << (std::ranges::find(cells, cell) - cells.begin());
  }

  // A value reaches memory: others' copies of its line hold an older one from now on.
  void write_memory(Lane& next, Shared& changed, std::int32_t cell, std::int32_t value, bool raw,
                    std::vector<std::pair<std::int32_t, std::uint32_t>>& stale) const {
    const auto at = static_cast<std::size_t>(cell);
    changed.memory[at] = raw ? value : p.fit(value, at);
    if (p.memory.kind != Memory::Kind::kNoncoherent) return;
    const int line = p.line_of[at];
    const std::uint32_t bit = bit_of(cell);
    for (std::vector<Line>* lines : {&next.cache, &next.under_way}) {
      for (Line& l : *lines) {
        if (l.line == line) l.stale |= bit;
      }
    }
    if (m.weakening_ != Weakening::kNoStaleMarks) stale.emplace_back(line, bit);
  }

  // Puts a line into memory; whether that undid a newer value.
  bool write_back(Lane& next, Shared& changed, const Line& line,
                  std::vector<std::pair<std::int32_t, std::uint32_t>>& stale) const {
    const auto& cells = p.lines[static_cast<std::size_t>(line.line)];
    bool has_undone = false;
    for (std::size_t k = 0; k < cells.size(); ++k) {
      const std::int32_t value = line.values[k];
      if ((line.written >> k & 1u) != 0) {
        write_memory(next, changed, cells[k], value, true, stale);
      } else if (p.memory.whole_line && m.weakening_ != Weakening::kWriteBackOfBytesOnly &&
                 (line.stale >> k & 1u) != 0 &&
                 changed.memory[static_cast<std::size_t>(cells[k])] != value) {
        has_undone = true;
        write_memory(next, changed, cells[k], value, true, stale);
      }
    }
    return has_undone;
  }

  void memory_steps() {
    for (std::size_t k = 0; k < lane.cache.size(); ++k) {
      if (m.weakening_ == Weakening::kNoEviction) break;
      Lane next = lane;
      next.cache.erase(next.cache.begin() + static_cast<std::ptrdiff_t>(k));
      flush(std::move(next), lane.cache[k], true,
            lane.cache[k].written != 0 ? "writes back a line" : "drops a line");
    }
    for (std::size_t k = 0; k < lane.under_way.size(); ++k) {
      if (m.weakening_ == Weakening::kNoLateWriteBack && lane.under_way[k].late) continue;
      Lane next = lane;
      next.under_way.erase(next.under_way.begin() + static_cast<std::ptrdiff_t>(k));
      flush(std::move(next), lane.under_way[k], false, "its cleaned line reaches memory");
    }
    for (std::size_t k = 0; k < lane.dma.size(); ++k) {
      const Dma& d = lane.dma[k];
      if (m.weakening_ == Weakening::kStoresArriveInOrder && k > 0) break;
      if (std::any_of(lane.dma.begin(), lane.dma.begin() + static_cast<std::ptrdiff_t>(k),
                      [&](const Dma& e) { return e.cell == d.cell; })) {
        continue;
      }
      Lane next = lane;
      next.dma.erase(next.dma.begin() + static_cast<std::ptrdiff_t>(k));
      Shared changed = shared;
      std::vector<std::pair<std::int32_t, std::uint32_t>> stale;
      write_memory(next, changed, d.cell, d.value, false, stale);
      emit(std::move(next), changed, true, -1, "its dma store reaches memory", false,
           std::move(stale));
    }
  }

  void flush(Lane next, const Line& line, bool is_whim, const char* what) {
    Shared changed = shared;
    std::vector<std::pair<std::int32_t, std::uint32_t>> stale;
    std::optional<Verdict> undone;
    if (line.written != 0 && write_back(next, changed, line, stale)) undone = Verdict::kLostUpdate;
    emit(std::move(next), changed, true, -1, what, is_whim, std::move(stale), undone);
  }

  // The cells that an access names; empty if an index is outside.
  std::vector<std::int32_t> cells_of(const CellRange& range, Reader& reader) const {
    std::int32_t first = 0;
    std::int32_t last = range.count - 1;
    if (!range.index.empty()) {
      first = reader.value(range.index.front());
      last = reader.value(range.index.back());
      if (reader.fault) return {};
      if (first < 0 || last >= range.count) {
        reader.fault = Verdict::kOutOfBounds;
        return {};
      }
    }
    std::vector<std::int32_t> cells;
    for (std::int32_t c = first; c <= last; ++c) cells.push_back(range.base + c);
    return cells;
  }

  void step() {
    const Instruction& i = m.code_of(index).code[static_cast<std::size_t>(lane.pc)];
    Reader reader{.shared = shared, .lane = lane, .state = &state, .machine = &m};
    Lane next = lane;
    ++next.pc;
    switch (i.kind) {
      case Kind::kSet: {
        const std::int32_t v = reader.value(i.code[0]);
        if (reader.fault) return fault(*reader.fault);
        next.registers[static_cast<std::size_t>(i.result)] = v;
        return emit(std::move(next), shared, false, lane.pc);
      }
      case Kind::kBranch: {
        const std::int32_t v = reader.value(i.code[0]);
        if (reader.fault) return fault(*reader.fault);
        if (v == 0) next.pc = i.target;
        return emit(std::move(next), shared, false, lane.pc);
      }
      case Kind::kAssert: {
        const std::int32_t v = reader.value(i.code[0]);
        if (reader.fault) return fault(*reader.fault);
        if (v == 0) return fault(i.word);
        return emit(std::move(next), shared, false, lane.pc);
      }
      case Kind::kChoose:
        for (const std::int32_t target : i.targets) {
          Lane chosen = lane;
          chosen.pc = target;
          emit(std::move(chosen), shared, false, lane.pc);
          if (m.weakening_ == Weakening::kFirstChoiceOnly) break;
        }
        return;
      case Kind::kCheckpoint:
        ++next.passed[static_cast<std::size_t>(i.number)];
        return emit(std::move(next), shared, true, lane.pc);
      case Kind::kSkip:
        return emit(std::move(next), shared, false, lane.pc);
      case Kind::kExit:
        next.status = LaneStatus::kEnded;
        next.pc = 0;
        std::ranges::fill(next.registers, 0);
        return emit(std::move(next), shared, false, lane.pc);
      case Kind::kCrash:
        next = lane;
        next.status = LaneStatus::kCrashed;
        return emit(std::move(next), shared, false, lane.pc);
      case Kind::kLoad:
      case Kind::kStore:
      case Kind::kAdd:
      case Kind::kExchange:
      case Kind::kCas:
        return access(i, reader);
      case Kind::kClean:
      case Kind::kInvalidate:
        return maintain(i, reader);
      case Kind::kDrain:
        for (Dma& d : next.dma) d.complete = true;
        return emit(std::move(next), shared, true, lane.pc);
      case Kind::kFence:
        return fence(std::move(next));
      case Kind::kWait:
      case Kind::kPoll:
        return wait(i);
      case Kind::kJump:
      case Kind::kZero:
        return;
    }
  }

  void fence(Lane next) {
    if (p.memory.kind == Memory::Kind::kNoncoherent) {
      const bool must_wait =
          std::ranges::any_of(lane.under_way, [](const Line& l) { return !l.late; }) ||
          std::ranges::any_of(lane.dma, [](const Dma& d) { return d.complete; });
      if (must_wait && m.weakening_ != Weakening::kFenceDoesNotWait) return;
    }
    Shared changed = shared;
    if (p.memory.kind == Memory::Kind::kWeak) {
      for (std::size_t c = 0; c < next.view.size(); ++c) {
        next.view[c] = changed.fence_view[c] = std::max(next.view[c], changed.fence_view[c]);
      }
    }
    emit(std::move(next), changed, true, lane.pc);
  }

  // The value an atomic leaves behind.
  static std::int32_t updated(const Instruction& i, Reader& reader, std::int32_t old) {
    const std::int32_t a = reader.value(i.code[0]);
    if (i.kind == Kind::kAdd) return wrap(std::int64_t{old} + a);
    if (i.kind == Kind::kExchange) return a;
    const std::int32_t b = reader.value(i.code[1]);
    return old == a ? b : old;
  }

  void access(const Instruction& i, Reader& reader) {
    std::vector<std::int32_t> cells = cells_of(i.cells[0], reader);
    if (reader.fault) return fault(*reader.fault);
    Lane next = lane;
    ++next.pc;
    if (i.cells[0].is_ghost)
      return ghost(i, reader, static_cast<std::size_t>(cells[0]), std::move(next));
    // A whole range, part by part: how far it is stands in a register.
    std::size_t part = 0;
    const auto counter = static_cast<std::size_t>(m.code_of(index).bytes_register);
    const bool is_range = cells.size() > 1;
    if (is_range) part = static_cast<std::size_t>(lane.registers[counter]);
    const std::int32_t cell = cells[part];
    const auto finish_part = [&](Lane& done, std::int32_t value) {
      if (!is_range) {
        if (i.kind == Kind::kLoad) done.registers[static_cast<std::size_t>(i.result)] = value;
        return;
      }
      // Torn if any two parts differ.
      std::int32_t& sum = done.registers[counter + 1];
      if (part == 0 || sum == value) {
        sum = value;
      } else {
        sum = -1;
        done.registers[counter] = 0;
      }
      if (part + 1 < cells.size()) {
        done.registers[counter] = static_cast<std::int32_t>(part + 1);
        done.pc = lane.pc;
        return;
      }
      if (i.kind == Kind::kLoad) done.registers[static_cast<std::size_t>(i.result)] = sum;
      done.registers[counter] = 0;
      sum = 0;
    };
    if (p.memory.kind == Memory::Kind::kWeak)
      return weak_access(i, reader, cell, std::move(next), finish_part);
    const bool caches = p.memory.kind == Memory::Kind::kNoncoherent;
    if (caches && i.path == Path::kCached)
      return cached(i, reader, cell, std::move(next), finish_part);

    Shared changed = shared;
    std::vector<std::pair<std::int32_t, std::uint32_t>> stale;
    if (i.kind == Kind::kLoad) {
      const std::int32_t v = reader.cell(cell);
      if (reader.fault) return fault(*reader.fault);
      finish_part(next, v);
      return emit(std::move(next), shared, false, lane.pc);
    }
    if (i.kind == Kind::kStore) {
      const std::int32_t v = reader.value(i.code[0]);
      if (reader.fault) return fault(*reader.fault);
      if (caches && i.path == Path::kDma) {
        if (lane.dma.size() >= static_cast<std::size_t>(p.memory.queue)) return;
        next.dma.push_back({cell, v, false});
      } else {
        write_memory(next, changed, cell, v, false, stale);
      }
      finish_part(next, 0);
      return emit(std::move(next), changed, true, lane.pc, "", false, std::move(stale));
    }
    const std::int32_t old = reader.cell(cell);
    const std::int32_t v = updated(i, reader, old);
    if (reader.fault) return fault(*reader.fault);
    const bool writes = i.kind != Kind::kCas || v != old;
    if (writes) write_memory(next, changed, cell, v, false, stale);
    if (i.result >= 0) next.registers[static_cast<std::size_t>(i.result)] = old;
    emit(std::move(next), changed, writes, lane.pc, "", false, std::move(stale));
  }

  void ghost(const Instruction& i, Reader& reader, std::size_t which, Lane next) {
    Shared changed = shared;
    const std::int32_t old = shared.ghosts[which];
    if (i.kind == Kind::kStore) {
      changed.ghosts[which] = reader.value(i.code[0]);
    } else if (i.kind != Kind::kLoad) {
      changed.ghosts[which] = updated(i, reader, old);
    }
    if (reader.fault) return fault(*reader.fault);
    if (i.result >= 0) next.registers[static_cast<std::size_t>(i.result)] = old;
    emit(std::move(next), changed, true, lane.pc);
  }

  template <class Finish>
  void cached(const Instruction& i, Reader& reader, std::int32_t cell, Lane next,
              const Finish& finish) {
    const int number = p.line_of[static_cast<std::size_t>(cell)];
    const auto& cells = p.lines[static_cast<std::size_t>(number)];
    if (std::ranges::any_of(lane.under_way,
                            [&](const Line& l) { return l.line == number && !l.late; })) {
      return;  // Waits until its line has arrived.
    }
    auto held = std::ranges::find(next.cache, number, &Line::line);
    if (held == next.cache.end()) {
      Line fetched{.line = number};
      for (const int c : cells)
        fetched.values.push_back(shared.memory[static_cast<std::size_t>(c)]);
      held =
          next.cache.insert(std::ranges::lower_bound(next.cache, number, {}, &Line::line), fetched);
    }
    const auto k = static_cast<std::size_t>(std::ranges::find(cells, cell) - cells.begin());
    if (i.kind == Kind::kLoad) {
      const std::int32_t v = held->values[k];
      if (v == kNothing) return fault(Verdict::kUninitialisedRead);
      finish(next, v);
    } else {
      const std::int32_t v = reader.value(i.code[0]);
      if (reader.fault) return fault(*reader.fault);
      held->values[k] = p.fit(v, static_cast<std::size_t>(cell));
      held->written |= 1u << k;
      finish(next, 0);
    }
    emit(std::move(next), shared, true, lane.pc);
  }

  void maintain(const Instruction& i, Reader& reader) {
    Lane next = lane;
    ++next.pc;
    if (p.memory.kind != Memory::Kind::kNoncoherent)
      return emit(std::move(next), shared, false, lane.pc);
    std::vector<int> lines;
    if (i.is_all) {
      for (const Line& l : lane.cache) lines.push_back(l.line);
    } else {
      for (const std::int32_t cell : cells_of(i.cells[0], reader)) {
        const int line = p.line_of[static_cast<std::size_t>(cell)];
        if (std::ranges::find(lines, line) == lines.end()) lines.push_back(line);
      }
      if (reader.fault) return fault(*reader.fault);
    }
    bool has_lost = false;
    for (const int number : lines) {
      const auto held = std::ranges::find(next.cache, number, &Line::line);
      if (held == next.cache.end()) continue;
      Line line = *held;
      next.cache.erase(held);
      if (line.written == 0) continue;
      if (i.kind == Kind::kInvalidate && p.memory.lose_invalidated) {
        has_lost = true;
        continue;
      }
      line.late = i.kind == Kind::kInvalidate;
      next.under_way.insert(std::ranges::upper_bound(next.under_way, line), line);
    }
    emit(std::move(next), shared, true, lane.pc, "", false, {},
         has_lost ? std::optional(Verdict::kLostUpdate) : std::nullopt);
  }

  void wait(const Instruction& i) {
    if (p.memory.kind == Memory::Kind::kWeak) return weak_wait(i);
    Reader reader{.shared = shared, .lane = lane, .state = &state, .machine = &m};
    reader.through_cache = p.memory.kind == Memory::Kind::kNoncoherent && i.path == Path::kCached;
    const std::int32_t v = reader.value(i.code[0]);
    Lane next = lane;
    if (reader.missing_line >= 0) {
      const bool is_under_way = std::ranges::any_of(
          lane.under_way, [&](const Line& l) { return l.line == reader.missing_line && !l.late; });
      if (is_under_way) return;
      Line fetched{.line = reader.missing_line};
      for (const int c : p.lines[static_cast<std::size_t>(reader.missing_line)]) {
        fetched.values.push_back(shared.memory[static_cast<std::size_t>(c)]);
      }
      next.cache.insert(std::ranges::lower_bound(next.cache, fetched.line, {}, &Line::line),
                        fetched);
      return emit(std::move(next), shared, true, lane.pc);
    }
    if (reader.fault) return fault(*reader.fault);
    poll_result(i, v != 0, std::move(next));
  }

  void poll_result(const Instruction& i, bool is_fulfilled, Lane next) {
    if (i.kind == Kind::kWait) {
      if (!is_fulfilled) return;
      ++next.pc;
      return emit(std::move(next), shared, false, lane.pc);
    }
    std::int32_t& polls = next.registers[static_cast<std::size_t>(i.result)];
    if (is_fulfilled) {
      polls = 0;
      next.pc = i.target;
    } else if (polls + 1 >= i.number) {
      polls = 0;
      ++next.pc;
    } else {
      ++polls;
    }
    emit(std::move(next), shared, false, lane.pc);
  }

  // ---- Weak memory ----

  bool acquires(const Instruction& i) const {
    return i.order.acquire && m.weakening_ != Weakening::kAcquireForgets;
  }

  static void join(Words& view, const Words& other) {
    for (std::size_t c = 0; c < view.size(); ++c) view[c] = std::max(view[c], other[c]);
  }

  template <class Finish>
  void weak_access(const Instruction& i, Reader& reader, std::int32_t cell, Lane next,
                   const Finish& finish) {
    const auto at = static_cast<std::size_t>(cell);
    const auto& list = shared.values[at];
    if (i.kind == Kind::kLoad) {
      const bool newest = m.weakening_ == Weakening::kNewestValueOnly;
      for (auto t = newest ? list.size() - 1 : static_cast<std::size_t>(lane.view[at]);
           t < list.size(); ++t) {
        if (list[t].value == kNothing) {
          fault(Verdict::kUninitialisedRead);
          return;
        }
        Lane read = next;
        read.view[at] = static_cast<std::int32_t>(t);
        if (acquires(i) && list[t].has_message) join(read.view, list[t].message);
        const bool moves = read.view != lane.view;
        finish(read, list[t].value);
        emit(std::move(read), shared, moves, lane.pc);
      }
      return;
    }
    Shared changed = shared;
    if (i.kind == Kind::kStore) {
      const std::int32_t v = reader.value(i.code[0]);
      if (reader.fault) return fault(*reader.fault);
      next.view[at] = static_cast<std::int32_t>(list.size());
      changed.values[at].push_back(
          {p.fit(v, at), i.order.release, i.order.release ? next.view : Words{}});
      finish(next, 0);
      return emit(std::move(next), changed, true, lane.pc);
    }
    const std::int32_t old = list.back().value;
    if (old == kNothing) return fault(Verdict::kUninitialisedRead);
    const std::int32_t v = updated(i, reader, old);
    const bool writes = i.kind != Kind::kCas || old == reader.value(i.code[0]);
    if (reader.fault) return fault(*reader.fault);
    next.view[at] = static_cast<std::int32_t>(list.size() - 1);
    if (acquires(i) && list.back().has_message) join(next.view, list.back().message);
    if (i.result >= 0) next.registers[static_cast<std::size_t>(i.result)] = old;
    if (writes) {
      ++next.view[at];
      Shared::Value value{p.fit(v, at), list.back().has_message, list.back().message};
      if (i.order.release) {
        Words message = next.view;
        if (value.has_message) join(message, value.message);
        value.has_message = true;
        value.message = std::move(message);
      }
      changed.values[at].push_back(std::move(value));
    }
    emit(std::move(next), changed, true, lane.pc);
  }

  // Every choice of values for the cells that the condition names.
  void weak_wait(const Instruction& i) {
    std::vector<std::int32_t> cells;
    Reader probe{.shared = shared, .lane = lane, .state = &state, .machine = &m, .probed = &cells};
    static_cast<void>(probe.value(i.code[0]));
    if (probe.fault) return fault(*probe.fault);
    std::vector<std::int32_t> choice;
    for (const std::int32_t c : cells) choice.push_back(lane.view[static_cast<std::size_t>(c)]);
    bool can_fail = false;
    for (;;) {
      std::unordered_map<std::int32_t, std::int32_t> chosen;
      for (std::size_t k = 0; k < cells.size(); ++k) chosen[cells[k]] = choice[k];
      Reader reader{
          .shared = shared, .lane = lane, .state = &state, .machine = &m, .chosen = &chosen};
      const std::int32_t v = reader.value(i.code[0]);
      if (reader.fault) return fault(*reader.fault);
      if (v != 0) {
        Lane next = lane;
        for (std::size_t k = 0; k < cells.size(); ++k) {
          next.view[static_cast<std::size_t>(cells[k])] = choice[k];
        }
        if (acquires(i)) {
          for (std::size_t k = 0; k < cells.size(); ++k) {
            const auto& value = shared.values[static_cast<std::size_t>(cells[k])]
                                             [static_cast<std::size_t>(choice[k])];
            if (value.has_message) join(next.view, value.message);
          }
        }
        poll_result(i, true, std::move(next));
      } else {
        can_fail = true;
      }
      std::size_t k = 0;
      for (; k < cells.size(); ++k) {
        const auto c = static_cast<std::size_t>(cells[k]);
        if (++choice[k] < static_cast<std::int32_t>(shared.values[c].size())) break;
        choice[k] = lane.view[c];
      }
      if (k == cells.size()) break;
    }
    if (can_fail && i.kind == Kind::kPoll) poll_result(i, false, lane);
  }
};

const std::vector<Machine::Step>& Machine::steps(const State& state, int lane, bool may_run) {
  const std::uint32_t shared = state.back();
  const std::uint32_t number = state[static_cast<std::size_t>(lane)];
  const StepKey key{number, shared, static_cast<std::uint32_t>(2 * lane + (may_run ? 1 : 0))};
  if (!has_counted_) {
    const auto it = memo_.find(key);
    if (it != memo_.end()) return it->second;
  }
  std::vector<Step> found;
  Stepper stepper{*this, program_, state, lane, lane_of(number), shared_of(shared), found};
  if (may_run && stepper.lane.status == LaneStatus::kRunning) stepper.step();
  if (program_.memory.kind == Memory::Kind::kNoncoherent) stepper.memory_steps();
  if (!has_counted_ && memo_.size() < kMostRemembered) {
    return memo_.emplace(key, std::move(found)).first->second;
  }
  scratch_.resize(std::max(scratch_.size(), program_.lanes.size()));
  std::vector<Step>& kept =
      scratch_[static_cast<std::size_t>(lane)];  // Until the lane is asked again.
  kept = std::move(found);
  return kept;
}

void Machine::put(const State& state, int lane, const Step& step, std::vector<Transition>& out) {
  Transition t{.next = state,
               .lane = lane,
               .is_whim = step.is_whim,
               .writes = step.writes,
               .fault = step.fault,
               .instruction = step.instruction,
               .what = step.what};
  t.next[static_cast<std::size_t>(lane)] = step.lane;
  t.next.back() = step.shared;
  for (const auto& [line, bits] : step.stale) {
    for (std::size_t l = 0; l < program_.lanes.size(); ++l) {
      if (static_cast<int>(l) == lane) continue;
      Lane other = lane_of(t.next[l]);
      bool has_copy = false;
      for (std::vector<Line>* lines : {&other.cache, &other.under_way}) {
        for (Line& copy : *lines) {
          if (copy.line != line || (copy.stale & bits) == bits) continue;
          copy.stale |= bits;
          has_copy = true;
        }
      }
      if (has_copy) t.next[l] = number_of(other);
    }
  }
  out.push_back(std::move(t));
}

void Machine::successors(const State& state, std::vector<Transition>& out) {
  out.clear();
  starts(state, out);
  bool all_ended = true;
  for (std::size_t l = 0; l < program_.lanes.size(); ++l) {
    const int lane = static_cast<int>(l);
    const LaneStatus s = status(state, lane);
    all_ended = all_ended && s == LaneStatus::kEnded;
    const bool may_run = s == LaneStatus::kRunning && is_after_done(state, program_.lanes[l].task);
    if (!may_run && program_.memory.kind != Memory::Kind::kNoncoherent) continue;
    for (const Step& step : steps(state, lane, may_run)) put(state, lane, step, out);
  }
  if (all_ended && program_.has_final) run_final(state, out);
}

// `finally`, on what memory holds once all caches and stores have settled.
void Machine::run_final(const State& state, std::vector<Transition>& out) {
  for (std::size_t l = 0; l < program_.lanes.size(); ++l) {
    const Lane lane = lane_of(state[l]);
    const bool is_settled =
        lane.under_way.empty() && lane.dma.empty() &&
        std::ranges::all_of(lane.cache, [](const Line& line) { return line.written == 0; });
    if (!is_settled) return;
  }
  Shared shared = shared_of(state.back());
  if (!shared.values.empty()) {
    for (const auto& list : shared.values) shared.memory.push_back(list.back().value);
    shared.values.clear();
  }
  Lane lane;
  lane.registers.assign(static_cast<std::size_t>(program_.final_lane.registers), 0);
  const auto& code = program_.final_lane.code;
  for (int n = 0; n < 100'000 && static_cast<std::size_t>(lane.pc) < code.size(); ++n) {
    const Instruction& i = code[static_cast<std::size_t>(lane.pc)];
    Reader reader{.shared = shared, .lane = lane, .state = &state, .machine = this};
    std::int32_t target = lane.pc + 1;
    if (i.kind == Kind::kJump) {
      target = i.target;
    } else if (i.kind == Kind::kZero) {
      for (const std::int32_t r : i.registers) lane.registers[static_cast<std::size_t>(r)] = 0;
    } else if (i.kind == Kind::kLoad) {
      const std::int32_t first = i.cells[0].index.empty() ? 0 : reader.value(i.cells[0].index[0]);
      const std::int32_t count = i.cells[0].index.empty() ? i.cells[0].count : 1;
      if (first < 0 || first >= i.cells[0].count) reader.fault = Verdict::kOutOfBounds;
      std::int32_t v = 0;
      for (std::int32_t c = 0; c < count && !reader.fault; ++c) {
        const std::int32_t cell = i.cells[0].base + first + c;
        const std::int32_t one =
            i.cells[0].is_ghost ? shared.ghosts[static_cast<std::size_t>(cell)] : reader.cell(cell);
        v = c == 0 || v == one ? one : -1;
      }
      lane.registers[static_cast<std::size_t>(i.result)] = v;
    } else if (!i.code.empty()) {
      const std::int32_t v = reader.value(i.code[0]);
      if (i.kind == Kind::kSet) lane.registers[static_cast<std::size_t>(i.result)] = v;
      if (i.kind == Kind::kBranch && v == 0) target = i.target;
      if (i.kind == Kind::kAssert && v == 0 && !reader.fault) reader.fault = i.word;
    }
    if (reader.fault) {
      out.push_back({.next = state, .fault = reader.fault, .what = "finally"});
      return;
    }
    lane.pc = target;
  }
}

int Machine::private_step(const State& state) const {
  if (program_.memory.kind == Memory::Kind::kNoncoherent) return -1;
  for (std::size_t l = 0; l < program_.lanes.size(); ++l) {
    const int lane = static_cast<int>(l);
    const Words& words = lanes_.words(state[l]);
    if (static_cast<LaneStatus>(words[0]) != LaneStatus::kRunning) continue;
    if (!is_after_done(state, program_.lanes[l].task)) continue;
    const Instruction& i = program_.lanes[l].code[static_cast<std::size_t>(words[1])];
    const bool is_plain = i.kind == Kind::kLoad || i.kind == Kind::kStore || i.kind == Kind::kAdd ||
                          i.kind == Kind::kExchange || i.kind == Kind::kCas;
    if (!is_plain || i.cells[0].is_ghost) continue;
    const auto reads_shared = [](const Code& code) { return code.is_shared; };
    if (std::ranges::any_of(i.code, reads_shared) ||
        std::ranges::any_of(i.cells[0].index, reads_shared)) {
      continue;
    }
    const CellRange& r = i.cells[0];
    const bool is_one = r.index.size() == 1 && r.index[0].steps.size() == 1 &&
                        r.index[0].steps[0].op == Code::Op::kPush;
    bool is_own = true;
    for (std::int32_t c = 0; c < r.count; ++c) {
      if (is_one && r.index[0].steps[0].value != c) continue;
      const int line = program_.line_of[static_cast<std::size_t>(i.cells[0].base + c)];
      is_own = is_own && line_owner_[static_cast<std::size_t>(line)] == lane;
    }
    if (is_own) return lane;
  }
  return -1;
}

std::string Machine::lane_name(int lane) const {
  if (lane < 0) return "finally";
  const LaneProgram& l = program_.lanes[static_cast<std::size_t>(lane)];
  const TaskProgram& t = program_.tasks[static_cast<std::size_t>(l.task)];
  return t.lanes.size() == 1 ? t.name : t.name + "[" + std::to_string(l.index) + "]";
}

std::string Machine::text_of(const Transition& t) const {
  std::string text = t.what;
  if (t.instruction >= 0) {
    const Instruction& i = code_of(t.lane).code[static_cast<std::size_t>(t.instruction)];
    text = i.text;
    if (i.at.line > 0) text += " (line " + std::to_string(i.at.line) + ")";
  }
  if (t.fault) text += ": " + std::string(word(*t.fault));
  return text;
}

}  // namespace cohort::litmus
