#include "cohort/observe/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "cohort/base/check.h"
#include "cohort/base/float16.h"

namespace cohort::observe {
namespace {

// Counts bad elements, the worst one, and whether all of some line are bad.
class Tally {
 public:
  Tally(std::int64_t count, std::int64_t element_bytes)
      : per_line_(std::max<std::int64_t>(1, kLineBytes / element_bytes)) {
    result_.compared = count;
  }

  // `excess` orders elements by how bad they are: above 0 is bad.
  void add(std::int64_t i, double actual, double expected, double excess) {
    if (i % per_line_ == 0) bad_in_line_ = 0;
    if (excess > 0) {
      ++result_.bad;
      if (++bad_in_line_ == per_line_) result_.bad_line = true;
    }
    if (result_.worst >= 0 && excess <= worst_excess_) return;
    worst_excess_ = excess;
    result_.worst = i;
    result_.actual = actual;
    result_.expected = expected;
    result_.worst_difference = std::abs(actual - expected);
  }

  Comparison finish(double ratio, bool failed = false) {
    result_.allowed =
        static_cast<std::int64_t>(std::nearbyint(ratio * static_cast<double>(result_.compared)));
    result_.pass = !failed && result_.bad <= result_.allowed;
    return result_;
  }

 private:
  std::int64_t per_line_;
  std::int64_t bad_in_line_ = 0;
  double worst_excess_ = -std::numeric_limits<double>::infinity();
  Comparison result_;
};

void check_sizes(std::size_t actual, std::size_t expected) {
  COHORT_CHECK(actual == expected, "comparison of " + std::to_string(actual) + " elements with " +
                                       std::to_string(expected));
}

template <class T>
double value_at(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return static_cast<double>(value);
}

double float16_at(const std::byte* p) {
  Float16 value;
  std::memcpy(&value, p, sizeof value);
  return static_cast<double>(static_cast<float>(value));
}

double element_at(const std::byte* p, DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return value_at<double>(p);
    case DType::kFloat32:
      return value_at<float>(p);
    case DType::kFloat16:
      return float16_at(p);
    case DType::kBFloat16:
      return value_at<BFloat16>(p);
    case DType::kInt64:
      return value_at<std::int64_t>(p);
    case DType::kInt32:
      return value_at<std::int32_t>(p);
    case DType::kInt16:
      return value_at<std::int16_t>(p);
    case DType::kInt8:
      return value_at<std::int8_t>(p);
    case DType::kUInt8:
    case DType::kBool:
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2:
      return value_at<std::uint8_t>(p);
  }
  return 0;
}

// Bit patterns in the order of the values they stand for, so that a difference counts ulps.
std::int64_t ordered_bits(double bfloat16_value) {
  const std::int64_t bits = BFloat16(bfloat16_value).bits;
  return (bits & 0x8000) != 0 ? -(bits & 0x7FFF) : bits;
}

}  // namespace

Comparison compare(std::span<const double> actual, std::span<const double> expected,
                   const Tolerance& tolerance, std::int64_t element_bytes) {
  check_sizes(actual.size(), expected.size());
  Tally tally(static_cast<std::int64_t>(actual.size()), element_bytes);
  bool failed = false;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    double excess = std::abs(actual[i] - expected[i]) -
                    (tolerance.atol + tolerance.rtol * std::abs(expected[i]));
    if (!std::isfinite(actual[i]) || !std::isfinite(expected[i])) {
      failed = true;
      excess = std::numeric_limits<double>::infinity();
    }
    tally.add(static_cast<std::int64_t>(i), actual[i], expected[i], excess);
  }
  return tally.finish(tolerance.ratio, failed);
}

