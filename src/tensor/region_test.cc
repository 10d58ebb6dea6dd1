#include "cohort/tensor/region.h"

#include <set>

#include <gtest/gtest.h>

#include "cohort/base/random.h"

namespace cohort {
namespace {

std::set<std::int64_t> bytes_of(const Region& r) {
  std::set<std::int64_t> bytes;
  for (std::int64_t row = 0; row < r.rows; ++row) {
    for (std::int64_t b = 0; b < r.row_bytes; ++b) bytes.insert(r.begin + row * r.pitch + b);
  }
  return bytes;
}

bool share(const std::set<std::int64_t>& a, const std::set<std::int64_t>& b) {
  for (const std::int64_t x : a) {
    if (b.contains(x)) return true;
  }
  return false;
}

// A random box of a matrix of `pitch` bytes a row, a tenth of them empty.
Region random_box(Random& random, std::int64_t pitch) {
  const auto pick = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(random.next_below(static_cast<std::uint64_t>(bound)));
  };
  const std::int64_t column = pick(pitch);
  const std::int64_t width = pick(10) == 0 ? 0 : 1 + pick(pitch - column);
  return Region::box({}, pick(6) * pitch + column, 1 + pick(5), width, pitch);
}

Region random_range(Random& random) {
  const auto begin = static_cast<std::int64_t>(random.next_below(60));
  const auto size = static_cast<std::int64_t>(random.next_below(30));
  return Region::box({}, begin, 1, size, size);
}

TEST(RegionTest, OverlapAndContainsAreExactForBoxesOfOneMatrixAndForRanges) {
  Random random(3);
  int overlapping = 0;
  int contained = 0;
  for (int n = 0; n < 20000; ++n) {
    const std::int64_t pitch = 1 + static_cast<std::int64_t>(random.next_below(12));
    const Region a = random.next_below(3) == 0 ? random_range(random) : random_box(random, pitch);
    const Region b = random.next_below(3) == 0 ? random_range(random) : random_box(random, pitch);
    const auto bytes_a = bytes_of(a);
    const auto bytes_b = bytes_of(b);
    const Overlap o = overlap(a, b);
    ASSERT_FALSE(o.approximate);
    ASSERT_EQ(o.overlaps, share(bytes_a, bytes_b)) << to_string(a) << " / " << to_string(b);
    bool inside = true;
    for (const std::int64_t x : bytes_b) inside = inside && bytes_a.contains(x);
    ASSERT_EQ(contains(a, b), inside) << to_string(a) << " / " << to_string(b);
    overlapping += o.overlaps ? 1 : 0;
    contained += inside && !b.empty() ? 1 : 0;
  }
  EXPECT_GT(overlapping, 2000);
  EXPECT_GT(contained, 500);
}

TEST(RegionTest, OtherPairsAreComparedByHullAndNeverMissAByte) {
  Random random(4);
  int approximate = 0;
  for (int n = 0; n < 20000; ++n) {
    const Region a = random_box(random, 4 + static_cast<std::int64_t>(random.next_below(4)));
    const Region b = random_box(random, 8 + static_cast<std::int64_t>(random.next_below(4)));
    const Overlap o = overlap(a, b);
    const bool truth = share(bytes_of(a), bytes_of(b));
    if (o.approximate) {
      ++approximate;
      ASSERT_TRUE(o.overlaps);
    } else {
      ASSERT_EQ(o.overlaps, truth);
    }
    if (contains(a, b)) {
      for (const std::int64_t x : bytes_of(b)) ASSERT_TRUE(bytes_of(a).contains(x));
    }
  }
  EXPECT_GT(approximate, 1000);
}

TEST(RegionTest, OtherTensorsNeverOverlap) {
  EXPECT_FALSE(overlap(Region::box({1}, 0, 1, 8, 8), Region::box({2}, 0, 1, 8, 8)).overlaps);
  EXPECT_FALSE(contains(Region::box({1}, 0, 1, 8, 8), Region::box({2}, 0, 1, 8, 8)));
}

TEST(RegionTest, NormalFormHasNoHolesInOneRow) {
  EXPECT_EQ(Region::box({}, 8, 4, 16, 16), Region::box({}, 8, 1, 64, 64));
  EXPECT_TRUE(Region::box({}, 8, 4, 0, 16).empty());
  EXPECT_EQ(to_string(Region::box({}, 8, 4, 16, 16)), "bytes [8, 72)");
  EXPECT_EQ(to_string(Region::box({}, 4096, 8, 2048, 8192)),
            "8 rows of 2048 bytes, 8192 apart, from byte 4096");
}

}  // namespace
}  // namespace cohort
