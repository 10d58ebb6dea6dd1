#include "cohort/check/visibility.h"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cohort::check {
namespace {

using Kind = LaneEvent::Kind;

bool is_scalar(AccessKind kind) { return kind == AccessKind::kGet || kind == AccessKind::kPut; }
bool is_uncached(AccessKind kind) {
  return kind == AccessKind::kGetDevice || kind == AccessKind::kPutDevice ||
         kind == AccessKind::kAddDevice || kind == AccessKind::kAccumulate;
}
bool reads(const LaneEvent& e) { return e.kind == Kind::kAccess && reads_memory(e.access); }
bool writes(const LaneEvent& e) { return e.kind == Kind::kAccess && writes_memory(e.access); }

// A lane and a place in its sequence.
struct Place {
  std::size_t lane = 0;
  std::size_t index = 0;
  auto operator<=>(const Place&) const = default;
};

// What is wrong between two lanes in two phases; places of the first case are kept, bytes of all.
struct Key {
  Verdict verdict;
  std::string step;
  std::uint32_t tensor;
  std::size_t writer, reader;
  std::size_t writer_phase, reader_phase;
  auto operator<=>(const Key&) const = default;
};
struct Case {
  ByteSet bytes = {};
  std::int64_t writer_block = 0, reader_block = 0;
};

class Visibility {
 public:
  Visibility(const Graph& graph, const GridRecord& grid, MemoryModel memory)
      : graph_(graph), grid_(grid), memory_(memory), task_(graph.task(grid.task)) {
    order_lanes();
    for (std::size_t l = 0; l < grid_.lanes.size(); ++l) {
      for (std::size_t i = 0; i < grid_.lanes[l].size(); ++i) {
        const LaneEvent& e = grid_.lanes[l][i];
        if (writes(e)) writes_[e.tensor->id.value].push_back({l, i});
      }
    }
  }

  Report run() && {
    meetings();
    for (std::size_t l = 0; l < grid_.lanes.size(); ++l) {
      for (std::size_t i = 0; i < grid_.lanes[l].size(); ++i) {
        const LaneEvent& e = grid_.lanes[l][i];
        if (reads(e)) check_read({l, i});
        if (writes(e)) check_write({l, i});
        if (e.kind == Kind::kClean) check_clean({l, i});
        if (e.kind == Kind::kInvalidate) check_invalidate({l, i});
      }
    }
    check_precondition();
    return report();
  }

 private:
  const LaneEvent& at(Place p) const { return grid_.lanes[p.lane][p.index]; }

  // clocks_[lane]: per leave, its index and, per lane, how many of that lane's events come before
  // it.
  struct Leave {
    std::size_t index;
    std::vector<std::size_t> known;
  };

  void order_lanes() {
    const std::size_t lanes = grid_.lanes.size();
    clocks_.resize(lanes);
    std::vector<std::vector<std::size_t>> known(lanes, std::vector<std::size_t>(lanes, 0));
    for (std::size_t k = 0; k < task_.bound.meetings.size(); ++k) {
      std::vector<std::size_t> joined(lanes, 0);
      std::vector<std::pair<std::size_t, std::size_t>> leaves;
      for (std::size_t l = 0; l < lanes; ++l) {
        for (std::size_t i = 0; i < grid_.lanes[l].size(); ++i) {
          const LaneEvent& e = grid_.lanes[l][i];
          if (e.barrier != k) continue;
          if (e.kind == Kind::kArrive) {
            known[l][l] = i;
            for (std::size_t o = 0; o < lanes; ++o) joined[o] = std::max(joined[o], known[l][o]);
          } else if (e.kind == Kind::kLeave) {
            leaves.emplace_back(l, i);
          }
        }
      }
      for (const auto& [lane, index] : leaves) {
        for (std::size_t o = 0; o < lanes; ++o)
          known[lane][o] = std::max(known[lane][o], joined[o]);
        clocks_[lane].push_back({index, known[lane]});
      }
    }
  }

