#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cohort/tensor/region.h"

namespace cohort {

/// A set of bytes of one tensor, as sorted disjoint intervals that don't touch.
///
/// Cost: O(intervals) for every operation between sets; add() of a region with n rows is amortised
///       O(n log n) on the next query.
class ByteSet {
 public:
  struct Interval {
    std::int64_t begin = 0;
    std::int64_t end = 0;  ///< One past the last byte.
    friend bool operator==(const Interval&, const Interval&) = default;
  };

  void add(const Region& region);
  void add(Interval interval);
  void add(const ByteSet& other);

  bool empty() const { return intervals().empty(); }
  /// How many bytes.
  std::int64_t bytes() const;
  /// How many 64-byte lines hold one of the bytes.
  std::int64_t lines() const;
  const std::vector<Interval>& intervals() const;

  bool meets(const ByteSet& other) const;
  bool contains(const ByteSet& other) const;
  ByteSet intersection(const ByteSet& other) const;
  ByteSet without(const ByteSet& other) const;
  /// Every line that holds one of the bytes, whole.
  ByteSet rounded_to_lines() const;

  friend bool operator==(const ByteSet& a, const ByteSet& b) {
    return a.intervals() == b.intervals();
  }

 private:
  // Sorted and merged on demand: many additions come before each query.
  mutable std::vector<Interval> intervals_;
  mutable bool normal_ = true;
};

/// "[0, 256) [512, 768) and 3 more".
std::string to_string(const ByteSet& set);

}  // namespace cohort
