#include "explore.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "cohort/base/random.h"

#include "machine.h"

namespace cohort::litmus {
namespace {

constexpr std::uint32_t kNobody = 0xFFFFFFFF;

// States in the order of their discovery, each kept once. A state is its parts' numbers, which are
// equal only if the parts are: equality is exact.
class StateStore {
 public:
  // `compared`: how many of the words at the front, and the last, tell states apart.
  StateStore(std::size_t width, std::size_t compared) : width_(width), compared_(compared) {}

  std::size_t size() const { return parents_.size(); }
  std::size_t bytes() const { return 4 * (words_.size() + parents_.size() + slots_.size()); }
  State at(std::uint32_t index) const {
    const auto first = words_.begin() + static_cast<std::ptrdiff_t>(index * width_);
    return {first, first + static_cast<std::ptrdiff_t>(width_)};
  }
  std::uint32_t parent(std::uint32_t index) const { return parents_[index]; }

  // The state's index, and whether it is new.
  std::pair<std::uint32_t, bool> add(const State& state, std::uint32_t parent) {
    if ((size() + 1) * 2 > slots_.size()) grow();
    const std::size_t at = find(state);
    if (slots_[at] != 0) return {slots_[at] - 1, false};
    words_.insert(words_.end(), state.begin(), state.end());
    parents_.push_back(parent);
    slots_[at] = static_cast<std::uint32_t>(size());
    return {static_cast<std::uint32_t>(size() - 1), true};
  }
  bool contains(const State& state) const { return !slots_.empty() && slots_[find(state)] != 0; }

 private:
  std::uint64_t hash(const std::uint32_t* words) const {
    std::uint64_t h = 0x9E3779B97F4A7C15u ^ words[width_ - 1];
    for (std::size_t i = 0; i < compared_; ++i) {
      h = (h ^ words[i]) * 0xFF51AFD7ED558CCDu;
      h ^= h >> 29;
    }
    return h;
  }
  bool equal(const std::uint32_t* a, const std::uint32_t* b) const {
    return std::equal(a, a + compared_, b) && a[width_ - 1] == b[width_ - 1];
  }
  std::size_t find(const State& state) const {
    std::size_t at = hash(state.data()) & (slots_.size() - 1);
    while (slots_[at] != 0 && !equal(state.data(), &words_[(slots_[at] - 1) * width_])) {
      at = (at + 1) & (slots_.size() - 1);
    }
    return at;
  }
  void grow() {
    slots_.assign(std::max<std::size_t>(1024, slots_.size() * 2), 0);
    for (std::uint32_t i = 0; i < size(); ++i) {
      std::size_t at = hash(&words_[i * width_]) & (slots_.size() - 1);
      while (slots_[at] != 0) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = i + 1;
    }
  }

  std::size_t width_;
  std::size_t compared_;
  std::vector<std::uint32_t> words_;
  std::vector<std::uint32_t> parents_;
  std::vector<std::uint32_t> slots_;  // Index + 1; 0 is free.
};

struct GraphEdge {
  std::uint32_t from;
  std::uint32_t to;
  bool writes;
};

class Search {
 public:
  Search(const Program& program, const ExploreOptions& options, Weakening weakening)
      : program_(program),
        options_(options),
        weakening_(weakening),
        machine_(program, weakening),
        store_(program.lanes.size() + 1,
               program.lanes.size() - (weakening == Weakening::kEqualityWithoutALane ? 1 : 0)) {}

  Exploration run() && {
    store_.add(machine_.initial(), kNobody);
    if (machine_.has_fault(store_.at(0))) first_[Verdict::kAssertFail] = {0, std::nullopt};
    result_.is_exhaustive = true;
    std::vector<Transition> next;
    for (std::uint32_t index = 0; index < store_.size(); ++index) {
      if (store_.size() > options_.most_states ||
          store_.bytes() + machine_.bytes() + edges_.size() * sizeof(GraphEdge) >
              options_.most_bytes) {
        result_.is_exhaustive = false;
        break;
      }
      const State state = store_.at(index);
      expand(state, next);
      visit(index, state, next);
    }
    if (result_.is_exhaustive) liveness();
    finish();
    return std::move(result_);
  }

 private:
  struct Found {
    std::uint32_t state;
    std::optional<std::uint32_t> choice;  // The transition out of it that is the fault, or none.
  };