  // Whether `a` comes before `b` in every interleaving.
  bool before(Place a, Place b) const {
    if (a.lane == b.lane) return a.index < b.index;
    const auto& leaves = clocks_[b.lane];
    const Leave* last = nullptr;
    for (const Leave& leave : leaves) {
      if (leave.index < b.index) last = &leave;
    }
    return last != nullptr && a.index < last->known[a.lane];
  }

  // The first event of a kind after a place, in its lane, that `pick` takes; or none.
  template <class Pick>
  std::optional<std::size_t> next(Place p, Kind kind, Pick pick) const {
    const auto& events = grid_.lanes[p.lane];
    for (std::size_t i = p.index + 1; i < events.size(); ++i) {
      if (events[i].kind == kind && pick(events[i])) return i;
    }
    return std::nullopt;
  }
  std::optional<std::size_t> next(Place p, Kind kind) const {
    return next(p, kind, [](const LaneEvent&) { return true; });
  }

  void add(Verdict verdict, const std::string& step, Place writer, Place reader,
           const ByteSet& bytes) {
    const LaneEvent& w = at(writer);
    const LaneEvent& r = at(reader);
    const Tensor* tensor = r.tensor != nullptr ? r.tensor : w.tensor;
    Case& c = cases_
                  .try_emplace(
                      {verdict, step, tensor->id.value, writer.lane, reader.lane, w.phase, r.phase},
                      Case{{}, w.block, r.block})
                  .first->second;
    c.bytes.add(bytes);
  }

  // Who wrote the bytes that a read is to see: the writes before it that no other write between
  // them covers.
  void check_read(Place r) {
    const LaneEvent& read = at(r);
    const auto found = writes_.find(read.tensor->id.value);
    struct Candidate {
      Place place;
      ByteSet bytes;
    };
    std::vector<Candidate> earlier;
    ByteSet written;
    if (found != writes_.end()) {
      for (const Place w : found->second) {
        if (!at(w).bytes.meets(read.bytes)) continue;
        ++pairs_;
        if (before(w, r)) {
          earlier.push_back({w, at(w).bytes.intersection(read.bytes)});
          written.add(earlier.back().bytes);
        } else if (w.lane != r.lane && !before(r, w)) {
          add(Verdict::kRace, "a barrier between them", w, r, at(w).bytes.intersection(read.bytes));
        }
      }
    }
    check_initialised(r, written);
    for (const Candidate& c : earlier) {
      if (c.place.lane == r.lane) continue;
      ByteSet bytes = c.bytes;
      for (const Candidate& later : earlier) {
        if (before(c.place, later.place)) bytes = bytes.without(later.bytes);
      }
      if (!bytes.empty()) check_seen(c.place, r, bytes);
    }
  }

  void check_initialised(Place r, const ByteSet& written) {
    const LaneEvent& read = at(r);
    for (const OperandUse& use : task_.operands) {
      if (use.region.tensor != read.tensor->id || use.direction != Direction::kOut) continue;
      ByteSet operand;
      operand.add(use.region);
      const ByteSet missing = read.bytes.intersection(operand).without(written);
      if (!missing.empty()) add(Verdict::kUninitialisedRead, "a write before it", r, r, missing);
    }
  }

