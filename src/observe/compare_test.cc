#include "cohort/observe/compare.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace cohort::observe {
namespace {

using Values = std::vector<double>;

TEST(CompareTest, RatioAllowsSoManyAndNoMore) {
  Values expected(1000, 1.0);
  Values actual = expected;
  for (std::size_t i = 0; i < 5; ++i) actual[100 * i] = 1.5;
  const Tolerance tolerance{.atol = 0.1, .ratio = 0.005};
  EXPECT_TRUE(compare(actual, expected, tolerance, 4).pass);
  actual[999] = 1.6;
  const Comparison c = compare(actual, expected, tolerance, 4);
  EXPECT_FALSE(c.pass);
  EXPECT_EQ(c.bad, 6);
  EXPECT_EQ(c.allowed, 5);
  EXPECT_EQ(c.worst, 999);
  EXPECT_FALSE(c.bad_line);
}

TEST(CompareTest, TheBoundaryIsInside) {
  EXPECT_TRUE(compare(Values{1.5}, Values{1.0}, {.atol = 0.5}, 4).pass);
  EXPECT_TRUE(compare(Values{3.0}, Values{2.0}, {.atol = 0.0, .rtol = 0.5}, 4).pass);
  EXPECT_FALSE(compare(Values{3.0 + 1e-12}, Values{2.0}, {.atol = 0.0, .rtol = 0.5}, 4).pass);
}

TEST(CompareTest, NanAndInfinityAlwaysFail) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  const Tolerance loose{.atol = 1e300, .rtol = 1, .ratio = 1};
  EXPECT_FALSE(compare(Values{nan}, Values{nan}, loose, 4).pass);
  EXPECT_FALSE(compare(Values{inf}, Values{inf}, loose, 4).pass);
  EXPECT_FALSE(compare_bfloat16(Values{nan}, Values{0}, 1000000, 1).pass);
  EXPECT_FALSE(compare_relative(Values{nan}, Values{0}, 1, 1, inf, 4).pass);
}

TEST(CompareTest, AWholeBadLineIsNamed) {
  Values expected(64, 1.0);
  Values actual = expected;
  for (std::size_t i = 16; i < 31; ++i) actual[i] = 2.0;
  EXPECT_FALSE(compare(actual, expected, {.ratio = 1}, 4).bad_line);
  actual[31] = 2.0;
  const Comparison c = compare(actual, expected, {.ratio = 1}, 4);
  EXPECT_TRUE(c.bad_line);
  EXPECT_EQ(
      to_text(c, {4, 16}),
      "64 elements, 16 differ (64 allowed), worst at [1, 0]: 2 for 1; a whole 64-byte line is "
      "wrong, as if it were stale");
}

TEST(CompareTest, BFloat16CountsUlpsAcrossZero) {
  const double tiny = 0x1p-133;  // The smallest bfloat16.
  EXPECT_TRUE(compare_bfloat16(Values{tiny}, Values{-tiny}, 2, 1).pass);
  EXPECT_FALSE(compare_bfloat16(Values{tiny}, Values{-tiny}, 1, 1).pass);
  EXPECT_TRUE(compare_bfloat16(Values{1.0 + 0x1p-7}, Values{1.0}, 1, 1).pass);
  EXPECT_FALSE(compare_bfloat16(Values{1.0 + 0x1p-7}, Values{1.0}, 1, 0).pass);
}

TEST(CompareTest, RelativeDifferenceNeedsAnAbsoluteOneFirst) {
  const double inf = std::numeric_limits<double>::infinity();
  // Below the threshold in absolute terms nothing is bad, however far apart relatively.
  EXPECT_TRUE(compare_relative(Values{1e-3}, Values{1e-9}, 2e-3, 0, inf, 4).pass);
  EXPECT_FALSE(compare_relative(Values{0.5}, Values{0.4}, 2e-3, 0, inf, 4).pass);
  EXPECT_TRUE(compare_relative(Values{0.5}, Values{0.4}, 2e-3, 1, inf, 4).pass);
  EXPECT_FALSE(compare_relative(Values{0.5}, Values{0.4}, 2e-3, 1, 0.1, 4).pass);
}

TEST(CompareTest, BitsTellZeroesApartAndANanEqualsItself) {
  const float a[] = {0.0f, std::nanf(""), 1.0f};
  float b[] = {0.0f, std::nanf(""), 1.0f};
  EXPECT_TRUE(
      compare_bits(std::as_bytes(std::span(a)), std::as_bytes(std::span(b)), DType::kFloat32).pass);
  b[0] = -0.0f;
  const Comparison c =
      compare_bits(std::as_bytes(std::span(a)), std::as_bytes(std::span(b)), DType::kFloat32);
  EXPECT_FALSE(c.pass);
  EXPECT_EQ(c.bad, 1);
  EXPECT_EQ(c.worst, 0);
}

TEST(CompareTest, CoordinatesAreRowMajor) {
  EXPECT_EQ(coordinates(17, {2, 3, 4}), "[1, 1, 1]");
  EXPECT_EQ(coordinates(5, {24}), "[5]");
}

}  // namespace
}  // namespace cohort::observe
