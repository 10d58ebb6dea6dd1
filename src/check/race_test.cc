#include "cohort/check/race.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/random.h"

#include "test_kernels.h"

namespace cohort::check {
namespace {

using testing::IsEmpty;

TEST(RaceProof, IsSilentOnGraphsOfAutomaticEdges) {
  SquareSum s;
  s.submit(square_sum());
  s.graph.dummy("use", {reads(s.z)});
  const Report report = race_proof(s.graph, record_graph(s.graph));
  EXPECT_THAT(report.findings, IsEmpty());
  ASSERT_EQ(report.properties.size(), 1u);
  EXPECT_EQ(report.properties[0].examined, "8 ordered pairs of accesses, 7 accesses of 2 tasks");
}

TEST(RaceProof, NamesTasksTensorBytesAndWhatToAdd) {
  Graph g("g");
  const auto a = g.tensor<float>("a", {16}, {.manual_dep = true});
  g.dummy("write", {writes(a)});
  g.dummy("between", {});
  g.dummy("read", {reads(a.cols(4, 4))});
  const Report report = race_proof(g, record_graph(g));
  ASSERT_EQ(report.findings.size(), 1u);
  const Finding& f = report.findings[0];
  EXPECT_EQ(f.verdict, Verdict::kRace);
  EXPECT_EQ(
      f.cause,
      "task #2 \"read\" reads bytes of tensor \"a\" that task #0 \"write\" writes, and no path of "
      "edges orders them");
  EXPECT_EQ(f.evidence[1].text, "[16, 32)");
  EXPECT_EQ(
      f.advice,
      "let task #2 \"read\" depend on task #0 \"write\" explicitly, or on a task that follows it: "
      "the tensor makes no edges of its own");
}

TEST(RaceProof, AcceptsPathsOverOtherTasks) {
  Graph g;
  const auto a = g.tensor<float>("a", {16}, {.manual_dep = true});
  const TaskId first = g.dummy("write", {writes(a)}).id;
  const TaskId second = g.dummy("between", {}, {.deps = {first}}).id;
  const TaskId third = g.dummy("between_too", {}, {.deps = {second}}).id;
  g.dummy("read", {reads(a)}, {.deps = {third}});
  EXPECT_THAT(race_proof(g, record_graph(g)).findings, IsEmpty());
}

// Against every pair of tasks, byte by byte, with all paths known.
TEST(RaceProof, AgreesWithEveryPairOfTasksOnRandomGraphs) {
  int racy = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed, 3);
    const auto below = [&](std::uint64_t n) {
      return static_cast<std::int64_t>(random.next_below(n));
    };
    Graph g;
    std::vector<Handle<float>> tensors;
    for (int t = 0; t < 3; ++t) {
      tensors.push_back(
          g.tensor<float>("t" + std::to_string(t), {6, 10}, {.manual_dep = below(2) == 0}));
    }
    struct Use {
      std::size_t tensor;
      bool writes;
      std::int64_t row, rows, col, cols;
    };
    std::vector<std::vector<Use>> uses;
    for (std::uint32_t task = 0; task < 12; ++task) {
      std::vector<DummyOperand> operands;
      uses.emplace_back();
      for (std::size_t t = 0; t < 3; ++t) {
        if (below(2) == 0) continue;
        const Use u{t, below(3) == 0, below(4), 1 + below(3), below(6), 1 + below(5)};
        const auto view = tensors[t].rows(u.row, u.rows).cols(u.col, u.cols);
        operands.push_back(u.writes ? writes(view) : reads(view));
        uses.back().push_back(u);
      }
      Launch launch;
      if (task > 0 && below(2) == 0)
        launch.deps.push_back({static_cast<std::uint32_t>(below(task))});
      g.dummy("task", operands, launch);
    }
    std::vector<std::vector<bool>> path(12, std::vector<bool>(12));
    for (const Edge& e : g.edges()) {
      path[e.from.value][e.to.value] = true;
      for (std::size_t t = 0; t < 12; ++t) {
        if (path[t][e.from.value]) path[t][e.to.value] = true;
      }
    }
    bool expected = false;
    const auto meet = [](std::int64_t a, std::int64_t n, std::int64_t b, std::int64_t m) {
      return a < b + m && b < a + n;
    };
    for (std::size_t i = 0; i < 12; ++i) {
      for (std::size_t j = i + 1; j < 12; ++j) {
        for (const Use& a : uses[i]) {
          for (const Use& b : uses[j]) {
            if (a.tensor != b.tensor || !(a.writes || b.writes)) continue;
            if (!meet(a.row, a.rows, b.row, b.rows) || !meet(a.col, a.cols, b.col, b.cols))
              continue;
            expected = expected || !path[i][j];
          }
        }
      }
    }
    EXPECT_EQ(!race_proof(g, record_graph(g)).findings.empty(), expected) << "seed " << seed;
    racy += expected ? 1 : 0;
  }
  EXPECT_GT(racy, 60);
  EXPECT_LT(racy, 240);
}

TEST(SurplusEdges, AreThoseThatOrderNothingAndNobodyNeeds) {
  Graph g("g");
  const auto a = g.tensor<float>("a", {16});
  const TaskId first = g.dummy("first", {writes(a)}).id;
  const TaskId second = g.dummy("second", {reads(a)}, {.deps = {first}}).id;
  const TaskId apart = g.dummy("apart", {}, {.deps = {second}}).id;
  g.dummy("last", {}, {.deps = {first, apart}});
  const Report report = surplus_edges(g, record_graph(g));
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].cause,
            "task #3 \"last\" depends on task #0 \"first\" explicitly, shares no byte with it, and "
            "another "
            "path orders them anyway");
  EXPECT_EQ(report.properties[0].examined, "4 explicit edges");
}

}  // namespace
}  // namespace cohort::check
