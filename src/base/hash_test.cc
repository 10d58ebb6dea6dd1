#include "cohort/base/hash.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace cohort {
namespace {

TEST(HasherTest, IsTheSameEverywhere) {
  EXPECT_EQ(Hasher().digest(), Hasher().digest());
  EXPECT_EQ(Hasher().add("cohort").add(std::uint64_t{42}).digest(), 0x2B1A1E6B3CC5FEA2u)
      << std::hex << Hasher().add("cohort").add(std::uint64_t{42}).digest();
}

TEST(HasherTest, TellsApartEverySingleBitAndLength) {
  std::set<std::uint64_t> seen;
  std::string text(40, '\0');
  seen.insert(Hasher().add(text).digest());
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string other = text;
      other[i] = static_cast<char>(1 << bit);
      seen.insert(Hasher().add(other).digest());
    }
  }
  for (std::size_t n = 0; n < 40; ++n) seen.insert(Hasher().add(text.substr(0, n)).digest());
  EXPECT_EQ(seen.size(), 1u + 40u * 8u + 40u);
}

TEST(HasherTest, OrderAndDivisionMatter) {
  EXPECT_NE(Hasher().add("ab").add("c").digest(), Hasher().add("a").add("bc").digest());
  EXPECT_NE(Hasher().add(std::uint64_t{1}).add(std::uint64_t{2}).digest(),
            Hasher().add(std::uint64_t{2}).add(std::uint64_t{1}).digest());
}

}  // namespace
}  // namespace cohort
