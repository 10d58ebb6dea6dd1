#include "cohort/check/visibility.h"

#include <algorithm>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/random.h"

#include "test_kernels.h"

namespace cohort::check {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using Kind = LaneEvent::Kind;

class VisibilityTest : public testing::Test {
 protected:
  explicit VisibilityTest(const KernelRef& kernel = square_sum()) {
    s.submit(kernel);
    EXPECT_TRUE(s.graph.validate()) << s.graph.validate().error().message;
    grid = *record_graph(s.graph).tasks[0].grid;
  }

  Report check(MemoryModel memory = MemoryModel::kStrict) {
    return check_visibility(s.graph, grid, memory);
  }
  // Removes the events that `pick` takes.
  template <class Pick>
  void remove(Pick pick) {
    for (std::size_t l = 0; l < grid.lanes.size(); ++l) {
      std::erase_if(grid.lanes[l], [&](const LaneEvent& e) { return pick(l, e); });
    }
  }
  std::set<std::string> causes(const Report& report) {
    std::set<std::string> all;
    for (const Finding& f : report.findings)
      all.insert(std::string(word(f.verdict)) + ": " + f.cause);
    return all;
  }
  std::size_t index_of(std::size_t lane, Kind kind) {
    const auto& events = grid.lanes[lane];
    return static_cast<std::size_t>(std::ranges::find(events, kind, &LaneEvent::kind) -
                                    events.begin());
  }