  void check_seen(Place w, Place r, const ByteSet& bytes) {
    const LaneEvent& write = at(w);
    const LaneEvent& read = at(r);
    const bool through_cache = is_scalar(write.access);
    const bool needs_clean =
        through_cache || (memory_ == MemoryModel::kStrict && !is_uncached(write.access));
    const bool needs_drain = !through_cache && !is_uncached(write.access);
    const bool needs_acquire =
        is_scalar(read.access) || (memory_ == MemoryModel::kStrict && !is_uncached(read.access));
    const ByteSet lines = bytes.rounded_to_lines();

    // Lines by the fence that publishes them, nearest first.
    ByteSet unpublished = lines;
    std::string why = "publish";
    std::vector<std::pair<std::size_t, ByteSet>> published;  // Fence, lines.
    std::size_t from = w.index;
    if (needs_drain) {
      const auto drain = next(w, Kind::kDrain);
      if (!drain || !before({w.lane, *drain}, r)) {
        add(Verdict::kStaleRead, "drain: the store is in flight", w, r, bytes);
        return;
      }
      from = *drain;
    }
    if (needs_clean) {
      const auto& events = grid_.lanes[w.lane];
      for (std::size_t i = from + 1; i < events.size() && !unpublished.empty(); ++i) {
        const LaneEvent& e = events[i];
        if (e.kind != Kind::kClean || e.tensor != write.tensor || !e.bytes.meets(unpublished))
          continue;
        const auto fence = next({w.lane, i}, Kind::kFence);
        if (!fence || !before({w.lane, *fence}, r)) {
          if (before({w.lane, i}, r)) why = "fence after the clean";
          continue;
        }
        published.emplace_back(*fence, e.bytes.intersection(unpublished));
        unpublished = unpublished.without(e.bytes);
      }
    } else {
      const auto fence =
          is_uncached(write.access) ? std::optional(w.index) : next({w.lane, from}, Kind::kFence);
      if (fence && before({w.lane, *fence}, r)) {
        published.emplace_back(*fence, unpublished);
        unpublished = {};
      } else {
        why = "fence after the drain";
      }
    }
    if (!unpublished.empty()) {
      add(Verdict::kStaleRead, why, w, r, bytes.intersection(unpublished));
    }
    if (!needs_acquire) return;
    // Of the drops of a line before the read the last one decides: it must come after the publish.
    for (const auto& [fence, fenced_lines] : published) {
      ByteSet stale = fenced_lines;
      const auto& events = grid_.lanes[r.lane];
      for (std::size_t i = r.index; i-- > 0 && !stale.empty();) {
        const LaneEvent& e = events[i];
        if (e.kind != Kind::kInvalidate || e.tensor != read.tensor) continue;
        if (before({w.lane, fence}, {r.lane, i})) stale = stale.without(e.bytes);
      }
      if (!stale.empty()) add(Verdict::kStaleRead, "acquire", w, r, bytes.intersection(stale));
    }
  }

  void check_write(Place w) {
    const LaneEvent& write = at(w);
    for (const Place other : writes_.at(write.tensor->id.value)) {
      if (other.lane == w.lane) continue;
      const LaneEvent& o = at(other);
      if (other < w && o.bytes.meets(write.bytes) && !before(other, w) && !before(w, other) &&
          !(is_uncached(o.access) && is_uncached(write.access))) {
        add(Verdict::kRace, "a barrier between them", other, w, o.bytes.intersection(write.bytes));
      }
      if (write.access == AccessKind::kPut) check_write_back(w, other);
    }
  }

  // A line is dirty from the fetch before the put to the clean after it; its write-back, at any
  // time between, is of the whole line.
  void check_write_back(Place put, Place other) {
    const LaneEvent& p = at(put);
    const ByteSet shared =
        p.bytes.rounded_to_lines().intersection(at(other).bytes.rounded_to_lines());
    if (shared.empty()) return;
    std::optional<std::size_t> fetch;
    for (std::size_t i = put.index; i-- > 0;) {
      const LaneEvent& e = grid_.lanes[put.lane][i];
      if (e.kind == Kind::kInvalidate && e.tensor == p.tensor && e.bytes.meets(shared)) {
        fetch = i;
        break;
      }
    }
    const auto clean = next(put, Kind::kClean, [&](const LaneEvent& e) {
      return e.tensor == p.tensor && e.bytes.contains(shared);
    });
    const auto fence = clean ? next({put.lane, *clean}, Kind::kFence) : std::nullopt;
    const bool is_after = fence && before({put.lane, *fence}, other);
    const bool is_before = fetch && before(other, {put.lane, *fetch});
    if (!is_after && !is_before) {
      add(Verdict::kLostUpdate, "lines of their own, or stores that write no whole line", put,
          other, at(other).bytes.intersection(shared));
    }
  }

