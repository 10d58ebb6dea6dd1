// Every mistake, put into the flagship's graph, is caught with its verdict and its cause, and the
// right graph is silent.
#include "cohort/inject/mistakes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/check/verify.h"

#include "deepseek_v4/inputs.h"
#include "deepseek_v4/pre_norm_graph.h"

namespace cohort::inject {
namespace {

using namespace deepseek_v4;
using testing::IsEmpty;

std::string text_of(const Finding& f) {
  std::string all = f.cause + "\n" + f.location + "\n";
  for (const Evidence& e : f.evidence) all += e.label + ": " + e.text + "\n";
  return all;
}

PreNormGraph host(Variant variant, std::int64_t tokens, std::int64_t num_tokens) {
  auto built = build_pre_norm({.config = preset(Preset::kToy),
                               .tokens = tokens,
                               .num_tokens = num_tokens,
                               .variant = variant},
                              hc_parameters(ParameterSet::kLayer0Ffn).scales);
  EXPECT_TRUE(built) << built.error().message;
  draw_inputs(*built, 1);
  return *std::move(built);
}

class MistakesTest : public testing::TestWithParam<Variant> {};

TEST_P(MistakesTest, AreCaughtWithTheirVerdictAndCause) {
  const PreNormGraph built = host(GetParam(), 8, 8);
  const PreNormOptions options{.config = preset(Preset::kToy), .variant = GetParam()};
  check::VerifyOptions verify_options{.inputs = inputs_of(options),
                                      .declared = declared_producers(options)};
  EXPECT_THAT(check::verify(built.graph, verify_options).findings, IsEmpty());
  const std::vector<Mistake> all = mistakes_for(built.graph);
  EXPECT_EQ(all.size(), GetParam() == Variant::kSlot ? 30u : 27u);
  for (const Mistake& m : all) {
    SCOPED_TRACE(m.id + ": " + m.what);
    const Graph wrong = m.graph ? m.graph(built.graph) : built.graph.rewritten({});
    verify_options.perturb = m.record;
    const Report report = check::verify(wrong, verify_options);
    if (m.expected == Verdict::kPass) {
      EXPECT_THAT(report.findings, IsEmpty()) << to_text(report);
      continue;
    }
    bool is_caught = false;
    for (const Finding& f : report.findings) {
      const std::string text = text_of(f);
      const bool names_all = std::ranges::all_of(
          m.names, [&](const std::string& name) { return text.find(name) != std::string::npos; });
      is_caught = is_caught || (f.verdict == m.expected && names_all);
      const bool is_allowed = f.verdict == m.expected ||
                              std::ranges::find(m.consequences, f.verdict) != m.consequences.end();
      EXPECT_TRUE(is_allowed) << word(f.verdict) << ": " << text;
    }
    EXPECT_TRUE(is_caught) << to_text(report);
  }
}
INSTANTIATE_TEST_SUITE_P(Barriers, MistakesTest,
                         testing::Values(Variant::kSlot, Variant::kCounter));

TEST(CorrectVariants, AreSilent) {
  for (const Variant variant :
       {Variant::kUnfused, Variant::kSlot, Variant::kCounter, Variant::kHard}) {
    for (const auto& [tokens, num_tokens] : {std::pair<std::int64_t, std::int64_t>{8, 0},
                                             {8, 1},
                                             {8, 7},
                                             {8, 8},
                                             {128, 0},
                                             {128, 1},
                                             {128, 17},
                                             {128, 128}}) {
      for (const std::int64_t lanes : {1, 3, 8, 16}) {
        if (variant == Variant::kUnfused && lanes != 8) continue;
        const PreNormOptions options{.config = preset(Preset::kToy),
                                     .tokens = tokens,
                                     .num_tokens = num_tokens,
                                     .variant = variant,
                                     .lanes = lanes};
        auto built = build_pre_norm(options, hc_parameters(ParameterSet::kLayer0Ffn).scales);
        ASSERT_TRUE(built) << built.error().message;
        draw_inputs(*built, 1);
        for (const auto memory : {check::MemoryModel::kStrict, check::MemoryModel::kDma}) {
          const Report report =
              check::verify(built->graph, {.memory = memory,
                                           .inputs = inputs_of(options),
                                           .declared = declared_producers(options)});
          EXPECT_THAT(report.findings, IsEmpty()) << to_text(report);
          for (const Property& p : report.properties) {
            const bool is_empty = p.examined.substr(0, 2) == "0 ";
            EXPECT_TRUE(!is_empty || variant == Variant::kUnfused) << p.name;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace cohort::inject
