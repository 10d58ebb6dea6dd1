// What every file of the corpus must be: readable, cited, with a fault and a control, listed in the
// README.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/litmus/litmus.h"

namespace cohort::litmus {
namespace {

std::string contents(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<std::filesystem::path> corpus() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(CORPUS)) {
    if (entry.path().extension() == ".litmus") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

class CorpusTest : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(CorpusTest, IsReadable) {
  const Result<File> file = parse(contents(GetParam()), GetParam().filename().string());
  EXPECT_TRUE(file) << file.error().message;
}

// The header says in which class of faults the case is and which report it models, or for what it
// is made.
TEST_P(CorpusTest, NamesClassAndSource) {
  EXPECT_THAT(
      contents(GetParam()),
      testing::AnyOf(testing::ContainsRegex("\n# Class [A-Z]\\. Source: [^ ]+/[^ ]+#[0-9]+"),
                     testing::ContainsRegex("\n# Made for ")));
}

TEST_P(CorpusTest, HasAFaultAndAControlAndAnExpectationEverywhere) {
  const Result<File> file = parse(contents(GetParam()), GetParam().filename().string());
  ASSERT_TRUE(file) << file.error().message;
  bool fault = false;
  bool control = false;
  for (const Variant& variant : file->variants) {
    EXPECT_TRUE(!variant.expects.empty() || variant.name == "base") << variant.name;
    for (const Expect& expect : variant.expects) {
      const bool passes = std::ranges::find(expect.words, Verdict::kPass) != expect.words.end();
      // An expectation of "pass or a fault" can't fail.
      EXPECT_TRUE(!passes || expect.words.size() == 1) << variant.name;
      (passes ? control : fault) = true;
    }
  }
  EXPECT_TRUE(fault);
  EXPECT_TRUE(control);
}

TEST_P(CorpusTest, IsListedInTheReadme) {
  const std::string readme = contents(std::filesystem::path(CORPUS) / "README.md");
  EXPECT_THAT(readme, testing::HasSubstr("`" + GetParam().stem().string() + "`"));
}

INSTANTIATE_TEST_SUITE_P(Files, CorpusTest, testing::ValuesIn(corpus()),
                         [](const auto& file) { return file.param.stem().string(); });

}  // namespace
}  // namespace cohort::litmus