  void check_clean(Place p) {
    const LaneEvent& clean = at(p);
    ByteSet own;
    for (std::size_t i = 0; i < p.index; ++i) {
      const LaneEvent& e = grid_.lanes[p.lane][i];
      if (writes(e) && e.tensor == clean.tensor) own.add(e.bytes.rounded_to_lines());
    }
    const ByteSet foreign = clean.bytes.without(own);
    const auto found = writes_.find(clean.tensor->id.value);
    if (foreign.empty() || found == writes_.end()) return;
    for (const Place w : found->second) {
      if (w.lane == p.lane || !at(w).bytes.meets(foreign)) continue;
      add(Verdict::kForeignLine, "a range of the lane's own lines", w, p,
          at(w).bytes.rounded_to_lines().intersection(foreign));
    }
  }

  // A drop of a line that this lane has dirtied since it was last clean.
  void check_invalidate(Place p) {
    const LaneEvent& drop = at(p);
    ByteSet dirty;
    std::size_t last = 0;
    for (std::size_t i = 0; i < p.index; ++i) {
      const LaneEvent& e = grid_.lanes[p.lane][i];
      if (e.tensor != drop.tensor) continue;
      if (e.kind == Kind::kAccess && e.access == AccessKind::kPut) {
        dirty.add(e.bytes);
        last = i;
      }
      if (e.kind == Kind::kClean) dirty = dirty.without(e.bytes);
    }
    const ByteSet lost = dirty.intersection(drop.bytes);
    if (!lost.empty())
      add(Verdict::kLostUpdate, "a clean before the drop", {p.lane, last}, p, lost);
  }

  const LaneEvent* find(std::size_t lane, Kind kind, std::size_t barrier) const {
    for (const LaneEvent& e : grid_.lanes[lane]) {
      if (e.kind == kind && e.barrier == barrier) return &e;
    }
    return nullptr;
  }

  void meetings() {
    const std::vector<BoundMeeting>& meetings = task_.bound.meetings;
    for (std::size_t k = 0; k < meetings.size(); ++k) {
      std::vector<std::size_t> missing;
      for (std::size_t l = 0; l < grid_.lanes.size(); ++l) {
        const LaneEvent* arrive = find(l, Kind::kArrive, k);
        const LaneEvent* leave = find(l, Kind::kLeave, k);
        const bool takes_part = static_cast<std::int64_t>(l) < meetings[k].participants;
        if (takes_part && arrive == nullptr) missing.push_back(l);
        if (leave != nullptr && (arrive == nullptr || leave->gave_up)) {
          lane_finding(
              Verdict::kIncompleteBarrier, k,
              arrive == nullptr
                  ? fmt::format("lane {} goes past barrier {} without arriving", l, k)
                  : fmt::format("lane {} gives up waiting at barrier {} and goes on with what "
                                "the others have not published",
                                l, k),
              "arrive, and wait for all participants");
        }
      }
      words(k);
      const std::int64_t cores =
          meetings[k].expected - static_cast<std::int64_t>(grid_.lanes.size());
      if (task_.bound.barrier == Barrier::kHard && cores > 0) {
        lane_finding(
            Verdict::kDeadlock, k,
            fmt::format("barrier {} counts {} cores and the grid has {} lanes: {} arrivals can "
                        "never come",
                        k, meetings[k].expected, grid_.lanes.size(), cores),
            fmt::format("launch {} lanes, or use a slot or counter barrier", meetings[k].expected));
      }
      for (const std::size_t l : missing) {
        for (std::size_t later = k + 1; later < meetings.size(); ++later) {
          if (find(l, Kind::kArrive, later) == nullptr) continue;
          lane_finding(
              Verdict::kDivergence, k,
              fmt::format("lane {} comes to barrier {} without barrier {}, which the other lanes "
                          "take: they decide differently how often to meet",
                          l, later, k),
              "let every lane take the same path to a barrier");
          break;
        }
      }
      if (!missing.empty()) {
        lane_finding(
            Verdict::kDeadlock, k,
            fmt::format("lanes that wait at barrier {} wait for ever: lane {} never arrives", k,
                        fmt::join(missing, ", ")),
            "make every participant reach the barrier, also with nothing to do");
      }
    }
  }

