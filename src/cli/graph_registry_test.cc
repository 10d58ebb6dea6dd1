#include "cohort/cli/graph_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort::cli {
namespace {

using testing::ElementsAre;

Result<BuiltGraph> build_nothing(const BuildRequest& request) {
  if (request.integer("rows") == 3) return fail(ErrorCode::kInvalidArgument, "not three");
  return BuiltGraph{.graph = std::make_shared<Graph>("nothing")};
}

GraphEntry entry() {
  GraphEntry e("mine", build_nothing);
  e.variants({"unfused", "slot"})
      .parameter("rows", "Rows.", IntegerParameter{2, 0, 9, {1, 3}})
      .parameter("cols", "Columns.", IntegerParameter{4, 0, 9, {}})
      .parameter("mode", "Mode.", ChoiceParameter{{"a", "b"}, true})
      .parameter("kind", "Kind.", ChoiceParameter{{"x", "y"}, false});
  return e;
}

TEST(GraphEntry, DefaultsAreTheFirstOfEverything) {
  EXPECT_EQ(entry().defaults().to_text(), "--variant unfused --kind x --mode a --cols 4 --rows 2");
}

TEST(GraphEntry, SweepsWhatIsDeclaredAsSwept) {
  std::vector<std::string> texts;
  for (const BuildRequest& r : entry().sweep(entry().defaults(), {})) {
    texts.push_back(std::to_string(r.integer("rows")) + std::to_string(r.integer("cols")) +
                    r.choice("mode") + r.choice("kind") + " " + r.variant());
  }
  EXPECT_THAT(texts, ElementsAre("14ax unfused", "14ax slot", "14bx unfused", "14bx slot",
                                 "34ax unfused", "34ax slot", "34bx unfused", "34bx slot"));
}

TEST(GraphEntry, SweepsNothingThatIsGiven) {
  BuildRequest base = entry().defaults();
  base.set("rows", 7);
  base.set("cols", 5);  // Not swept: stays, given or not.
  base.set_variant("slot");
  std::vector<std::string> texts;
  for (const BuildRequest& r : entry().sweep(base, {"rows", "variant"})) {
    texts.push_back(r.to_text());
  }
  EXPECT_THAT(texts, ElementsAre("--variant slot --kind x --mode a --cols 5 --rows 7",
                                 "--variant slot --kind x --mode b --cols 5 --rows 7"));
}

TEST(GraphEntry, PassesOnWhyAGraphCannotBeBuilt) {
  BuildRequest request = entry().defaults();
  EXPECT_TRUE(entry().build(request));
  request.set("rows", 3);
  EXPECT_EQ(entry().build(request).error().message, "not three");
}

TEST(Registry, KeepsEntriesByName) {
  const GraphEntry& zebra = register_graph("zebra", build_nothing);
  const GraphEntry& apple = register_graph("apple", build_nothing);
  EXPECT_THAT(registered_graphs(), ElementsAre(&apple, &zebra));
}

}  // namespace
}  // namespace cohort::cli