  // A step that no other lane can tell from any other time stands for all of its lane's orders; not
  // if it closes a cycle, in which it could put off the others for ever: so only if it leads
  // somewhere new.
  void expand(const State& state, std::vector<Transition>& next) {
    machine_.successors(state, next);
    result_.transitions += next.size();
    is_reduced_ = false;
    if (!options_.reduce) return;
    const int lane = machine_.private_step(state);
    if (lane < 0) return;
    const auto is_its = [&](const Transition& t) { return t.lane == lane && t.instruction >= 0; };
    if (std::ranges::count_if(next, is_its) != 1) return;
    const auto it = std::ranges::find_if(next, is_its);
    const bool closes_cycle = store_.contains(it->next);
    if (it->fault || (closes_cycle && weakening_ != Weakening::kNoCycleProviso)) return;
    only_ = static_cast<std::uint32_t>(it - next.begin());
    is_reduced_ = true;
  }

  void visit(std::uint32_t index, const State& state, const std::vector<Transition>& next) {
    bool can_act = false;
    for (std::uint32_t k = 0; k < next.size(); ++k) {
      if (is_reduced_ && k != only_) continue;
      const Transition& t = next[k];
      can_act = can_act || !t.is_whim;
      if (t.fault) first_.try_emplace(*t.fault, Found{index, k});
      if (t.lane < 0) continue;  // `finally` changes nothing.
      const auto [to, is_new] = store_.add(t.next, index);
      edges_.push_back({index, to, t.writes});
    }
    bool has_ended = true;
    for (std::size_t l = 0; l < program_.lanes.size(); ++l) {
      has_ended = has_ended && machine_.is_done(state, static_cast<int>(l));
    }
    const bool is_good = has_ended || machine_.has_fault(state);
    if (is_good) good_.push_back(index);
    if (!is_good && !can_act) {
      stuck_.push_back(index);
      first_.try_emplace(hang(state), Found{index, std::nullopt});
    }
  }

  Verdict hang(const State& state) const {
    return machine_.lacks_core(state) ? Verdict::kResidency : Verdict::kDeadlock;
  }

  // Faults that are no single step: states from which no schedule ends, and that aren't on the way
  // to one where nothing happens. If lanes act for ever there and write, it is a livelock.
  void liveness() {
    const std::size_t count = store_.size();
    std::vector<std::uint32_t> first(count + 1, 0);
    for (const GraphEdge& e : edges_) ++first[e.to + 1];
    for (std::size_t i = 1; i <= count; ++i) first[i] += first[i - 1];
    std::vector<std::uint32_t> from(edges_.size());
    {
      std::vector<std::uint32_t> at(first.begin(), first.end() - 1);
      for (const GraphEdge& e : edges_) from[at[e.to]++] = e.from;
    }
    const auto backwards = [&](std::vector<std::uint32_t> todo) {
      std::vector<bool> seen(count);
      for (const std::uint32_t s : todo) seen[s] = true;
      while (!todo.empty()) {
        const std::uint32_t s = todo.back();
        todo.pop_back();
        for (std::uint32_t i = first[s]; i < first[s + 1]; ++i) {
          if (seen[from[i]]) continue;
          seen[from[i]] = true;
          todo.push_back(from[i]);
        }
      }
      return seen;
    };
    const std::vector<bool> can_end = backwards(good_);
    const std::vector<bool> can_stop = backwards(stuck_);
    std::vector<bool> spins(count);
    std::uint32_t example = kNobody;
    for (std::uint32_t s = 0; s < count; ++s) {
      spins[s] = !can_end[s] && !can_stop[s];
      if (spins[s] && example == kNobody) example = s;
    }
    if (example == kNobody) return;
    const bool writes = has_writing_cycle(spins);
    first_.try_emplace(writes ? Verdict::kLivelock : hang(store_.at(example)),
                       Found{example, std::nullopt});
  }

