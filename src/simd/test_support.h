#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include "cohort/base/random.h"
#include "cohort/base/tile.h"

#include "scalar_vec.h"

namespace cohort::simd {

/// A tile with its memory: rows lie apart, so that a pitch that is ignored shows, and what lies
/// between them is compared too, so that a store beyond a row shows.
template <class T>
struct Buffer {
  Buffer(std::int64_t rows, std::int64_t cols)
      : values(static_cast<std::size_t>(rows * (cols + 16)), T(42.0f)),
        tile{values.data(), rows, cols, cols + 16} {}
  Buffer(const Buffer& other) : values(other.values), tile(other.tile) {
    tile.data = values.data();
  }
  Buffer& operator=(const Buffer&) = delete;
  operator Tile<const T>() const { return tile; }
  operator Tile<T>() { return tile; }

  std::vector<T> values;
  Tile<T> tile;
};

inline bool is_nan(float x) { return std::isnan(x); }
inline bool is_nan(BFloat16 x) { return std::isnan(static_cast<float>(x)); }
inline bool is_nan(std::int8_t) { return false; }

/// Every byte is the same, but that two NaNs are equal: which of several NaNs an operation returns
/// depends on the order of its operands, which is not ours.
template <class T>
testing::AssertionResult same_bits(const Buffer<T>& actual, const Buffer<T>& expected) {
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    const T a = actual.values[i], e = expected.values[i];
    if (std::memcmp(&a, &e, sizeof(T)) == 0 || (is_nan(a) && is_nan(e))) continue;
    const auto at = static_cast<std::int64_t>(i);
    return testing::AssertionFailure()
           << "(" << at / expected.tile.pitch << ", " << at % expected.tile.pitch << ") is "
           << static_cast<float>(a) << ", expected " << static_cast<float>(e);
  }
  return testing::AssertionSuccess();
}

/// Test data: normal numbers, or half of them values that a vector unit might treat differently
/// from the definition: zeros, denormals, the largest, infinities, halves.
enum class Values { kNormal, kAwkward };
inline constexpr Values kAllValues[] = {Values::kNormal, Values::kAwkward};

template <class T = float>
Buffer<T> make(Values kind, std::int64_t rows, std::int64_t cols, float scale = 1.0f) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kAwkward[] = {0.0f,   -0.0f,  1.0f,  -1.0f,  1e-40f, -1e-40f, 3e38f,
                                -3e38f, kInf,   -kInf, 0.5f,   1.5f,   2.5f,    1e-20f,
                                87.0f,  -87.0f, 89.f,  -103.f, 1e-45f};
  static std::uint64_t stream = 0;
  const Random random(42, ++stream);
  Buffer<T> b(rows, cols);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const auto i = static_cast<std::uint64_t>(r * cols + c);
      const std::uint64_t pick = random.bits(2 * i + 1);
      const bool awkward = kind == Values::kAwkward && pick % 2 == 0;
      b.tile(r, c) = T(awkward ? kAwkward[(pick >> 8) % std::size(kAwkward)]
                               : scale * static_cast<float>(random.normal(i)));
    }
  }
  return b;
}

/// Runs `f` once for every target that the library holds and this CPU can run, the baseline
/// included. Fails without AVX2: nothing would be compared.
inline void for_each_target(const std::function<void()>& f) {
  constexpr std::int64_t kHeld = HWY_AVX2 | HWY_AVX3 | HWY_STATIC_TARGET;
  const std::int64_t targets = (hwy::SupportedTargets() | HWY_STATIC_TARGET) & kHeld;
  ASSERT_NE(targets & (HWY_AVX2 | HWY_AVX3), 0) << "no vector target ran";
  for (std::int64_t rest = targets; rest != 0; rest &= rest - 1) {
    const std::int64_t target = rest & -rest;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    f();
    hwy::SetSupportedTargetsForTest(0);
  }
}

/// What CountingVec and CountingFloat counted since the last call is what `work` lists.
template <class Work>
void expect_counts(const Work& work) {
  std::array<std::int64_t, kOperations> listed = {};
  for (const WorkItem& item : work) {
    listed[static_cast<std::size_t>(item.operation)] += item.elements;
  }
  for (std::size_t o = 0; o < kOperations; ++o) {
    EXPECT_EQ(listed[o], CountingVec::counts[o]) << name(static_cast<Operation>(o));
  }
  CountingVec::counts = {};
}

}  // namespace cohort::simd
