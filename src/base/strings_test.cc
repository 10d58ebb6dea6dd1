#include "cohort/base/strings.h"

#include <vector>

#include <gtest/gtest.h>

namespace cohort {
namespace {

TEST(DidYouMean, SuggestsWithinTwoEdits) {
  const std::vector<std::string> words = {"pre-norm", "hc-chain", "moe"};
  EXPECT_EQ(closest("prenorm", words), "pre-norm");
  EXPECT_EQ(closest("hc-chian", words), "hc-chain");
  EXPECT_EQ(closest("hc_chian", words), "hc-chain");  // A letter and a swap.
  EXPECT_EQ(closest("ch_chian", words), "");          // And another swap.
  EXPECT_EQ(closest("xy", words), "");                // As far as it is long.
  EXPECT_EQ(closest("tyo", std::vector<std::string>{"pro", "toy"}), "toy");
  EXPECT_EQ(did_you_mean("mo", words), ", did you mean 'moe'?");
  EXPECT_EQ(did_you_mean("quick", words), "");
}

TEST(Printable, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(printable("a b"), "a b");
  EXPECT_EQ(printable("\x1b[2J\n\xff"), "\\x1B[2J\\x0A\\xFF");
}

}  // namespace
}  // namespace cohort
