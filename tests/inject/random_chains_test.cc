// Random right chains of phases: silent under every check, the same bits natively, and caught as
// soon as a step of a hand-over that matters is removed.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/random.h"
#include "cohort/check/verify.h"
#include "cohort/lane/fuse.h"
#include "cohort/lane/run_in_order.h"
#include "cohort/native/executor.h"

namespace cohort {
namespace {

using testing::IsEmpty;

constexpr std::int64_t kRows = 16;
constexpr std::int64_t kCols = 128;

std::int32_t mixed(std::int32_t a, std::int32_t b) {
  const std::uint32_t h = (static_cast<std::uint32_t>(a) ^ 0x9E3779B9u) * 2654435761u;
  return static_cast<std::int32_t>(h + static_cast<std::uint32_t>(b));
}

struct Step {
  In<std::int32_t> from;  // [16, 128]
  Out<std::int32_t> to;   // [16, 128]
  COHORT_OPERANDS(from, to)
};

// Each column by itself; block b is columns [16 b, 16 b + 16).
struct Down {
  static constexpr KernelInfo kInfo{.name = "down"};
  using Args = Step;
  static std::int64_t blocks(const Args&) { return kCols / 16; }
  template <class L>
  static void run(L& lane, const Args& a, std::int64_t b) {
    const auto from = lane.load(a.from.cols(16 * b, 16));
    auto to = lane.output(a.to.cols(16 * b, 16));
    for (std::int64_t c = 0; c < 16; ++c) {
      std::int32_t sum = 1;
      for (std::int64_t r = 0; r < kRows; ++r) to(r, c) = sum = mixed(sum, from(r, c));
    }
    lane.store(to);
  }
};

// Each row by itself; block b is row b.
struct Across {
  static constexpr KernelInfo kInfo{.name = "across"};
  using Args = Step;
  static std::int64_t blocks(const Args&) { return kRows; }
  template <class L>
  static void run(L& lane, const Args& a, std::int64_t b) {
    const auto from = lane.load(a.from.rows(b, 1));
    auto to = lane.output(a.to.rows(b, 1));
    std::int32_t sum = 1;
    for (std::int64_t c = 0; c < kCols; ++c) to(0, c) = sum = mixed(sum, from(0, c));
    lane.store(to);
  }
};

// Row b's last element into a line that all lanes share.
struct Tail {
  static constexpr KernelInfo kInfo{.name = "tail"};
  struct Args {
    In<std::int32_t> from;  // [16, 128]
    Out<std::int32_t> to;   // [16, 1]
    COHORT_OPERANDS(from, to)
  };
  static std::int64_t blocks(const Args&) { return kRows; }
  template <class L>
  static void run(L& lane, const Args& a, std::int64_t b) {
    const auto from = lane.load(a.from.rows(b, 1));
    auto to = lane.output(a.to.rows(b, 1));
    to(0, 0) = from(0, kCols - 1);
    lane.store(to);
  }
};

struct ChainArgs {
  In<std::int32_t> t0;
  Out<std::int32_t> t1, t2, t3, t4;
  Out<std::int32_t> tail;
  InOut<std::int32_t> workspace;
  COHORT_OPERANDS(t0, t1, t2, t3, t4, tail, workspace)
};

// What a phase reads and writes.
struct Link {
  bool down = false;
  bool tail = false;
  int from = 0;
  int to = 0;
};

struct Chain {
  std::vector<Link> links;
  std::int64_t lanes = 1;
  Barrier barrier = Barrier::kCounter;
  bool has_hand_over_of_writes = false;
};

Out<std::int32_t> temporary(const ChainArgs& a, int i) {
  const Out<std::int32_t>* all[] = {&a.t1, &a.t2, &a.t3, &a.t4};
  return *all[i - 1];
}
In<std::int32_t> source(const ChainArgs& a, int i) {
  return i == 0 ? a.t0 : In<std::int32_t>(temporary(a, i));
}

Chain random_chain(std::uint64_t seed) {
  Random random(seed, 13);
  const auto below = [&](std::uint64_t n) { return static_cast<int>(random.next_below(n)); };
  Chain chain;
  chain.lanes = 1 + below(16);
  chain.barrier = below(2) == 0 ? Barrier::kSlot : Barrier::kCounter;
  const int phases = 2 + below(4);
  int written = 0;  // t1 to t<written> hold values.
  std::vector<bool> was_down(5);
  for (int p = 0; p < phases; ++p) {
    Link link{.down = p == 0          ? below(2) == 0
                      : below(4) != 0 ? !chain.links.back().down
                                      : chain.links.back().down,
              .from = p == 0 ? 0 : chain.links.back().to};
    const bool again = written >= 2 && below(3) == 0;
    do {
      link.to = again ? 1 + below(static_cast<std::uint64_t>(written)) : written + 1;
    } while (link.to == link.from);
    if (link.to > 4) link.to = link.from == 1 ? 2 : 1;
    if (link.to <= written) {
      chain.has_hand_over_of_writes |= was_down[static_cast<std::size_t>(link.to)] != link.down;
    }
    written = std::max(written, link.to);
    was_down[static_cast<std::size_t>(link.to)] = link.down;
    chain.links.push_back(link);
  }
  if (below(2) == 0) {
    chain.links.push_back({.tail = true, .from = chain.links.back().to});
  }
  return chain;
}

KernelRef kernel_of(const Chain& chain) {
  auto fusion = fuse<ChainArgs>("chain", {.lanes = chain.lanes, .barrier = chain.barrier});
  for (std::size_t p = 0; p < chain.links.size(); ++p) {
    const Link link = chain.links[p];
    if (p > 0) std::move(fusion).barrier();
    const auto step = [link](const ChainArgs& a) {
      return Step{source(a, link.from), temporary(a, link.to)};
    };
    if (link.tail) {
      std::move(fusion).phase<Tail>([link](const ChainArgs& a) {
        return Tail::Args{source(a, link.from), a.tail};
      });
    } else if (link.down) {
      std::move(fusion).phase<Down>(step);
    } else {
      std::move(fusion).phase<Across>(step);
    }
  }
  KernelRef kernel = std::move(fusion);
  return kernel;
}

struct Built {
  Graph graph{"chain"};
  std::vector<std::string> inputs = {"t0"};
};

Built build(const Chain& chain) {
  Built b;
  ChainArgs args;
  const auto tensor = [&](const char* name) {
    return b.graph.tensor<std::int32_t>(name, {kRows, kCols});
  };
  const auto t0 = tensor("t0");
  for (std::int64_t i = 0; i < kRows * kCols; ++i) t0.host()[i] = static_cast<std::int32_t>(i * 31);
  args.t0 = t0;
  args.t1 = tensor("t1");
  args.t2 = tensor("t2");
  args.t3 = tensor("t3");
  args.t4 = tensor("t4");
  args.tail = b.graph.tensor<std::int32_t>("tail", {kRows, 1});
  args.workspace = b.graph.tensor<std::int32_t>("workspace", {128}, {.initial = 0});
  b.graph.submit(kernel_of(chain), args, {.sync_start = true});
  b.graph.dummy("use", {reads(*b.graph.find<std::int32_t>("t1"))});
  return b;
}

TEST(RandomChains, AreSilentAndRunAsInOrder) {
  int repartitioned = 0;
  int shared = 0;
  int hand_overs = 0;
  std::vector<int> phases(7);
  constexpr int kChains = 500;
  for (std::uint64_t seed = 0; seed < kChains; ++seed) {
    const Chain chain = random_chain(seed);
    const Built b = build(chain);
    ASSERT_TRUE(b.graph.validate()) << b.graph.validate().error().message;
    for (const auto memory : {check::MemoryModel::kStrict, check::MemoryModel::kDma}) {
      const Report report = check::verify(b.graph, {.memory = memory, .inputs = b.inputs});
      ASSERT_THAT(report.findings, IsEmpty()) << "seed " << seed << "\n" << to_text(report);
      for (const Property& p : report.properties)
        EXPECT_NE(p.examined.substr(0, 2), "0 ") << p.name;
    }
    const Result<FusionPlan> plan = plan_fusion(b.graph.tasks()[0].bound);
    ASSERT_TRUE(plan);
    repartitioned += plan->repartitions.empty() ? 0 : 1;
    shared += plan->shared_lines.empty() ? 0 : 1;
    hand_overs += chain.has_hand_over_of_writes ? 1 : 0;
    ++phases[chain.links.size()];

    if (seed % 5 != 0) continue;  // Natively, a fifth of them.
    run_in_order(b.graph);
    std::vector<std::vector<std::byte>> expected;
    for (const Tensor& t : b.graph.tensors()) {
      expected.emplace_back(t.memory().begin(), t.memory().end());
    }
    ASSERT_EQ(native::run(b.graph, {.workers = 1 + static_cast<int>(seed % 3)})->status,
              native::RunStatus::kDone);
    for (const Tensor& t : b.graph.tensors()) {
      if (t.initial) continue;  // The workspace counts only where lanes meet.
      EXPECT_TRUE(std::ranges::equal(t.memory(), expected[t.id.value]))
          << t.name << ", seed " << seed;
    }
  }
  EXPECT_GE(repartitioned, kChains * 80 / 100);
  EXPECT_GE(shared, kChains * 30 / 100);
  EXPECT_GE(hand_overs, kChains * 20 / 100);
  for (std::size_t n = 2; n <= 6; ++n) EXPECT_GT(phases[n], 0) << n << " phases";
}

// Every publish and acquire that the plan asks for is needed: without it some lane may read old
// bytes.
TEST(RandomChains, MissEveryStepOfAHandOver) {
  int removed = 0;
  int found = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Built b = build(random_chain(seed));
    const GraphRecord record = record_graph(b.graph);
    const GridRecord& grid = *record.tasks[0].grid;
    Random random(seed, 14);
    for (const LaneEvent::Kind kind : {LaneEvent::Kind::kClean, LaneEvent::Kind::kInvalidate}) {
      std::vector<std::pair<std::size_t, std::size_t>> places;
      for (std::size_t l = 0; l < grid.lanes.size(); ++l) {
        for (std::size_t i = 0; i < grid.lanes[l].size(); ++i) {
          if (grid.lanes[l][i].kind == kind) places.emplace_back(l, i);
        }
      }
      if (places.empty()) continue;
      const auto [lane, index] = places[random.next_below(places.size())];
      GridRecord wrong = grid;
      wrong.lanes[lane].erase(wrong.lanes[lane].begin() + static_cast<std::ptrdiff_t>(index));
      const Report report = check::check_visibility(b.graph, wrong, check::MemoryModel::kStrict);
      ++removed;
      found += report.findings.empty() ? 0 : 1;
      for (const Finding& f : report.findings) EXPECT_EQ(f.verdict, Verdict::kStaleRead) << f.cause;
      EXPECT_THAT(check::check_visibility(b.graph, wrong, check::MemoryModel::kDma).findings,
                  IsEmpty());
    }
  }
  EXPECT_GT(removed, 300);
  // Some are for writers that a later writer covers, or readers of their own bytes alone.
  EXPECT_GE(found, removed / 2);
}

}  // namespace
}  // namespace cohort
