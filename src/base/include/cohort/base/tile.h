#pragma once

#include <cstdint>
#include <type_traits>

#include "cohort/base/check.h"

namespace cohort {

/// A 2-D piece of a tensor as a kernel sees it. Owns nothing.
///
/// Shapes: [rows, cols]; element (r, c) is data[r * pitch + c], pitch >= cols, in elements.
template <class T>
struct Tile {
  T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t pitch = 0;

  T* row(std::int64_t r) const {
    COHORT_DCHECK(0 <= r && r < rows, "tile row out of range");
    return data + r * pitch;
  }
  T& operator()(std::int64_t r, std::int64_t c) const {
    COHORT_DCHECK(0 <= c && c < cols, "tile column out of range");
    return row(r)[c];
  }

  /// The `count` columns from `first` on.
  Tile columns(std::int64_t first, std::int64_t count) const {
    COHORT_DCHECK(0 <= first && first + count <= cols, "tile columns out of range");
    return {data + first, rows, count, pitch};
  }

  operator Tile<const T>() const requires(!std::is_const_v<T>) { return {data, rows, cols, pitch}; }
};

}  // namespace cohort