  // Where each lane counts its arrival, against the words that its index gives it.
  void words(std::size_t k) {
    if (task_.bound.barrier == Barrier::kHard) return;
    const std::int64_t end = task_.bound.workspace.row_count * task_.bound.workspace.col_count;
    const std::int64_t first = task_.bound.meetings[k].first_word;
    std::map<std::int64_t, std::vector<std::size_t>> users;
    for (std::size_t l = 0; l < grid_.lanes.size(); ++l) {
      const LaneEvent* arrive = find(l, Kind::kArrive, k);
      if (arrive == nullptr) continue;
      users[arrive->word].push_back(l);
      if (arrive->word < 0 || arrive->word >= end) {
        lane_finding(
            Verdict::kLayout, k,
            fmt::format("lane {} counts its arrival in word {} of a workspace of {} words; its "
                        "own is word {}",
                        l, arrive->word, end, first + 8 * static_cast<std::int64_t>(l)),
            "use one slot stride, of 8 words, in the kernel and in the launch");
      }
    }
    if (task_.bound.barrier != Barrier::kSlot) return;
    for (const auto& [word, lanes] : users) {
      const std::int64_t owner = (word - first) / 8;
      if (lanes.size() > 1 || (word < end && static_cast<std::size_t>(owner) != lanes.front())) {
        lane_finding(
            Verdict::kIdentity, k,
            fmt::format("slot {} counts the arrivals of lane {}: a lane isn't known by its dense "
                        "logical index",
                        owner, fmt::join(lanes, ", ")),
            "take the lane's index from the launch, never from the core");
      }
    }
  }

  void lane_finding(Verdict verdict, std::size_t barrier, std::string cause, std::string advice) {
    Finding f{.verdict = verdict, .rule = "visibility/barrier"};
    f.cause = std::move(cause);
    f.evidence = {{"barrier", fmt::format("{}, after phase \"{}\"", barrier,
                                          task_.bound.phases[barrier].body.info.name)}};
    f.advice = std::move(advice);
    f.location = where();
    findings_.push_back(std::move(f));
  }

  // A body that declares its regions takes addresses from data: one run stands for all
  // interleavings only if no lane of this grid writes that data.
  void check_precondition() {
    for (std::size_t l = 0; l < grid_.lanes.size(); ++l) {
      for (std::size_t i = 0; i < grid_.lanes[l].size(); ++i) {
        const LaneEvent& e = grid_.lanes[l][i];
        if (!reads(e) || task_.bound.phases[e.phase].body.region == nullptr) continue;
        if (e.access != AccessKind::kGet && e.access != AccessKind::kGetDevice) continue;
        const auto found = writes_.find(e.tensor->id.value);
        if (found == writes_.end()) continue;
        for (const Place w : found->second) {
          if (w.lane != l && at(w).bytes.meets(e.bytes)) {
            add(Verdict::kUnknown, "addresses that no other lane's writes decide", w, {l, i},
                e.bytes);
          }
        }
      }
    }
  }

  std::string where() const {
    return fmt::format("graph {}, task #{} \"{}\"", graph_.name(), task_.id.value, task_.name);
  }
  std::string who(std::size_t lane, std::size_t phase, std::int64_t block) const {
    return fmt::format("lane {}, phase {} \"{}\", block {}", lane, phase,
                       task_.bound.phases[phase].body.info.name, block);
  }