Comparison compare_bfloat16(std::span<const double> actual, std::span<const double> expected,
                            std::int64_t ulps, double ratio) {
  check_sizes(actual.size(), expected.size());
  Tally tally(static_cast<std::int64_t>(actual.size()), 2);
  bool failed = false;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    double excess = -1;
    if (!std::isfinite(actual[i]) || !std::isfinite(expected[i])) {
      failed = true;
      excess = std::numeric_limits<double>::infinity();
    } else {
      const std::int64_t apart = std::abs(ordered_bits(actual[i]) - ordered_bits(expected[i]));
      failed = failed || apart > ulps;
      excess = static_cast<double>(apart);
    }
    tally.add(static_cast<std::int64_t>(i), actual[i], expected[i], excess);
  }
  return tally.finish(ratio, failed);
}

Comparison compare_relative(std::span<const double> actual, std::span<const double> expected,
                            double threshold, double ratio, double max,
                            std::int64_t element_bytes) {
  check_sizes(actual.size(), expected.size());
  Tally tally(static_cast<std::int64_t>(actual.size()), element_bytes);
  bool failed = false;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double d = std::abs(actual[i] - expected[i]);
    const double base =
        std::max({std::abs(actual[i]), std::abs(expected[i]), 0x1p-14 / threshold}) + 1e-9;
    const double r = d < threshold ? d : d / base;
    const bool finite = std::isfinite(actual[i]) && std::isfinite(expected[i]);
    if (!finite || (r > threshold && r >= max)) failed = true;
    tally.add(static_cast<std::int64_t>(i), actual[i], expected[i],
              finite ? r - threshold : std::numeric_limits<double>::infinity());
  }
  return tally.finish(ratio, failed);
}

Comparison compare_bits(std::span<const std::byte> actual, std::span<const std::byte> expected,
                        DType dtype) {
  check_sizes(actual.size(), expected.size());
  const auto size = static_cast<std::size_t>(size_of(dtype));
  Tally tally(static_cast<std::int64_t>(actual.size() / size), size_of(dtype));
  if (std::memcmp(actual.data(), expected.data(), actual.size()) == 0) return tally.finish(0);
  for (std::size_t i = 0; i < actual.size() / size; ++i) {
    const std::byte* a = actual.data() + i * size;
    const std::byte* e = expected.data() + i * size;
    if (std::memcmp(a, e, size) == 0) {
      tally.add(static_cast<std::int64_t>(i), 0, 0, -1);
      continue;
    }
    const double x = element_at(a, dtype);
    const double y = element_at(e, dtype);
    const double apart = std::abs(x - y);
    tally.add(static_cast<std::int64_t>(i), x, y,
              std::isfinite(apart) && apart > 0 ? apart : std::numeric_limits<double>::max());
  }
  return tally.finish(0);
}

std::vector<double> to_doubles(std::span<const std::byte> bytes, DType dtype) {
  const auto size = static_cast<std::size_t>(size_of(dtype));
  std::vector<double> values(bytes.size() / size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = element_at(bytes.data() + i * size, dtype);
  }
  return values;
}

std::vector<double> to_doubles(const Tensor& tensor) {
  return to_doubles(tensor.memory(), tensor.dtype);
}

std::string coordinates(std::int64_t element, const Shape& shape) {
  Shape at(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    at[d] = element % shape[d];
    element /= shape[d];
  }
  return to_string(at);
}

std::string to_text(const Comparison& c, const Shape& shape) {
  if (c.compared == 0) return "nothing to compare";
  std::string text = fmt::format("{} elements, ", c.compared);
  if (c.bad == 0 && c.worst_difference == 0 && c.pass) return text + "all equal";
  text += c.bad == 0 ? "all within tolerance" : fmt::format("{} differ", c.bad);
  if (c.bad > 0 && c.allowed > 0) text += fmt::format(" ({} allowed)", c.allowed);
  text += fmt::format(", worst at {}: {:.9g} for {:.9g}", coordinates(c.worst, shape), c.actual,
                      c.expected);
  if (c.bad_line) text += "; a whole 64-byte line is wrong, as if it were stale";
  return text;
}

}  // namespace cohort::observe
