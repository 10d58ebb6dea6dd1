#include "cohort/verdict/report.h"

#include <set>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace cohort {
namespace {

Report stale_read() {
  return {.subject = "pre-norm --variant slot",
          .properties = {{.name = "no lane reads stale data",
                          .verdict = Verdict::kStaleRead,
                          .examined = "128 lines, 8 lanes"}},
          .findings = {{.verdict = Verdict::kStaleRead,
                        .rule = "visibility/acquire",
                        .cause = "lane 3 may read x_mixed as it was before lane 1 wrote it",
                        .evidence = {{"missing step", "acquire 2 of lane 3"}},
                        .timeline = {"lane 1  store x_mixed", "lane 3  load x_mixed"},
                        .advice = "acquire the 8192 bytes of row 3 after barrier 2",
                        .location = "fused_pre_norm/x_mixed"}},
          .notes = {"8 lanes of 48 cores"}};
}

TEST(VerdictTest, WordsAreUniqueAndRoundTrip) {
  std::set<std::string_view> words;
  for (int v = 0; v < kVerdicts; ++v) {
    const auto verdict = static_cast<Verdict>(v);
    EXPECT_TRUE(words.insert(word(verdict)).second);
    EXPECT_EQ(verdict_of(word(verdict)), verdict);
    EXPECT_FALSE(meaning(verdict).empty());
  }
  EXPECT_EQ(word(Verdict::kUnknown), "unknown");  // The last: the table is complete.
  EXPECT_EQ(verdict_of("stale"), std::nullopt);
}

TEST(ReportTest, ExitStatusTellsFindingFromGivingUp) {
  EXPECT_EQ(Report{}.exit_status(), ExitStatus::kPass);
  EXPECT_EQ(stale_read().exit_status(), ExitStatus::kFinding);
  Report unknown;
  unknown.findings.push_back({.verdict = Verdict::kUnknown});
  EXPECT_EQ(unknown.exit_status(), ExitStatus::kGaveUp);
  unknown.merge(stale_read());
  EXPECT_EQ(unknown.exit_status(), ExitStatus::kFinding);
  EXPECT_EQ(unknown.subject, "pre-norm --variant slot");
}

TEST(ReportTest, TextSaysWhatWasExaminedThenTheFinding) {
  EXPECT_EQ(to_text(stale_read()),
            "pre-norm --variant slot\n"
            "  stale-read          no lane reads stale data (128 lines, 8 lanes)\n"
            "\n"
            "stale-read: lane 3 may read x_mixed as it was before lane 1 wrote it\n"
            "  at: fused_pre_norm/x_mixed\n"
            "  missing step: acquire 2 of lane 3\n"
            "    | lane 1  store x_mixed\n"
            "    | lane 3  load x_mixed\n"
            "  do: acquire the 8192 bytes of row 3 after barrier 2\n"
            "\n"
            "note: 8 lanes of 48 cores\n");
}

TEST(ReportTest, TextWrapsAtEightyColumns) {
  Report report = stale_read();
  report.findings[0].cause = std::string(60, 'a') + " " + std::string(60, 'b');
  EXPECT_NE(to_text(report).find("stale-read: " + std::string(60, 'a') + "\n  " +
                                 std::string(60, 'b') + "\n"),
            std::string::npos);
}

TEST(ReportTest, JsonHoldsEverything) {
  const auto json = nlohmann::json::parse(to_json(stale_read()));
  EXPECT_EQ(json["subject"], "pre-norm --variant slot");
  EXPECT_EQ(json["exit_status"], 1);
  EXPECT_EQ(json["properties"][0]["examined"], "128 lines, 8 lanes");
  EXPECT_EQ(json["findings"][0]["verdict"], "stale-read");
  EXPECT_EQ(json["findings"][0]["evidence"][0]["text"], "acquire 2 of lane 3");
  EXPECT_EQ(json["notes"][0], "8 lanes of 48 cores");
}

TEST(ReportTest, SarifHasTheRequiredProperties) {
  const auto json = nlohmann::json::parse(to_sarif(stale_read()));
  EXPECT_EQ(json["version"], "2.1.0");
  const auto& run = json["runs"].at(0);
  EXPECT_EQ(run["tool"]["driver"]["name"], "cohort");
  const auto& result = run["results"].at(0);
  EXPECT_EQ(result["ruleId"], "stale-read");
  const int index = result["ruleIndex"];
  EXPECT_EQ(run["tool"]["driver"]["rules"].at(static_cast<std::size_t>(index))["id"], "stale-read");
  EXPECT_EQ(result["level"], "error");
  EXPECT_FALSE(result["message"]["text"].get<std::string>().empty());
  EXPECT_EQ(result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"],
            "fused_pre_norm/x_mixed");
}

TEST(ReportTest, HostileBytesDoNotBreakTheJson) {
  Report report = stale_read();
  report.findings[0].cause = "bytes \xff\xfe of a file";
  EXPECT_TRUE(nlohmann::json::accept(to_json(report)));
  EXPECT_TRUE(nlohmann::json::accept(to_sarif(report)));
}

}  // namespace
}  // namespace cohort
