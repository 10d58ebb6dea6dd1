#include "cohort/tensor/byte_set.h"

#include <bitset>

#include <gtest/gtest.h>

#include "cohort/base/random.h"

namespace cohort {
namespace {

constexpr std::size_t kBytes = 400;
using Bits = std::bitset<kBytes>;

struct Pair {
  ByteSet set;
  Bits bits;
};

Pair random_set(Random& random) {
  Pair p;
  const std::uint64_t pieces = random.next_below(8);
  for (std::uint64_t n = 0; n < pieces; ++n) {
    const auto width = static_cast<std::int64_t>(random.next_below(20));
    const auto pitch = width + static_cast<std::int64_t>(random.next_below(20));
    const auto rows = 1 + static_cast<std::int64_t>(random.next_below(4));
    const auto begin = static_cast<std::int64_t>(random.next_below(200));
    p.set.add(Region::box({}, begin, rows, width, pitch));
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t b = 0; b < width; ++b) {
        p.bits.set(static_cast<std::size_t>(begin + r * pitch + b));
      }
    }
  }
  return p;
}

Bits bits_of(const ByteSet& set) {
  Bits bits;
  std::int64_t last = -1;
  for (const ByteSet::Interval& i : set.intervals()) {
    EXPECT_GT(i.begin, last);  // Sorted, disjoint, not touching.
    EXPECT_GT(i.end, i.begin);
    last = i.end;
    for (std::int64_t b = i.begin; b < i.end; ++b) bits.set(static_cast<std::size_t>(b));
  }
  return bits;
}

TEST(ByteSetTest, AgreesWithBitsets) {
  Random random(17);
  for (int n = 0; n < 5000; ++n) {
    const Pair a = random_set(random);
    const Pair b = random_set(random);
    ASSERT_EQ(bits_of(a.set), a.bits);
    ASSERT_EQ(a.set.bytes(), static_cast<std::int64_t>(a.bits.count()));
    ASSERT_EQ(bits_of(a.set.intersection(b.set)), a.bits & b.bits);
    ASSERT_EQ(bits_of(a.set.without(b.set)), a.bits & ~b.bits);
    ASSERT_EQ(a.set.meets(b.set), (a.bits & b.bits).any());
    ASSERT_EQ(a.set.contains(b.set), (b.bits & ~a.bits).none());
    ByteSet both = a.set;
    both.add(b.set);
    ASSERT_EQ(bits_of(both), a.bits | b.bits);
    ASSERT_EQ(both == a.set, (a.bits | b.bits) == a.bits);
  }
}

TEST(ByteSetTest, RoundsOutToLines) {
  ByteSet set;
  set.add(ByteSet::Interval{60, 70});
  set.add(ByteSet::Interval{130, 131});
  EXPECT_EQ(set.lines(), 3);
  EXPECT_EQ(to_string(set.rounded_to_lines()), "[0, 192)");
  EXPECT_EQ(to_string(ByteSet()), "no bytes");
  for (std::int64_t i = 0; i < 6; ++i) set.add(ByteSet::Interval{1000 * i + 300, 1000 * i + 301});
  EXPECT_EQ(to_string(set), "[60, 70) [130, 131) [300, 301) [1300, 1301) and 4 more");
}

}  // namespace
}  // namespace cohort