  SquareSum s;
  GridRecord grid;
};

TEST_F(VisibilityTest, IsSilentOnAGridAsItIsDerived) {
  for (const MemoryModel memory : {MemoryModel::kStrict, MemoryModel::kDma}) {
    const Report report = check(memory);
    EXPECT_THAT(report.findings, IsEmpty());
    // 8 lanes read rows that 8 lanes wrote by columns.
    EXPECT_THAT(report.properties[0].examined, HasSubstr("64 pairs of a write and a read"));
  }
}

TEST_F(VisibilityTest, AMissingPublishIsAStaleReadOfEveryLaneThatReads) {
  remove([](std::size_t lane, const LaneEvent& e) {
    return lane == 3 && e.kind == Kind::kClean && e.tensor->name == "y";
  });
  const Report report = check();
  ASSERT_EQ(report.findings.size(), 7u);
  const Finding& f = report.findings[0];
  EXPECT_EQ(f.verdict, Verdict::kStaleRead);
  EXPECT_EQ(f.cause, "lane 0 may read old bytes of tensor \"y\" that lane 3 wrote: no publish");
  EXPECT_EQ(f.evidence[0].text, "lane 3, phase 0 \"square\", block 3");
  EXPECT_EQ(f.evidence[1].text, "lane 0, phase 1 \"row_sum\", block 0");
  EXPECT_EQ(f.evidence[2].text, "[192, 256) of y");
  EXPECT_THAT(check(MemoryModel::kDma).findings, IsEmpty()) << "tile stores need no clean";
}

TEST_F(VisibilityTest, AMissingAcquireIsAStaleReadOfThatLane) {
  remove([](std::size_t lane, const LaneEvent& e) {
    return lane == 5 && e.kind == Kind::kInvalidate;
  });
  const auto all = causes(check());
  EXPECT_EQ(all.size(), 7u);
  EXPECT_TRUE(all.contains(
      "stale-read: lane 5 may read old bytes of tensor \"y\" that lane 0 wrote: no acquire"));
  EXPECT_THAT(check(MemoryModel::kDma).findings, IsEmpty()) << "tile loads read memory";
}

TEST_F(VisibilityTest, AStoreMustBeDrainedAndFencedUnderBothModels) {
  const GridRecord whole = grid;
  grid.lanes[2].erase(grid.lanes[2].begin() +
                      static_cast<std::ptrdiff_t>(index_of(2, Kind::kDrain)));
  for (const MemoryModel memory : {MemoryModel::kStrict, MemoryModel::kDma}) {
    EXPECT_TRUE(causes(check(memory))
                    .contains("stale-read: lane 7 may read old bytes of tensor \"y\" that "
                              "lane 2 wrote: no drain: the store is in flight"));
  }
  grid = whole;
  grid.lanes[2].erase(grid.lanes[2].begin() +
                      static_cast<std::ptrdiff_t>(index_of(2, Kind::kFence)));
  EXPECT_TRUE(
      causes(check()).contains("stale-read: lane 7 may read old bytes of tensor \"y\" that lane 2 "
                               "wrote: no fence after the clean"));
  EXPECT_TRUE(
      causes(check(MemoryModel::kDma))
          .contains("stale-read: lane 7 may read old bytes of tensor \"y\" that lane 2 wrote: no "
                    "fence after the drain"));
}

TEST_F(VisibilityTest, AnAcquireBeforeTheBarrierIsNone) {
  auto& events = grid.lanes[1];
  const std::size_t drop = index_of(1, Kind::kInvalidate);
  const LaneEvent event = events[drop];
  events.erase(events.begin() + static_cast<std::ptrdiff_t>(drop));
  events.insert(events.begin() + static_cast<std::ptrdiff_t>(index_of(1, Kind::kArrive)), event);
  EXPECT_EQ(causes(check()).size(), 7u);
}

TEST_F(VisibilityTest, PublishingOnlyTheFirstLineLeavesTheOthers) {
  for (LaneEvent& e : grid.lanes[0]) {
    if (e.kind != Kind::kClean || e.tensor->name != "y") continue;
    const ByteSet::Interval first = e.bytes.intervals().front();
    e.bytes = {};
    e.bytes.add(ByteSet::Interval{first.begin, first.begin + kLineBytes});
  }
  const Report report = check();
  ASSERT_EQ(report.findings.size(), 7u)
      << "lane 0 wrote a line of each row; lane 0 reads row 0 itself";
  EXPECT_EQ(report.findings[0].evidence[2].text, "[512, 576) of y");
}

TEST_F(VisibilityTest, ARangeOverOtherLanesLinesIsForeign) {
  for (LaneEvent& e : grid.lanes[6]) {
    if (e.kind != Kind::kClean || e.tensor->name != "y") continue;
    const auto& intervals = e.bytes.intervals();
    const ByteSet::Interval hull{intervals.front().begin, intervals.back().end};
    e.bytes.add(hull);
  }
  const auto all = causes(check());
  EXPECT_EQ(all.size(), 7u);
  EXPECT_TRUE(all.contains(
      "foreign-line: lane 6 cleans lines of tensor \"y\" that lane 0 writes and it doesn't"));
}

TEST_F(VisibilityTest, ALaneThatLeavesEarlyOrNeverArrives) {
  remove([](std::size_t lane, const LaneEvent& e) { return lane == 4 && e.kind == Kind::kArrive; });
  const auto all = causes(check());
  EXPECT_TRUE(
      all.contains("deadlock: lanes that wait at barrier 0 wait for ever: lane 4 never arrives"));
  EXPECT_TRUE(all.contains("incomplete-barrier: lane 4 goes past barrier 0 without arriving"));
}

TEST_F(VisibilityTest, WithoutABarrierTheLanesRace) {
  remove([](std::size_t, const LaneEvent& e) {
    return e.kind == Kind::kArrive || e.kind == Kind::kLeave;
  });
  EXPECT_TRUE(causes(check()).contains(
      "race: lanes 0 and 1 touch the same bytes of tensor \"y\", and no barrier orders them"));
}

TEST_F(VisibilityTest, BytesThatNobodyWroteAreUninitialised) {
  remove([](std::size_t lane, const LaneEvent& e) {
    return lane == 2 && e.phase == 0 && e.kind == Kind::kAccess;
  });
  const auto all = causes(check());
  EXPECT_TRUE(
      all.contains("uninitialised-read: lane 0 reads bytes of tensor \"y\" that nobody wrote"));
}

TEST_F(VisibilityTest, DroppingADirtyLineLosesIt) {
  auto& events = grid.lanes[3];
  const auto put = std::ranges::find(events, AccessKind::kPut, &LaneEvent::access);
  ASSERT_NE(put, events.end());
  LaneEvent drop{
      .kind = Kind::kInvalidate, .tensor = put->tensor, .bytes = put->bytes.rounded_to_lines()};
  events.insert(put + 1, drop);
  EXPECT_TRUE(causes(check()).contains(
      "lost-update: lane 3 drops a line of tensor \"z\" that it has dirtied"));
}

TEST_F(VisibilityTest, LanesThatShareALineThroughTheCacheUndoEachOther) {
  // z with four bytes a row: eight lanes put into one line.
  for (auto& lane : grid.lanes) {
    for (LaneEvent& e : lane) {
      if (e.tensor != nullptr && e.tensor->name == "z") {
        ByteSet moved;
        const std::int64_t row = e.bytes.intervals().front().begin / 64;
        const std::int64_t size = e.kind == Kind::kAccess ? 4 : 64;
        const std::int64_t begin = e.kind == Kind::kAccess ? 4 * row : 0;
        moved.add(ByteSet::Interval{begin, begin + size});
        e.bytes = moved;
      }
    }
  }
  EXPECT_TRUE(causes(check()).contains(
      "lost-update: lane 0's write-back of a whole line of tensor \"z\" may "
      "undo bytes that lane 1 writes"));
}

class HardVisibilityTest : public VisibilityTest {
 protected:
  HardVisibilityTest() : VisibilityTest(square_sum({.barrier = Barrier::kHard})) {}
};

TEST_F(HardVisibilityTest, AHardBarrierOfAllCoresIsSilentAndOfSomeADeadlock) {
  EXPECT_THAT(check().findings, IsEmpty());
  SquareSum few;
  few.submit(square_sum({.barrier = Barrier::kHard}), {.sync_start = true, .lanes = 8});
  const Report report =
      check_visibility(few.graph, *record_graph(few.graph).tasks[0].grid, MemoryModel::kStrict);
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].verdict, Verdict::kDeadlock);
  EXPECT_EQ(report.findings[0].cause,
            "barrier 0 counts 48 cores and the grid has 8 lanes: 40 arrivals can never come");
}

