#include "parser.h"

#include <string>

#include <gtest/gtest.h>

#include "cohort/litmus/litmus.h"

namespace cohort::litmus {
namespace {

constexpr const char* kFlag = R"(memory noncoherent
param payload = 7
word data = 0
word flag = 0
lane writer {
  store cached data = payload
  clean data
  fence
  store flag = 1
}
lane reader {
  wait until flag == 1
  r = load cached data
  assert r == payload else stale-read "too early"
}
expect pass
)";

TEST(ParserTest, ReadsLanesWordsAndExpectations) {
  const Result<File> file = parse(kFlag, "flag.litmus");
  ASSERT_TRUE(file) << file.error().message;
}

TEST(ParserTest, ReadsItsPrelude) {
  const Result<File> file = parse(prelude(), "prelude");
  EXPECT_TRUE(file) << file.error().message;
}

TEST(ParserTest, AnErrorNamesFileLineAndColumnAndShowsTheLine) {
  const std::string text = std::string(kFlag) + "lane third { store flag == 1 }\n";
  const Result<File> file = parse(text, "flag.litmus");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(file.error().message.find("flag.litmus:17:"), std::string::npos)
      << file.error().message;
  EXPECT_NE(file.error().message.find("lane third { store flag == 1 }"), std::string::npos)
      << file.error().message;
  EXPECT_NE(file.error().message.find('^'), std::string::npos) << file.error().message;
}

// No prefix of a file, and no file with a byte replaced, may do anything but parse or fail.
TEST(ParserTest, CutAndChangedFilesParseOrFail) {
  const std::string text = kFlag;
  int failed = 0;
  for (std::size_t n = 0; n < text.size(); ++n) {
    if (!parse(text.substr(0, n), "cut")) ++failed;
    std::string changed = text;
    changed[n] = '\x01';
    if (!parse(changed, "changed")) ++failed;
  }
  EXPECT_GT(failed, 200);
}

TEST(ParserTest, DeepNestingIsAnErrorNotACrash) {
  const std::string deep = "word x = " + std::string(100000, '(') + "1\n";
  EXPECT_FALSE(parse(deep, "deep"));
}

}  // namespace
}  // namespace cohort::litmus