  // Whether some cycle inside `spins` has an edge that writes: an edge within a strongly connected
  // component (Tarjan, without recursion).
  bool has_writing_cycle(const std::vector<bool>& spins) const {
    const std::size_t count = store_.size();
    std::vector<std::uint32_t> first(count + 1, 0);
    for (const GraphEdge& e : edges_) ++first[e.from + 1];  // Edges are in the order of `from`.
    for (std::size_t i = 1; i <= count; ++i) first[i] += first[i - 1];
    std::vector<std::uint32_t> order(count, 0), low(count, 0), component(count, 0);
    std::vector<std::uint32_t> stack;
    std::uint32_t counter = 0;
    std::uint32_t components = 0;
    struct Frame {
      std::uint32_t state;
      std::uint32_t edge;
    };
    for (std::uint32_t root = 0; root < count; ++root) {
      if (!spins[root] || order[root] != 0) continue;
      std::vector<Frame> frames = {{root, first[root]}};
      order[root] = low[root] = ++counter;
      stack.push_back(root);
      while (!frames.empty()) {
        Frame& f = frames.back();
        if (f.edge < first[f.state + 1]) {
          const std::uint32_t to = edges_[f.edge++].to;
          if (!spins[to]) continue;
          if (order[to] == 0) {
            order[to] = low[to] = ++counter;
            stack.push_back(to);
            frames.push_back({to, first[to]});
          } else if (component[to] == 0) {
            low[f.state] = std::min(low[f.state], order[to]);
          }
          continue;
        }
        const std::uint32_t done = f.state;
        frames.pop_back();
        if (!frames.empty())
          low[frames.back().state] = std::min(low[frames.back().state], low[done]);
        if (low[done] != order[done]) continue;
        ++components;
        for (std::uint32_t s = kNobody; s != done;) {
          s = stack.back();
          stack.pop_back();
          component[s] = components;
        }
      }
    }
    return std::ranges::any_of(edges_, [&](const GraphEdge& e) {
      return e.writes && spins[e.from] && spins[e.to] && component[e.from] == component[e.to];
    });
  }

  void finish() {
    result_.states = store_.size();
    result_.bytes = store_.bytes() + machine_.bytes();
    for (const auto& [verdict, found] : first_) result_.faults.push_back(fault(verdict, found));
  }

  Fault fault(Verdict verdict, const Found& found) {
    std::vector<std::uint32_t> path = {found.state};
    while (store_.parent(path.back()) != kNobody) path.push_back(store_.parent(path.back()));
    std::ranges::reverse(path);
    Fault f{.verdict = verdict};
    std::vector<Transition> next;
    int last = -2;
    const auto take = [&](std::uint32_t choice) {
      const Transition& t = next[choice];
      f.choices.push_back(choice);
      f.schedule.push_back(machine_.lane_name(t.lane) + ": " + machine_.text_of(t));
      if (t.lane != last) ++f.switches;
      last = t.lane;
    };
    for (std::size_t i = 0; i < path.size(); ++i) {
      machine_.successors(store_.at(path[i]), next);
      if (i + 1 == path.size()) break;
      const State wanted = store_.at(path[i + 1]);
      // Of steps that lead there, one of the lane that acted last.
      std::uint32_t choice = kNobody;
      for (std::uint32_t k = 0; k < next.size(); ++k) {
        if (next[k].lane < 0 || next[k].next != wanted) continue;
        if (choice == kNobody || next[k].lane == last) choice = k;
      }
      take(choice);
    }
    if (found.choice) take(*found.choice);
    if (f.switches > 0) --f.switches;
    return f;
  }

  const Program& program_;
  const ExploreOptions& options_;
  const Weakening weakening_;
  Machine machine_;
  StateStore store_;
  std::vector<GraphEdge> edges_;
  std::vector<std::uint32_t> good_;
  std::vector<std::uint32_t> stuck_;
  std::map<Verdict, Found> first_;
  Exploration result_;
  bool is_reduced_ = false;
  std::uint32_t only_ = 0;
};

// Remembers 64 bits of each state's hash, and states only until they are expanded: for models whose
// states don't fit. Depth first, with the path at hand.
class CompactSearch {
 public:
  CompactSearch(const Program& program, const ExploreOptions& options)
      : program_(program), options_(options), machine_(program) {}

  Exploration run() && {
    struct Frame {
      State state;
      std::uint32_t next = 0;
    };
    std::vector<Frame> path;
    std::vector<Transition> next;
    bool is_whole = true;
    path.push_back({machine_.initial()});
    seen_.insert(hash(path[0].state));
    while (!path.empty()) {
      Frame& frame = path.back();
      machine_.successors(frame.state, next);
      if (frame.next == 0) look(frame.state, next);
      if (frame.next == next.size()) {
        path.pop_back();
        if (!choices_.empty()) choices_.pop_back();
        continue;
      }
      const std::uint32_t k = frame.next++;
      ++result_.transitions;
      if (next[k].fault) keep(*next[k].fault, k);
      if (next[k].lane < 0 || !seen_.insert(hash(next[k].next)).second) continue;
      if (seen_.size() > options_.most_states || seen_.size() * 16 > options_.most_bytes) {
        is_whole = false;
        break;
      }
      choices_.push_back(k);
      path.push_back({next[k].next});
    }
    result_.states = seen_.size();
    result_.bytes = seen_.size() * 16 + machine_.bytes();
    // Some two of n states fall on one of 2^64 values: at most n^2 / 2^65.
    const auto n = static_cast<double>(seen_.size());
    if (is_whole) result_.omission_probability = n * n / 36893488147419103232.0;
    for (auto& [verdict, fault] : faults_) result_.faults.push_back(std::move(fault));
    return std::move(result_);
  }

