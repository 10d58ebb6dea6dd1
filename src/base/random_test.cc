#include "cohort/base/random.h"

#include <bit>
#include <cmath>

#include <gtest/gtest.h>

namespace cohort {
namespace {

// Known answers published with the reference implementation of Philox 4x32-10 (Random123).
TEST(PhiloxTest, MatchesThePublishedVectors) {
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::uint32_t f = 0xffffffff;
  EXPECT_EQ(philox({f, f, f, f}, {f, f}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomTest, NormalAgreesWithTheMathematicalLibrary) {
  const Random random(7, 3);
  for (std::uint64_t n = 0; n < 100000; n += 2) {
    const double u1 = 1.0 - random.uniform(n);
    const double u2 = random.uniform(n + 1);
    const double r = std::sqrt(-2.0 * std::log(u1));
    ASSERT_NEAR(random.normal(n), r * std::cos(2 * M_PI * u2), 1e-14);
    ASSERT_NEAR(random.normal(n + 1), r * std::sin(2 * M_PI * u2), 1e-14);
  }
}

TEST(RandomTest, NormalHasTheMomentsOfTheStandardNormal) {
  const Random random(11);
  constexpr int kCount = 400000;
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0;
  for (int n = 0; n < kCount; ++n) {
    const double x = random.normal(static_cast<std::uint64_t>(n));
    m1 += x;
    m2 += x * x;
    m3 += x * x * x;
    m4 += x * x * x * x;
  }
  EXPECT_NEAR(m1 / kCount, 0.0, 0.01);
  EXPECT_NEAR(m2 / kCount, 1.0, 0.01);
  EXPECT_NEAR(m3 / kCount, 0.0, 0.03);
  EXPECT_NEAR(m4 / kCount, 3.0, 0.06);
}

// Golden: these numbers are the input of every fixture, so they may never change.
TEST(RandomTest, TheFirstNormalsOfThreeSeedsAreGolden) {
  constexpr std::uint64_t kGolden[3][16] = {
#include "normal_golden.inc"
  };
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const Random random(seed);
    for (std::uint64_t n = 0; n < 16; ++n) {
      EXPECT_EQ(std::bit_cast<std::uint64_t>(random.normal(n)), kGolden[seed][n])
          << "seed " << seed << " n " << n << " is " << std::hex
          << std::bit_cast<std::uint64_t>(random.normal(n));
    }
  }
}

TEST(RandomTest, SequenceIsTheIndexedStream) {
  Random sequence(5, 9);
  const Random indexed(5, 9);
  for (std::uint64_t n = 0; n < 100; ++n) EXPECT_EQ(sequence.next(), indexed.bits(n));
}

TEST(RandomTest, BelowStaysBelowAndReachesEveryValue) {
  const Random random(1);
  int seen[7] = {};
  for (std::uint64_t n = 0; n < 7000; ++n) {
    const std::uint64_t value = random.below(n, 7);
    ASSERT_LT(value, 7u);
    ++seen[value];
  }
  for (const int count : seen) EXPECT_NEAR(count, 1000, 150);
}

TEST(RandomTest, StreamsAndSeedsDiffer) {
  EXPECT_NE(Random(1, 0).bits(0), Random(1, 1).bits(0));
  EXPECT_NE(Random(1, 0).bits(0), Random(2, 0).bits(0));
}

}  // namespace
}  // namespace cohort
