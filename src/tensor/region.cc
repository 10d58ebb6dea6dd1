#include "cohort/tensor/region.h"

#include <algorithm>

#include "cohort/base/check.h"

namespace cohort {
namespace {

// A contiguous range against a region with rows: the first row that ends after the range's first
// byte decides.
bool range_meets_box(const Region& range, const Region& box) {
  const std::int64_t gap = range.begin - box.begin - box.row_bytes;
  const std::int64_t row = gap < 0 ? 0 : gap / box.pitch + 1;
  return row < box.rows && box.begin + row * box.pitch < range.end();
}

struct Interval {
  std::int64_t first;
  std::int64_t count;
  bool meets(const Interval& o) const {
    return first < o.first + o.count && o.first < first + count;
  }
  bool holds(const Interval& o) const {
    return first <= o.first && o.first + o.count <= first + count;
  }
};

// Two boxes of one row-major matrix of `pitch` bytes a row.
bool same_matrix(const Region& a, const Region& b) {
  return a.pitch == b.pitch && a.begin % a.pitch + a.row_bytes <= a.pitch &&
         b.begin % b.pitch + b.row_bytes <= b.pitch;
}
Interval row_interval(const Region& r) { return {r.begin / r.pitch, r.rows}; }
Interval column_interval(const Region& r) { return {r.begin % r.pitch, r.row_bytes}; }

}  // namespace

Region Region::box(TensorId tensor, std::int64_t begin, std::int64_t rows, std::int64_t row_bytes,
                   std::int64_t pitch) {
  COHORT_CHECK(rows >= 0 && row_bytes >= 0 && (rows <= 1 || pitch >= row_bytes),
               "a region needs a pitch of at least its row");
  if (rows == 0 || row_bytes == 0) return {tensor, begin, 0, 0, 0};
  if (rows == 1 || pitch == row_bytes)
    return {tensor, begin, 1, rows * row_bytes, rows * row_bytes};
  return {tensor, begin, rows, row_bytes, pitch};
}

std::string to_string(const Region& region) {
  if (region.contiguous()) {
    return "bytes [" + std::to_string(region.begin) + ", " + std::to_string(region.end()) + ")";
  }
  return std::to_string(region.rows) + " rows of " + std::to_string(region.row_bytes) + " bytes, " +
         std::to_string(region.pitch) + " apart, from byte " + std::to_string(region.begin);
}

Overlap overlap(const Region& a, const Region& b) {
  if (a.tensor != b.tensor || a.empty() || b.empty()) return {};
  if (a.begin >= b.end() || b.begin >= a.end()) return {};
  if (a.contiguous()) return {.overlaps = range_meets_box(a, b)};
  if (b.contiguous()) return {.overlaps = range_meets_box(b, a)};
  if (same_matrix(a, b)) {
    return {.overlaps = row_interval(a).meets(row_interval(b)) &&
                        column_interval(a).meets(column_interval(b))};
  }
  return {.overlaps = true, .approximate = true};
}

bool contains(const Region& outer, const Region& inner) {
  if (inner.empty()) return true;
  if (outer.tensor != inner.tensor || outer.empty()) return false;
  if (outer.contiguous()) return outer.begin <= inner.begin && inner.end() <= outer.end();
  if (inner.contiguous()) {
    // A range lies in a box with holes only if it lies in one of its rows.
    if (inner.begin < outer.begin) return false;
    const std::int64_t row = (inner.begin - outer.begin) / outer.pitch;
    return row < outer.rows && inner.end() <= outer.begin + row * outer.pitch + outer.row_bytes;
  }
  return same_matrix(outer, inner) && row_interval(outer).holds(row_interval(inner)) &&
         column_interval(outer).holds(column_interval(inner));
}

}  // namespace cohort
