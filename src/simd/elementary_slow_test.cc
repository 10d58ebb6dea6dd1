#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cohort/simd/simd.h"

#include "definition.h"
#include "test_support.h"

namespace cohort::simd {
namespace {

constexpr std::int64_t kBatch = 1 << 16;

// Calls f(x) with the floats of bits [first, last), kBatch at a time; the last batch is filled up
// with its last value.
template <class F>
void for_all_floats(std::uint64_t first, std::uint64_t last, F f) {
  Buffer<float> x(1, kBatch);
  for (std::uint64_t start = first; start < last; start += kBatch) {
    for (std::int64_t i = 0; i < kBatch; ++i) {
      const std::uint64_t bits = std::min(start + static_cast<std::uint64_t>(i), last - 1);
      x.tile(0, i) = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    }
    f(x);
    if (testing::Test::HasFatalFailure()) return;
  }
}

std::uint64_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

// The distance in ulps of double `truth`, which is exact enough: an ulp of float is 2^29 of its.
double ulps(float actual, double truth) {
  const float near = static_cast<float>(truth);
  const float next = std::nextafter(std::abs(near), std::numeric_limits<float>::infinity());
  return std::abs(static_cast<double>(actual) - truth) /
         (static_cast<double>(next) - std::abs(near));
}

TEST(ElementarySlowTest, RoundingToBFloat16IsTheNearestForAllFloats) {
  Buffer<BFloat16> y(1, kBatch);
  for_all_floats(0, std::uint64_t{1} << 32, [&](const Buffer<float>& x) {
    to_bfloat16(x, y);
    for (std::int64_t i = 0; i < kBatch; ++i) {
      const float value = x.tile(0, i);
      ASSERT_EQ(y.tile(0, i).bits, definition::nearest_bfloat16(value).bits) << bits_of(value);
      ASSERT_EQ(y.tile(0, i).bits, BFloat16(value).bits) << bits_of(value);
    }
  });
}

template <class F, class G>
double worst_ulps(float first, float last, F function, G truth) {
  Buffer<float> y(1, kBatch);
  double worst = 0;
  for_all_floats(bits_of(first), bits_of(last) + 1, [&](const Buffer<float>& x) {
    function(x, y);
    for (std::int64_t i = 0; i < kBatch; ++i) {
      worst = std::max(worst, ulps(y.tile(0, i), truth(static_cast<double>(x.tile(0, i)))));
    }
  });
  return worst;
}

TEST(ElementarySlowTest, ExpOfAllFloatsWithAFiniteResult) {
  const auto f = [](Tile<const float> x, Tile<float> y) { exp(x, y); };
  const auto truth = [](double v) { return std::exp(v); };
  const double positive = worst_ulps(0.0f, 88.7228f, f, truth);
  const double negative = worst_ulps(-0.0f, -104.0f, f, truth);
  std::printf("exp: at most %.4f ulp above 0, %.4f below\n", positive, negative);
  EXPECT_LT(std::max(positive, negative), 1.2);
}

TEST(ElementarySlowTest, Log1pOfAllFloatsFromZeroToOne) {
  const double worst = worst_ulps(
      0.0f, 1.0f, [](Tile<const float> x, Tile<float> y) { log1p(x, y); },
      [](double v) { return std::log1p(v); });
  std::printf("log1p: at most %.4f ulp\n", worst);
  EXPECT_LT(worst, 1.4);
}

}  // namespace
}  // namespace cohort::simd
