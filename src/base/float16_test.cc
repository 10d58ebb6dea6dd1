#include "cohort/base/float16.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "cohort/base/random.h"

namespace cohort {
namespace {

// The definition: the representable value nearest to x, ties to the even bit pattern.
std::uint16_t nearest_bfloat16(double x) {
  const auto magnitude = std::abs(x);
  std::uint16_t lo = 0;
  std::uint16_t hi = 0x7F80;
  const auto value = [](std::uint16_t bits) {
    if (bits == 0x7F80) return 0x1p128;  // Infinity stands for the next power of two.
    return static_cast<double>(BFloat16::from_bits(bits));
  };
  while (hi - lo > 1) {
    const auto mid = static_cast<std::uint16_t>((lo + hi) / 2);
    (value(mid) <= magnitude ? lo : hi) = mid;
  }
  const double below = magnitude - value(lo);
  const double above = value(hi) - magnitude;
  const std::uint16_t bits = below < above || (below == above && lo % 2 == 0) ? lo : hi;
  return static_cast<std::uint16_t>(bits | (std::signbit(x) ? 0x8000u : 0u));
}

TEST(BFloat16Test, RoundsToNearestEvenFromFloatAndDouble) {
  const Random random(1);
  for (std::uint64_t n = 0; n < 20000; ++n) {
    const auto f = std::bit_cast<float>(static_cast<std::uint32_t>(random.bits(n)));
    if (!std::isfinite(f)) continue;
    ASSERT_EQ(BFloat16(f).bits, nearest_bfloat16(f)) << f;
    const double d = static_cast<double>(f) * (1.0 + random.uniform(n) * 0x1p-20);
    ASSERT_EQ(BFloat16(d).bits, nearest_bfloat16(d)) << d;
  }
}

TEST(BFloat16Test, DoubleIsRoundedOnce) {
  // 1 + 2^-8 is a tie between 1 and 1 + 2^-7; a hair above it must go up, though the nearest float
  // is the tie itself.
  EXPECT_EQ(BFloat16(1.0 + 0x1p-8).bits, BFloat16(1.0f).bits);
  EXPECT_EQ(BFloat16(1.0 + 0x1p-8 + 0x1p-40).bits, BFloat16(1.0f + 0x1p-7f).bits);
  EXPECT_EQ(BFloat16(1.0 + 3 * 0x1p-8 - 0x1p-40).bits, BFloat16(1.0f + 0x1p-7f).bits);
  EXPECT_EQ(BFloat16(-1.0 - 0x1p-8 - 0x1p-40).bits, BFloat16(-1.0f - 0x1p-7f).bits);
}

TEST(BFloat16Test, KeepsSpecialValues) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(BFloat16(inf).bits, 0x7F80);
  EXPECT_EQ(BFloat16(-inf).bits, 0xFF80);
  EXPECT_EQ(BFloat16(-0.0f).bits, 0x8000);
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::max()).bits, 0x7F80);
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(std::bit_cast<float>(0x7F800001u)))));
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(std::nan("")))));
  EXPECT_EQ(BFloat16(0x1p-140f).bits, 0);
  EXPECT_EQ(BFloat16(std::bit_cast<float>(0x00010000u)).bits, 1);  // Denormals survive.
}

TEST(Float16Test, EveryValueRoundTrips) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Float16 h = Float16::from_bits(static_cast<std::uint16_t>(bits));
    const auto f = static_cast<float>(h);
    if (std::isnan(f)) {
      ASSERT_TRUE(std::isnan(static_cast<float>(Float16(f))));
    } else {
      ASSERT_EQ(Float16(f), h) << bits;
    }
  }
}

TEST(Float16Test, RoundsHalfwayToEvenBetweenNeighbours) {
  for (std::uint32_t bits = 0; bits < 0x7BFF; ++bits) {
    const auto lo = static_cast<float>(Float16::from_bits(static_cast<std::uint16_t>(bits)));
    const auto hi = static_cast<float>(Float16::from_bits(static_cast<std::uint16_t>(bits + 1)));
    const float mid = (lo + hi) / 2;
    const std::uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(Float16(mid).bits, even);
    ASSERT_EQ(Float16(std::nextafter(mid, 0.0f)).bits, bits);
    ASSERT_EQ(Float16(std::nextafter(mid, hi * 2)).bits, bits + 1);
    ASSERT_EQ(Float16(-mid).bits, even | 0x8000u);
  }
  EXPECT_EQ(Float16(65520.0f).bits, 0x7C00);
  EXPECT_EQ(Float16(std::nextafter(65520.0f, 0.0f)).bits, 0x7BFF);
}

}  // namespace
}  // namespace cohort