  Finding finding(const Key& key, const Case& c) const {
    const Tensor& tensor = graph_.tensors()[key.tensor];
    Finding f{.verdict = key.verdict};
    f.rule = fmt::format("visibility/{}", word(key.verdict));
    f.location = where();
    const std::string writer = who(key.writer, key.writer_phase, c.writer_block);
    const std::string reader = who(key.reader, key.reader_phase, c.reader_block);
    switch (key.verdict) {
      case Verdict::kStaleRead:
        f.cause =
            fmt::format("lane {} may read old bytes of tensor \"{}\" that lane {} wrote: no {}",
                        key.reader, tensor.name, key.writer, key.step);
        f.timeline = {fmt::format("{} writes", writer),
                      fmt::format("a barrier orders the two; missing: {}", key.step),
                      fmt::format("{} reads", reader)};
        break;
      case Verdict::kRace:
        f.cause = fmt::format(
            "lanes {} and {} touch the same bytes of tensor \"{}\", and no barrier "
            "orders them",
            key.writer, key.reader, tensor.name);
        break;
      case Verdict::kForeignLine:
        f.cause =
            fmt::format("lane {} cleans lines of tensor \"{}\" that lane {} writes and it doesn't",
                        key.reader, tensor.name, key.writer);
        break;
      case Verdict::kLostUpdate:
        f.cause = key.writer == key.reader
                      ? fmt::format("lane {} drops a line of tensor \"{}\" that it has dirtied",
                                    key.reader, tensor.name)
                      : fmt::format(
                            "lane {}'s write-back of a whole line of tensor \"{}\" may undo bytes "
                            "that lane {} writes",
                            key.writer, tensor.name, key.reader);
        break;
      case Verdict::kUninitialisedRead:
        f.cause = fmt::format("lane {} reads bytes of tensor \"{}\" that nobody wrote", key.reader,
                              tensor.name);
        break;
      default:
        f.cause = fmt::format(
            "where lane {} reads tensor \"{}\" depends on bytes that lane {} writes in "
            "the same grid: one run doesn't stand for all",
            key.reader, tensor.name, key.writer);
    }
    if (key.writer != key.reader) f.evidence.push_back({"writer", writer});
    f.evidence.push_back({key.verdict == Verdict::kForeignLine ? "cleaner" : "reader", reader});
    f.evidence.push_back({"bytes", fmt::format("{} of {}", to_string(c.bytes), tensor.name)});
    f.evidence.push_back({"missing", key.step});
    return f;
  }

  Report report() {
    Report report{.subject = where()};
    report.findings = std::move(findings_);
    Verdict verdict = report.findings.empty() ? Verdict::kPass : report.findings.front().verdict;
    for (const auto& [key, c] : cases_) {
      if (verdict == Verdict::kPass) verdict = key.verdict;
      report.findings.push_back(finding(key, c));
    }
    std::size_t events = 0;
    for (const auto& lane : grid_.lanes) events += lane.size();
    report.properties.push_back(
        {.name = fmt::format("every lane sees what others wrote before it ({})",
                             memory_ == MemoryModel::kStrict ? "strict" : "dma"),
         .verdict = verdict,
         .examined = fmt::format("{} events of {} lanes, {} pairs of a write and a read", events,
                                 grid_.lanes.size(), pairs_)});
    return report;
  }

  const Graph& graph_;
  const GridRecord& grid_;
  MemoryModel memory_;
  const Task& task_;
  std::vector<std::vector<Leave>> clocks_;
  std::map<std::uint32_t, std::vector<Place>> writes_;  // By tensor.
  std::map<Key, Case> cases_;
  std::vector<Finding> findings_;
  std::int64_t pairs_ = 0;
};

}  // namespace

Report check_visibility(const Graph& graph, const GridRecord& grid, MemoryModel memory) {
  return Visibility(graph, grid, memory).run();
}

}  // namespace cohort::check
