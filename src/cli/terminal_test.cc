#include "terminal.h"

#include <gtest/gtest.h>

namespace cohort::cli {
namespace {

TEST(Wrapped, BreaksAtSpacesOnly) {
  EXPECT_EQ(wrapped("", 10, 0), "");
  EXPECT_EQ(wrapped("one two", 7, 0), "one two");
  EXPECT_EQ(wrapped("one two", 6, 0), "one\ntwo");
  EXPECT_EQ(wrapped("one two three", 9, 2), "one two\n  three");
  EXPECT_EQ(wrapped("incomprehensibilities a", 10, 4), "incomprehensibilities\n    a");
}

TEST(Colours, AreOnlyForTerminals) {
  // Tests run with their output in a pipe or file; on a terminal this says nothing.
  if (may_colour()) GTEST_SKIP() << "stdout is a terminal";
  EXPECT_EQ(good("pass"), "pass");
  EXPECT_EQ(bad("FAIL"), "FAIL");
}

}  // namespace
}  // namespace cohort::cli
