#include "cohort/check/audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test_kernels.h"

namespace cohort::check {
namespace {

using testing::IsEmpty;

Report audited(const Graph& graph, const std::vector<DeclaredProducers>& declared = {}) {
  EXPECT_TRUE(graph.validate()) << graph.validate().error().message;
  return audit(graph, record_graph(graph), {"x", "x1", "x2"}, declared);
}

std::string only(const Report& report, Verdict verdict) {
  if (report.findings.size() != 1) return std::to_string(report.findings.size()) + " findings";
  EXPECT_EQ(report.findings[0].verdict, verdict);
  return report.findings[0].cause;
}

TEST(Audit, IsSilentOnARightGridAndSaysWhatItExamined) {
  SquareSum s;
  s.submit(square_sum());
  const Report report = audited(s.graph);
  EXPECT_THAT(report.findings, IsEmpty());
  std::string examined;
  for (const Property& p : report.properties) examined += p.examined + "; ";
  EXPECT_EQ(examined,
            "1 grids with barriers; 1 workspaces; 4 operands; 16 blocks; 4 operands; 1 reads; 4 "
            "tensors; ");
}

TEST(Audit, AGridWithBarriersIsACohort) {
  SquareSum s;
  s.submit(square_sum(), {.allow_early_resolve = true});
  const Report report = audited(s.graph);
  EXPECT_EQ(
      only(report, Verdict::kResidency),
      "8 lanes of task #0 \"square_sum\" wait for each other at barriers, and nothing makes them "
      "resident together: sync_start isn't set");
  EXPECT_EQ(report.findings[0].evidence[0].text, "is set, and gives no residency: it is a hint");
  EXPECT_EQ(report.findings[0].timeline.size(), 3u);
}

TEST(Audit, AWorkspaceIsPrivateAndStartsAtZero) {
  SquareSum s;
  s.submit(square_sum());
  const auto x2 = s.graph.tensor<float>("x2", {8, 128});
  const auto y2 = s.graph.tensor<float>("y2", {8, 128});
  const auto z2 = s.graph.tensor<float>("z2", {8, 16});
  const auto again = s.graph.find<std::int32_t>("workspace");
  s.graph.submit(square_sum(), SquareSumArgs{x2, y2, z2, *again}, {.sync_start = true});
  EXPECT_EQ(
      only(audited(s.graph), Verdict::kWorkspaceInit),
      "task #1 \"square_sum\" counts in tensor \"workspace\" after task #0 \"square_sum\" has: it "
      "doesn't start from 0");

  Graph g("g");
  const auto ws = g.tensor<std::int32_t>("ws", {64}, {.initial = 0, .manual_dep = true});
  const auto submit = [&](const std::string& suffix, const Handle<std::int32_t>& workspace) {
    const auto x = g.tensor<float>("x" + suffix, {8, 128});
    const auto y = g.tensor<float>("y" + suffix, {8, 128});
    const auto z = g.tensor<float>("z" + suffix, {8, 16});
    return g.submit(square_sum(), SquareSumArgs{x, y, z, workspace}, {.sync_start = true});
  };
  const Submission first = submit("1", ws);
  submit("2", first.handle<std::int32_t>("workspace"));
  EXPECT_EQ(
      only(audited(g), Verdict::kPrematureRelease),
      "task #0 \"square_sum\" and task #1 \"square_sum\" may run at the same time and count in one "
      "workspace, tensor \"ws\": an arrival of one releases lanes of the other");

  SquareSum one;
  one.workspace = one.graph.tensor<std::int32_t>("ones", {64}, {.initial = 1});
  one.submit(square_sum());
  const Report report = audited(one.graph);
  ASSERT_EQ(report.findings.size(), 2u);
  EXPECT_EQ(report.findings[0].cause,
            "tensor \"ones\", the workspace of task #0 \"square_sum\", starts at 1 in every run: "
            "barriers "
            "count from 0");
  EXPECT_EQ(report.findings[1].cause, "tensor \"workspace\" [64] is an operand of no task");
}

struct WrongArgs {
  In<float> x;
  In<float> y;
  Out<float> z;
  In<std::int32_t> workspace;
  COHORT_OPERANDS(x, y, z, workspace)
};

TEST(Audit, OperandsAreUsedAsDeclared) {
  SquareSum s;
  const auto as_out = [](const In<float>& v) {
    Handle<float> h;
    static_cast<ViewFields&>(h) = v;
    return h;
  };
  const KernelRef kernel = fuse<WrongArgs>("wrong", {})
                               .phase<Square>([=](const WrongArgs& a) {
                                 return Square::Args{a.x, as_out(a.y)};
                               })
                               .barrier()
                               .phase<RowSum>([](const WrongArgs& a) {
                                 return RowSum::Args{a.y, a.z};
                               });
  s.graph.submit(kernel, WrongArgs{s.x, s.y, s.z, s.workspace}, {.sync_start = true});
  const Report report = audited(s.graph);
  ASSERT_EQ(report.findings.size(), 2u);
  EXPECT_EQ(report.findings[0].cause,
            "operand workspace, the workspace, is declared In: every lane reads and writes it");
  EXPECT_EQ(report.findings[1].cause, "operand 1, y, is declared In and is written");
  EXPECT_EQ(report.findings[1].verdict, Verdict::kDirection);
}

TEST(Audit, TheGraphHasTheEdgesItDeclares) {
  Graph g("g");
  const auto a = g.tensor<float>("a", {4});
  const auto b = g.tensor<float>("b", {4});
  g.dummy("first", {writes(a)});
  g.dummy("second", {writes(b)});
  g.dummy("last", {reads(a)});
  const Report report =
      audited(g, {{"last", {"second"}, true}, {"second", {}, true}, {"absent", {"x"}, true}});
  ASSERT_EQ(report.findings.size(), 2u);
  EXPECT_EQ(report.findings[0].verdict, Verdict::kEdgeMissing);
  EXPECT_EQ(report.findings[0].cause,
            "task #2 \"last\" has no edge from \"second\", which it declares");
  EXPECT_EQ(report.findings[1].verdict, Verdict::kEdgeSurplus);
  EXPECT_EQ(report.findings[1].cause,
            "task #2 \"last\" has an edge from \"first\", which it doesn't declare");
  EXPECT_EQ(report.findings[1].evidence[0].text, "RAW on tensor a");
  EXPECT_THAT(audited(g, {{"last", {}, false}}).findings, IsEmpty());
}

TEST(Audit, RefusedSubmissionsBecomeFindings) {
  SquareSum s;
  s.submit(square_sum());
  s.submit(square_sum());  // The workspace's handle again.
  const Report report = audit_submissions(s.graph);
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].verdict, Verdict::kInoutReuse);
  SquareSum small;
  small.submit(square_sum({.barrier = Barrier::kSlot}), {.sync_start = true, .lanes = 13});
  const Report layout = audit_submissions(small.graph);
  EXPECT_EQ(
      only(layout, Verdict::kLayout),
      "task #0 \"square_sum\": a slot barrier of 13 participants needs 104 I32 words of workspace, "
      "tensor \"workspace\" has 64: word 64 is the first outside; the largest phase has 8 blocks");
}

}  // namespace
}  // namespace cohort::check
