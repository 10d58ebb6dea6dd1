#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cohort/tensor/tensor.h"

namespace cohort::observe {

/// What a comparison of two tensors found.
struct Comparison {
  bool pass = true;
  std::int64_t compared = 0;  ///< Elements.
  std::int64_t bad = 0;       ///< Elements outside the tolerance.
  std::int64_t allowed = 0;   ///< How many of those the comparison accepts.
  std::int64_t worst =
      -1;               ///< Index of the element furthest outside (or furthest off, if none is).
  double actual = 0;    ///< There.
  double expected = 0;  ///< There.
  double worst_difference = 0;  ///< |actual - expected| there.
  bool bad_line =
      false;  ///< Every element of some whole 64-byte line is bad: looks like stale data.
};

/// How far apart two elements may be: |a - e| <= atol + rtol |e|, in all but round(ratio * count)
/// elements, ties to even. A NaN or infinity on either side is always bad, and fails the
/// comparison.
struct Tolerance {
  double atol = 0;
  double rtol = 0;
  double ratio = 0;
};

/// Compares element by element. `element_bytes` is the tensor's, for finding bad lines.
/// Requires: as many elements on both sides.
Comparison compare(std::span<const double> actual, std::span<const double> expected,
                   const Tolerance& tolerance, std::int64_t element_bytes);

/// Compares values that both are bfloat16: at most `ulps` apart, and different at all in at most
/// round(ratio * count) elements.
Comparison compare_bfloat16(std::span<const double> actual, std::span<const double> expected,
                            std::int64_t ulps, double ratio);

/// Relative difference with a floor: d = |a - e|, r = d if d < threshold else d / (max(|a|, |e|,
/// 2^-14 / threshold) + 1e-9); an element is bad if r > threshold; passes if at most round(ratio *
/// count) are bad and the worst r is below `max`.
Comparison compare_relative(std::span<const double> actual, std::span<const double> expected,
                            double threshold, double ratio, double max, std::int64_t element_bytes);

/// Compares bytes; a NaN equals itself.
Comparison compare_bits(std::span<const std::byte> actual, std::span<const std::byte> expected,
                        DType dtype);

/// The elements of a tensor as doubles; exact for every type but int64 beyond 2^53.
std::vector<double> to_doubles(const Tensor& tensor);
std::vector<double> to_doubles(std::span<const std::byte> bytes, DType dtype);

/// "32768 elements, 3 differ (33 allowed), worst at [2, 17]: 0.5 for 0.25".
std::string to_text(const Comparison& comparison, const Shape& shape);

/// "[2, 17]": the coordinates of an element.
std::string coordinates(std::int64_t element, const Shape& shape);

/// One tensor of a run against what it should be.
struct OutputCheck {
  std::string tensor = {};
  std::string rule =
      {};  ///< The tolerance in words: "rel 2e-6", "exact", "1 bf16 ulp, 0.1 % flips".
  Shape shape = {};
  Comparison comparison = {};
};

}  // namespace cohort::observe