// ---- Against an enumerator of all interleavings ------------------------------------------------

// One step of a lane over two lines; tile stores and loads of whole lines.
struct Step {
  Kind kind;
  int line = 0;        // Of a store, load, clean or invalidate.
  bool store = false;  // Of an access.
  int phase = 0;
};
using Program = std::vector<std::vector<Step>>;

// Tries every interleaving on the machine of the strict model: a load may return any value that its
// line had in memory since its lane dropped it; a store is in memory once it is drained, cleaned
// and fenced, in that order. Whether some load can miss a store of an earlier phase.
class Enumerator {
 public:
  explicit Enumerator(const Program& program) : program_(program) {
    for (std::size_t l = 0; l < program.size(); ++l) {
      for (std::size_t i = 0; i < program[l].size(); ++i) {
        if (program[l][i].kind == Kind::kAccess && program[l][i].store) stores_.push_back({l, i});
      }
    }
    State start;
    start.pc.assign(program.size(), 0);
    start.stage.assign(stores_.size(), 0);
    start.snapshot.assign(program.size() * 2, 0);
    visit(start);
  }
  bool stale() const { return stale_; }

 private:
  struct State {
    std::vector<std::size_t> pc;
    std::vector<int> stage;  // 1 issued, 2 drained, 3 cleaned, 4 in memory.
    std::vector<std::uint32_t>
        snapshot;  // Per lane and line: stores in memory when it was dropped.
    auto operator<=>(const State&) const = default;
  };

  void visit(const State& state) {
    if (stale_ || !seen_.insert(state).second) return;
    for (std::size_t l = 0; l < program_.size(); ++l) {
      if (state.pc[l] == program_[l].size()) continue;
      const Step& step = program_[l][state.pc[l]];
      if (step.kind == Kind::kLeave && !all_arrived(state)) continue;
      State next = state;
      ++next.pc[l];
      apply(next, l, step, state.pc[l]);
      visit(next);
    }
  }

  bool all_arrived(const State& state) const {
    for (std::size_t l = 0; l < program_.size(); ++l) {
      const auto& steps = program_[l];
      const auto arrive = std::ranges::find(steps, Kind::kArrive, &Step::kind) - steps.begin();
      if (static_cast<std::ptrdiff_t>(state.pc[l]) <= arrive) return false;
    }
    return true;
  }