 private:
  std::uint64_t hash(const State& state) const {
    std::uint64_t h = 0x9E3779B97F4A7C15u;
    for (const std::uint32_t w : state) {
      h = (h ^ w) * 0xFF51AFD7ED558CCDu;
      h ^= h >> 32;
    }
    return h;
  }

  void look(const State& state, const std::vector<Transition>& next) {
    bool has_ended = true;
    for (std::size_t l = 0; l < program_.lanes.size(); ++l) {
      has_ended = has_ended && machine_.is_done(state, static_cast<int>(l));
    }
    const bool can_act = std::ranges::any_of(next, [](const Transition& t) { return !t.is_whim; });
    if (has_ended || can_act || machine_.has_fault(state)) return;
    keep(machine_.lacks_core(state) ? Verdict::kResidency : Verdict::kDeadlock, std::nullopt);
  }

  void keep(Verdict verdict, std::optional<std::uint32_t> last) {
    if (faults_.contains(verdict)) return;
    Fault fault{.verdict = verdict, .choices = choices_};
    if (last) fault.choices.push_back(*last);
    fault.schedule = schedule_of(program_, fault.choices).value();
    faults_.emplace(verdict, std::move(fault));
  }

  const Program& program_;
  const ExploreOptions& options_;
  Machine machine_;
  std::unordered_set<std::uint64_t> seen_;
  std::vector<std::uint32_t> choices_;
  std::map<Verdict, Fault> faults_;
  Exploration result_;
};

// Schedules taken at random, each thing that can happen as likely as any other.
Exploration explore_at_random(const Program& program, const ExploreOptions& options) {
  constexpr int kLongest = 100'000;
  Machine machine(program);
  Random random(options.seed, 1);
  std::map<Verdict, Fault> faults;
  Exploration result;
  std::vector<std::uint32_t> choices;
  const State initial = machine.initial();
  const auto keep = [&](Verdict verdict) {
    if (faults.contains(verdict)) return;
    Fault fault{.verdict = verdict, .choices = choices};
    fault.schedule = schedule_of(program, choices).value();
    faults.emplace(verdict, std::move(fault));
  };
  for (; result.schedules < options.random_schedules; ++result.schedules) {
    State state = initial;
    choices.clear();
    for (int step = 0; step < kLongest; ++step) {
      std::uint32_t taken = 0;
      std::optional<Verdict> fault;
      const auto choose = [&](std::uint32_t n) {
        return static_cast<std::uint32_t>(random.next_below(n));
      };
      if (!machine.take(state, choose, taken, fault)) {
        if (fault) keep(*fault);  // Of `finally`.
        bool has_ended = true;
        for (std::size_t l = 0; l < program.lanes.size(); ++l) {
          has_ended = has_ended && machine.is_done(state, static_cast<int>(l));
        }
        if (!has_ended && !machine.has_fault(state)) {
          keep(machine.lacks_core(state) ? Verdict::kResidency : Verdict::kDeadlock);
        }
        break;
      }
      ++result.transitions;
      choices.push_back(taken);
      if (fault) keep(*fault);
    }
  }
  for (auto& [verdict, fault] : faults) result.faults.push_back(std::move(fault));
  return result;
}

}  // namespace

Exploration explore(const Program& program, const ExploreOptions& options, Weakening weakening) {
  if (options.random_schedules > 0) return explore_at_random(program, options);
  if (options.hash_compact) return CompactSearch(program, options).run();
  return Search(program, options, weakening).run();
}

std::optional<std::vector<std::string>> schedule_of(const Program& program,
                                                    const std::vector<std::uint32_t>& choices) {
  Machine machine(program);
  State state = machine.initial();
  std::vector<Transition> next;
  std::vector<std::string> schedule;
  for (const std::uint32_t choice : choices) {
    machine.successors(state, next);
    if (choice >= next.size()) return std::nullopt;
    schedule.push_back(machine.lane_name(next[choice].lane) + ": " + machine.text_of(next[choice]));
    state = next[choice].next;
  }
  return schedule;
}

}  // namespace cohort::litmus
