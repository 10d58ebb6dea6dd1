#include "graph_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A graph of dummies: a task and those it waits for, by name.
Graph graph_of(const std::vector<std::pair<std::string, std::vector<std::string>>>& tasks) {
  Graph graph;
  std::map<std::string, TaskId> ids;
  for (const auto& [name, deps] : tasks) {
    Launch launch;
    for (const std::string& dep : deps) launch.deps.push_back(ids.at(dep));
    ids[name] = graph.dummy(name, {}, launch).id;
  }
  return graph;
}

TEST(GraphChange, ReadsFusedTasksAsTheOneThatReplacesThem) {
  const Graph before = graph_of({{"in", {}}, {"a", {"in"}}, {"b", {"a"}}, {"out", {"b", "in"}}});
  const Graph after = graph_of({{"in", {}}, {"ab", {"in"}}, {"out", {"ab"}}, {"side", {}}});
  const GraphChange one =
      change_of(before, graph_of({{"in", {}}, {"ab", {"in"}}, {"out", {"ab"}}}));
  EXPECT_THAT(one.gone_tasks, ElementsAre("a", "b"));
  EXPECT_THAT(one.new_tasks, ElementsAre("ab"));
  EXPECT_EQ(one.edges_before, 4u);
  EXPECT_EQ(one.edges_after, 2u);
  EXPECT_THAT(one.gone_edges, ElementsAre("in -> out"));
  EXPECT_THAT(one.new_edges, IsEmpty());

  // With two new tasks nothing says which replaces what.
  const GraphChange two = change_of(before, after);
  EXPECT_THAT(two.new_tasks, ElementsAre("ab", "side"));
  EXPECT_THAT(two.new_edges, ElementsAre("ab -> out", "in -> ab"));
}

TEST(GraphChange, TellsTasksOfOneNameApart) {
  const Graph twice = graph_of({{"a", {}}, {"a", {}}});
  const Graph once = graph_of({{"a", {}}});
  EXPECT_THAT(change_of(twice, once).gone_tasks, ElementsAre("a#2"));
  EXPECT_THAT(change_of(twice, twice).gone_tasks, IsEmpty());
}

}  // namespace
}  // namespace cohort::cli