  void apply(State& s, std::size_t lane, const Step& step, std::size_t index) {
    for (std::size_t i = 0; i < stores_.size(); ++i) {
      const auto [owner, at] = stores_[i];
      if (owner != lane) continue;
      const Step& store = program_[owner][at];
      if (at == index) s.stage[i] = 1;
      if (step.kind == Kind::kDrain && s.stage[i] == 1) s.stage[i] = 2;
      if (step.kind == Kind::kClean && s.stage[i] == 2 && store.line == step.line) s.stage[i] = 3;
      if (step.kind == Kind::kFence && s.stage[i] == 3) s.stage[i] = 4;
    }
    if (step.kind == Kind::kInvalidate) {
      std::uint32_t in_memory = 0;
      for (std::size_t i = 0; i < stores_.size(); ++i)
        in_memory |= (s.stage[i] == 4 ? 1u : 0u) << i;
      s.snapshot[2 * lane + static_cast<std::size_t>(step.line)] = in_memory;
    }
    if (step.kind == Kind::kAccess && !step.store) {
      for (std::size_t i = 0; i < stores_.size(); ++i) {
        const Step& store = program_[stores_[i].first][stores_[i].second];
        const bool must_see =
            stores_[i].first != lane && store.line == step.line && store.phase < step.phase;
        const std::uint32_t seen = s.snapshot[2 * lane + static_cast<std::size_t>(step.line)];
        if (must_see && (seen >> i & 1u) == 0) stale_ = true;
      }
    }
  }

  const Program& program_;
  std::vector<std::pair<std::size_t, std::size_t>> stores_;
  std::set<State> seen_;
  bool stale_ = false;
};

TEST(VisibilityOracle, AgreesWithEveryInterleavingAfterAnyStepIsRemoved) {
  SquareSum s;
  s.submit(square_sum({.lanes = 3}));
  const Task& task = s.graph.task({0});
  ASSERT_EQ(task.bound.lanes, 3);
  std::map<Kind, std::pair<int, int>> removals;  // By kind: how many, how many that mattered.
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    Random random(seed, 9);
    const auto below = [&](std::uint64_t n) { return static_cast<int>(random.next_below(n)); };
    // Who writes each line in phase 0, and which lines each lane reads in phase 1.
    const int writers[2] = {below(3), below(3)};
    Program program(3);
    for (int l = 0; l < 3; ++l) {
      auto& steps = program[static_cast<std::size_t>(l)];
      std::vector<int> mine;
      for (int line = 0; line < 2; ++line) {
        if (writers[line] == l) mine.push_back(line);
      }
      for (const int line : mine) steps.push_back({Kind::kAccess, line, true, 0});
      steps.push_back({Kind::kDrain});
      for (const int line : mine) steps.push_back({Kind::kClean, line});
      steps.push_back({Kind::kFence});
      steps.push_back({Kind::kArrive});
      steps.push_back({Kind::kLeave});
      const int read = below(4);
      for (int line = 0; line < 2; ++line) {
        if ((read >> line & 1) != 0) steps.push_back({Kind::kInvalidate, line});
      }
      steps.push_back({Kind::kFence});
      for (int line = 0; line < 2; ++line) {
        if ((read >> line & 1) != 0) steps.push_back({Kind::kAccess, line, false, 1});
      }
    }
    const Kind kinds[] = {Kind::kDrain, Kind::kClean, Kind::kFence, Kind::kInvalidate};
    const Kind removed = kinds[below(4)];
    bool is_removed = false;
    if (below(8) != 0) {
      auto& steps = program[static_cast<std::size_t>(below(3))];
      const auto it = std::ranges::find(steps, removed, &Step::kind);
      if (it != steps.end()) {
        steps.erase(it);
        is_removed = true;
      }
    }
    GridRecord grid{.task = {0}};
    for (const auto& steps : program) {
      auto& events = grid.lanes.emplace_back();
      for (const Step& step : steps) {
        LaneEvent e{.kind = step.kind,
                    .access = step.store ? AccessKind::kStore : AccessKind::kLoad,
                    .tensor = s.y.tensor,
                    .phase = static_cast<std::size_t>(step.phase)};
        e.bytes.add(ByteSet::Interval{64 * step.line, 64 * step.line + 64});
        events.push_back(e);
      }
    }
    const Report report = check_visibility(s.graph, grid, MemoryModel::kStrict);
    const bool found = std::ranges::any_of(
        report.findings, [](const Finding& f) { return f.verdict == Verdict::kStaleRead; });
    const bool expected = Enumerator(program).stale();
    ASSERT_EQ(found, expected) << "seed " << seed;
    if (is_removed) {
      ++removals[removed].first;
      removals[removed].second += expected ? 1 : 0;
    } else {
      EXPECT_FALSE(expected) << "seed " << seed << ": the whole program is right";
    }
  }
  for (const auto& [kind, counts] : removals) {
    EXPECT_GT(counts.second, counts.first / 5) << static_cast<int>(kind) << " of " << counts.first;
  }
}

}  // namespace
}  // namespace cohort::check
