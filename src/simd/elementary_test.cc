#include <cmath>

#include "cohort/simd/simd.h"

#include "definition.h"
#include "test_support.h"

namespace cohort::simd {
namespace {

// Distance of `actual` from the true value in units of the last place of the float nearest to it.
double ulps(float actual, long double truth) {
  const float near = static_cast<float>(truth);
  const float next = std::nextafter(std::abs(near), std::numeric_limits<float>::infinity());
  const long double ulp = static_cast<long double>(next) - std::abs(near);
  return static_cast<double>(std::abs(static_cast<long double>(actual) - truth) / ulp);
}

Buffer<float> samples(std::int64_t count, float (*value)(double)) {
  Buffer<float> x(1, count);
  for (std::int64_t i = 0; i < count; ++i) {
    x.tile(0, i) = value((static_cast<double>(i) + 0.5) / static_cast<double>(count));
  }
  return x;
}

template <class F, class G>
void expect_accurate(const Buffer<float>& x, double bound, F function, G truth) {
  for_each_target([&] {
    Buffer<float> y(1, x.tile.cols);
    function(x, y);
    double worst = 0;
    for (std::int64_t i = 0; i < x.tile.cols; ++i) {
      worst = std::max(worst, ulps(y.tile(0, i), truth(static_cast<long double>(x.tile(0, i)))));
    }
    EXPECT_LT(worst, bound);
    EXPECT_GT(worst, 0.4) << "an exact result would need more than float";
  });
}

template <class F>
void expect_definition(const Buffer<float>& x, F function, float (*definition)(float)) {
  Buffer<float> expected(1, x.tile.cols);
  for (std::int64_t i = 0; i < x.tile.cols; ++i) expected.tile(0, i) = definition(x.tile(0, i));
  for_each_target([&] {
    Buffer<float> actual(1, x.tile.cols);
    function(x, actual);
    EXPECT_TRUE(same_bits(actual, expected));
  });
}

constexpr auto kExp = [](Tile<const float> x, Tile<float> y) { exp(x, y); };
constexpr auto kLog1p = [](Tile<const float> x, Tile<float> y) { log1p(x, y); };

TEST(ElementaryTest, ExpIsAccurateWhereTheResultIsNormal) {
  const Buffer<float> x =
      samples(1 << 17, [](double u) { return static_cast<float>(-87.33 + 176.05 * u); });
  expect_accurate(x, 1.2, kExp, [](long double v) { return std::exp(v); });
  const Buffer<float> small =
      samples(1 << 16, [](double u) { return static_cast<float>(2.0 * u - 1.0); });
  expect_accurate(small, 1.2, kExp, [](long double v) { return std::exp(v); });
}

TEST(ElementaryTest, ExpRoundsDenormalResultsOnce) {
  const Buffer<float> x =
      samples(1 << 15, [](double u) { return static_cast<float>(-104.0 + 16.67 * u); });
  expect_accurate(x, 1.2, kExp, [](long double v) { return std::exp(v); });
}

TEST(ElementaryTest, ExpIsTheDefinitionsOnEveryTarget) {
  expect_definition(
      samples(1 << 16, [](double u) { return static_cast<float>(-110.0 + 210.0 * u); }), kExp,
      definition::exp);
  expect_definition(make(Values::kAwkward, 1, 1024, 50.0f), kExp, definition::exp);
}

TEST(ElementaryTest, ExpAtTheEdges) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float in[] = {0.0f,     -0.0f, kInf,   -kInf,    88.7228f,
                      88.7229f, 3e38f, -3e38f, -103.98f, 1e-40f};
  const float out[] = {1, 1, kInf, 0, std::exp(88.7228f), kInf, kInf, 0, 0, 1};
  Buffer<float> x(1, 16), y(1, 16);
  std::copy(std::begin(in), std::end(in), x.tile.data);
  x.tile(0, 10) = std::numeric_limits<float>::quiet_NaN();
  for_each_target([&] {
    exp(x, y);
    for (std::size_t i = 0; i < std::size(in); ++i) {
      if (i == 4) continue;
      EXPECT_EQ(y.tile.data[i], out[i]) << in[i];
    }
    EXPECT_LT(y.tile(0, 4), kInf);
    EXPECT_TRUE(std::isnan(y.tile(0, 10)));
  });
}

TEST(ElementaryTest, Log1pIsAccurateFromZeroToOne) {
  const Buffer<float> even = samples(1 << 16, [](double u) { return static_cast<float>(u); });
  expect_accurate(even, 1.4, kLog1p, [](long double v) { return std::log1p(v); });
  const Buffer<float> small =
      samples(1 << 16, [](double u) { return static_cast<float>(std::exp2(-126.0 * u)); });
  expect_accurate(small, 1.4, kLog1p, [](long double v) { return std::log1p(v); });
}

TEST(ElementaryTest, Log1pIsTheDefinitionsOnEveryTarget) {
  Buffer<float> x = samples(1 << 16, [](double u) { return static_cast<float>(u * u); });
  x.tile(0, 0) = 0.0f;
  x.tile(0, 1) = 1.0f;
  x.tile(0, 2) = 1e-45f;
  expect_definition(x, kLog1p, definition::log1p);
}

// Every upper half with the lower halves around a tie.
TEST(ElementaryTest, RoundingToBFloat16IsTheNearestAroundEveryTie) {
  constexpr std::uint32_t kLow[] = {0, 1, 0x7FFE, 0x7FFF, 0x8000, 0x8001, 0xFFFE, 0xFFFF};
  Buffer<float> x(1, 1 << 16);
  Buffer<BFloat16> y(1, 1 << 16);
  for (const std::uint32_t low : kLow) {
    for (std::uint32_t high = 0; high < 1 << 16; ++high) {
      x.tile(0, high) = std::bit_cast<float>(high << 16 | low);
    }
    for_each_target([&] {
      to_bfloat16(x, y);
      for (std::int64_t i = 0; i < x.tile.cols; ++i) {
        ASSERT_EQ(y.tile(0, i).bits, definition::nearest_bfloat16(x.tile(0, i)).bits)
            << std::bit_cast<std::uint32_t>(x.tile(0, i));
      }
    });
  }
}

}  // namespace
}  // namespace cohort::simd
