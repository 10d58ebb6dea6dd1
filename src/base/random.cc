#include "cohort/base/random.h"

#include <bit>
#include <cmath>

#include "cohort/base/check.h"

namespace cohort {
namespace {

// Natural logarithm of x in (0, 1], error below 1e-15: x = m * 2^e, m in [sqrt(1/2), sqrt(2)), and
// log(m) = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.1716, as its Taylor series.
double log_of(double x) {
  const auto u = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>((u >> 52) & 0x7FF) - 1022;
  double m = std::bit_cast<double>((u & 0x000F'FFFF'FFFF'FFFFu) | 0x3FE0'0000'0000'0000u);
  if (m < 0.70710678118654752) {
    m = m * 2.0;
    --exponent;
  }
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double series = 0.0;
  for (int k = 21; k >= 1; k -= 2) series = series * z + 1.0 / k;
  return 2.0 * s * series + static_cast<double>(exponent) * 0.69314718055994531;
}

// sin and cos of t in [-pi/4, pi/4] as Taylor series; error below 1e-16.
double sin_of(double t) {
  const double z = t * t;
  double series = 0.0;
  for (int k = 17; k >= 1; k -= 2) series = 1.0 - series * z / ((k + 1.0) * (k + 2.0));
  return t * series;
}
double cos_of(double t) {
  const double z = t * t;
  double series = 0.0;
  for (int k = 16; k >= 0; k -= 2) series = 1.0 - series * z / ((k + 1.0) * (k + 2.0));
  return series;
}

struct SinCos {
  double sin;
  double cos;
};

// sin and cos of 2 pi u, u in [0, 1).
SinCos sincos_turn(double u) {
  const double quarters = u * 4.0;
  const int nearest = static_cast<int>(quarters + 0.5);
  const double t = (quarters - nearest) * 1.5707963267948966;
  const double s = sin_of(t);
  const double c = cos_of(t);
  switch (nearest & 3) {
    case 0:
      return {s, c};
    case 1:
      return {c, -s};
    case 2:
      return {-s, -c};
    default:
      return {-c, s};
  }
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> c,
                                    std::array<std::uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(p0)};
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  return c;
}

std::uint64_t Random::bits(std::uint64_t n) const {
  const std::uint64_t block = n / 2;
  const auto words =
      philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
              static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32)},
             {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)});
  const std::size_t first = (n % 2) * 2;
  return std::uint64_t{words[first]} | (std::uint64_t{words[first + 1]} << 32);
}

double Random::uniform(std::uint64_t n) const {
  return static_cast<double>(bits(n) >> 11) * 0x1p-53;
}

std::uint64_t Random::below(std::uint64_t n, std::uint64_t bound) const {
  COHORT_CHECK(bound > 0, "a uniform integer needs a bound above 0");
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(bits(n)) * bound) >> 64);
}

double Random::normal(std::uint64_t n) const {
  const std::uint64_t pair = n & ~std::uint64_t{1};
  const double radius = std::sqrt(-2.0 * log_of(1.0 - uniform(pair)));
  const SinCos angle = sincos_turn(uniform(pair + 1));
  return radius * ((n & 1) != 0 ? angle.sin : angle.cos);
}

}  // namespace cohort
