#pragma once

#include <cstdint>
#include <string>

#include "cohort/base/quantity.h"

namespace cohort {

/// A box of bytes of one tensor: `rows` runs of `row_bytes` bytes, `pitch` bytes apart.
/// Normal form: a region without holes has one row; an empty one has none.
struct Region {
  TensorId tensor = {};
  std::int64_t begin = 0;  ///< First byte, from the tensor's first.
  std::int64_t rows = 0;
  std::int64_t row_bytes = 0;
  std::int64_t pitch = 0;  ///< At least row_bytes; row_bytes if there is one row.

  /// Brings a box to normal form.
  static Region box(TensorId tensor, std::int64_t begin, std::int64_t rows, std::int64_t row_bytes,
                    std::int64_t pitch);

  bool empty() const { return rows == 0; }
  bool contiguous() const { return rows <= 1; }
  /// One past the last byte.
  std::int64_t end() const { return empty() ? begin : begin + (rows - 1) * pitch + row_bytes; }
  std::int64_t bytes() const { return rows * row_bytes; }

  friend bool operator==(const Region&, const Region&) = default;
};

/// "bytes [0, 256)" or "8 rows of 2048 bytes, 8192 apart, from byte 4096".
std::string to_string(const Region& region);

/// Whether two regions have a byte in common.
struct Overlap {
  bool overlaps = false;
  bool approximate =
      false;  ///< Decided by comparing hulls: may be true although no byte is shared.
};

/// Exact if either region is contiguous or both have the same pitch and lie in columns of one
/// row-major matrix; any other pair is compared by hull.
Overlap overlap(const Region& a, const Region& b);

/// True only if every byte of `inner` is in `outer`; decided exactly wherever `overlap` is exact.
bool contains(const Region& outer, const Region& inner);

}  // namespace cohort
