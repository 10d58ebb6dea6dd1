#include "cohort/lane/barrier.h"

#include <map>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "cohort/lane/fuse.h"

namespace cohort {
namespace {

struct Nothing {
  static constexpr KernelInfo kInfo{.name = "nothing"};
  struct Args {
    InOut<std::int32_t> workspace;
    COHORT_OPERANDS(workspace)
  };
  static std::int64_t blocks(const Args&) { return 8; }
  template <class L>
  static void run(L&, const Args&, std::int64_t) {}
};

// Lanes of a grid that only meets: the number of participants of each meeting, 0 for all.
struct Meetings {
  Barrier barrier;
  std::int64_t lanes;
  std::vector<std::int64_t> participants;
};

BoundKernel bound_of(const Meetings& m) {
  const auto self = [](const Nothing::Args& a) { return a; };
  auto fusion =
      fuse<Nothing::Args>("meet", {.lanes = m.lanes, .barrier = m.barrier}).phase<Nothing>(self);
  KernelRef kernel;
  for (const std::int64_t p : m.participants) {
    std::move(fusion).barrier(p).phase<Nothing>(self);
  }
  kernel = std::move(fusion);
  return bind_kernel(kernel, std::make_shared<Nothing::Args>());
}

// What a lane does next: arrive at, or wait for, its n-th meeting.
struct LaneState {
  std::size_t meeting = 0;
  bool has_arrived = false;
  std::int32_t target = 0;
  auto operator<=>(const LaneState&) const = default;
};

struct State {
  std::vector<std::int32_t> words;
  std::vector<LaneState> lanes;
  auto operator<=>(const State&) const = default;
};

// Tries every interleaving of arrivals and releases; returns how many states there are.
class Explorer {
 public:
  explicit Explorer(const Meetings& m) : kernel_(bound_of(m)), barrier_(m.barrier) {
    std::int64_t words = 0;
    for (const BoundMeeting& meeting : kernel_.meetings) {
      words = std::max(words, meeting.first_word +
                                  (m.barrier == Barrier::kSlot ? 8 * m.lanes : std::int64_t{16}));
    }
    State start{std::vector<std::int32_t>(static_cast<std::size_t>(words)),
                std::vector<LaneState>(static_cast<std::size_t>(m.lanes))};
    for (std::size_t l = 0; l < start.lanes.size(); ++l) skip_meetings(start.lanes[l], l);
    explore(start);
  }
  std::size_t states() const { return seen_.size(); }
  std::size_t ends() const { return ends_; }

 private:
  // A lane goes past meetings it has no part in.
  void skip_meetings(LaneState& lane, std::size_t index) const {
    while (lane.meeting < kernel_.meetings.size() &&
           static_cast<std::int64_t>(index) >= kernel_.meetings[lane.meeting].participants) {
      ++lane.meeting;
    }
  }

  void explore(const State& start) {
    std::vector<State> todo = {start};
    seen_.insert(start);
    while (!todo.empty()) {
      const State state = todo.back();
      todo.pop_back();
      bool can_move = false;
      bool is_end = true;
      for (std::size_t l = 0; l < state.lanes.size(); ++l) {
        if (state.lanes[l].meeting == kernel_.meetings.size()) continue;
        is_end = false;
        State next = state;
        if (!step(next, l)) continue;
        can_move = true;
        if (seen_.insert(next).second) todo.push_back(next);
      }
      ends_ += is_end ? 1 : 0;
      ASSERT_TRUE(can_move || is_end) << "lanes wait for each other for ever";
    }
  }

  bool step(State& state, std::size_t l) const {
    LaneState& lane = state.lanes[l];
    const BoundMeeting& meeting = kernel_.meetings[lane.meeting];
    if (!lane.has_arrived) {
      lane.target = arrive(barrier_, state.words.data(), meeting, static_cast<std::int64_t>(l));
      lane.has_arrived = true;
      return true;
    }
    if (!released(barrier_, state.words.data(), meeting, lane.target)) return false;
    for (std::size_t other = 0; other < state.lanes.size(); ++other) {
      if (static_cast<std::int64_t>(other) >= meeting.participants) continue;
      const LaneState& o = state.lanes[other];
      EXPECT_TRUE(o.meeting > lane.meeting || (o.meeting == lane.meeting && o.has_arrived))
          << "lane " << l << " left meeting " << lane.meeting << " before lane " << other
          << " came";
    }
    ++lane.meeting;
    lane.has_arrived = false;
    lane.target = 0;
    skip_meetings(lane, l);
    return true;
  }

  BoundKernel kernel_;
  Barrier barrier_;
  std::set<State> seen_;
  std::size_t ends_ = 0;
};

TEST(SoftBarrier, NobodyLeavesEarlyAndNobodyIsLeftInAnyInterleaving) {
  for (const Barrier barrier : {Barrier::kSlot, Barrier::kCounter}) {
    for (const Meetings& m : {Meetings{barrier, 1, {0, 0}}, Meetings{barrier, 3, {0, 0, 0}},
                              Meetings{barrier, 5, {0, 0}}, Meetings{barrier, 8, {4, 0}},
                              Meetings{barrier, 4, {2, 0, 2, 0}},
                              Meetings{barrier, 4, {0, 2, 3, 0}}, Meetings{barrier, 8, {0}}}) {
      const Explorer explorer(m);
      EXPECT_EQ(explorer.ends(), 1u) << name(barrier);
      EXPECT_GT(explorer.states(), static_cast<std::size_t>(2 * m.lanes));
    }
  }
}

// Meetings of the same participants share words, others don't: one that lent its words to a larger
// set would count arrivals that aren't its own.
TEST(SoftBarrier, EveryParticipantSetHasWordsOfItsOwn) {
  const BoundKernel slot = bound_of({Barrier::kSlot, 8, {4, 0, 4}});
  EXPECT_EQ(slot.meetings[0].first_word, 0);
  EXPECT_EQ(slot.meetings[1].first_word, 64);
  EXPECT_EQ(slot.meetings[2].first_word, 0);
  EXPECT_EQ(slot.meetings[0].participants, 4);
  EXPECT_EQ(slot.meetings[1].participants, 8);
  const BoundKernel counter = bound_of({Barrier::kCounter, 8, {4, 0, 4}});
  EXPECT_EQ(counter.meetings[1].first_word, 16);
}

TEST(SoftBarrier, TellsHowManyArrived) {
  std::vector<std::int32_t> words(64);
  const BoundMeeting meeting{.participants = 8, .expected = 8};
  EXPECT_EQ(arrive(Barrier::kSlot, words.data(), meeting, 3), 1);
  EXPECT_EQ(arrive(Barrier::kSlot, words.data(), meeting, 3), 2);
  EXPECT_EQ(arrivals(Barrier::kSlot, words.data(), meeting, 3), 2);
  EXPECT_EQ(arrivals(Barrier::kSlot, words.data(), meeting, 2), 0);
  EXPECT_EQ(words[24], 2);
  std::vector<std::int32_t> count(16);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(arrive(Barrier::kCounter, count.data(), meeting, i), 8);
  EXPECT_TRUE(released(Barrier::kCounter, count.data(), meeting, 8));
  EXPECT_EQ(arrive(Barrier::kCounter, count.data(), meeting, 0), 16);
  EXPECT_FALSE(released(Barrier::kCounter, count.data(), meeting, 16));
  EXPECT_EQ(arrivals(Barrier::kCounter, count.data(), meeting, 5), 9);
}

}  // namespace
}  // namespace cohort
