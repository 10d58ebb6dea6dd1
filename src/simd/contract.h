#pragma once

#include <cstdint>
#include <string>

#include "cohort/base/check.h"
#include "cohort/base/tile.h"

/// The contracts of simd.h: shapes. Broken, they are a CHECK in every build; one call a tile makes
/// them cheap.
namespace cohort::simd {

inline std::string shape_text(std::int64_t rows, std::int64_t cols) {
  return "[" + std::to_string(rows) + ", " + std::to_string(cols) + "]";
}

/// `tile` is [rows, cols]. `what` is "function: operand".
template <class T>
void require_shape(const char* what, const Tile<T>& tile, std::int64_t rows, std::int64_t cols) {
  COHORT_CHECK(tile.rows == rows && tile.cols == cols, std::string(what) + " is " +
                                                           shape_text(tile.rows, tile.cols) +
                                                           ", expected " + shape_text(rows, cols));
}

/// `tile` has `rows` rows and at least `cols` columns.
template <class T>
void require_columns(const char* what, const Tile<T>& tile, std::int64_t rows, std::int64_t cols) {
  COHORT_CHECK(tile.rows == rows && tile.cols >= cols,
               std::string(what) + " is " + shape_text(tile.rows, tile.cols) + ", expected " +
                   shape_text(rows, cols) + " or more columns");
}

/// A tile of `count` columns fills registers of `multiple`.
inline void require_multiple(const char* what, std::int64_t count, std::int64_t multiple) {
  COHORT_CHECK(count % multiple == 0, std::string(what) + " has " + std::to_string(count) +
                                          " columns, expected a multiple of " +
                                          std::to_string(multiple));
}

}  // namespace cohort::simd
