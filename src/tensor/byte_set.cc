#include "cohort/tensor/byte_set.h"

#include <algorithm>

#include "cohort/tensor/tensor.h"

namespace cohort {
namespace {

std::int64_t line_of(std::int64_t byte) { return byte / kLineBytes; }

}  // namespace

void ByteSet::add(const Region& region) {
  for (std::int64_t r = 0; r < region.rows; ++r) {
    const std::int64_t begin = region.begin + r * region.pitch;
    add(Interval{begin, begin + region.row_bytes});
  }
}

void ByteSet::add(Interval interval) {
  if (interval.begin >= interval.end) return;
  // Additions in ascending order stay in normal form without sorting.
  if (normal_ && !intervals_.empty() && interval.begin <= intervals_.back().end &&
      interval.begin >= intervals_.back().begin) {
    intervals_.back().end = std::max(intervals_.back().end, interval.end);
    return;
  }
  normal_ = normal_ && (intervals_.empty() || interval.begin > intervals_.back().end);
  intervals_.push_back(interval);
}

void ByteSet::add(const ByteSet& other) {
  for (const Interval& interval : other.intervals()) add(interval);
}

const std::vector<ByteSet::Interval>& ByteSet::intervals() const {
  if (normal_) return intervals_;
  std::ranges::sort(intervals_, {}, &Interval::begin);
  std::size_t kept = 0;
  for (std::size_t i = 1; i < intervals_.size(); ++i) {
    if (intervals_[i].begin <= intervals_[kept].end) {
      intervals_[kept].end = std::max(intervals_[kept].end, intervals_[i].end);
    } else {
      intervals_[++kept] = intervals_[i];
    }
  }
  intervals_.resize(kept + 1);
  normal_ = true;
  return intervals_;
}

std::int64_t ByteSet::bytes() const {
  std::int64_t total = 0;
  for (const Interval& i : intervals()) total += i.end - i.begin;
  return total;
}

std::int64_t ByteSet::lines() const { return rounded_to_lines().bytes() / kLineBytes; }

ByteSet ByteSet::rounded_to_lines() const {
  ByteSet lines;
  for (const Interval& i : intervals()) {
    lines.add(Interval{line_of(i.begin) * kLineBytes, (line_of(i.end - 1) + 1) * kLineBytes});
  }
  return lines;
}

ByteSet ByteSet::intersection(const ByteSet& other) const {
  ByteSet common;
  const auto& a = intervals();
  const auto& b = other.intervals();
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    common.add(Interval{std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end)});
    ++(a[i].end < b[j].end ? i : j);
  }
  return common;
}

bool ByteSet::meets(const ByteSet& other) const {
  const auto& a = intervals();
  const auto& b = other.intervals();
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (std::max(a[i].begin, b[j].begin) < std::min(a[i].end, b[j].end)) return true;
    ++(a[i].end < b[j].end ? i : j);
  }
  return false;
}

bool ByteSet::contains(const ByteSet& other) const { return other.without(*this).empty(); }

ByteSet ByteSet::without(const ByteSet& other) const {
  ByteSet rest;
  const auto& holes = other.intervals();
  std::size_t j = 0;
  for (Interval i : intervals()) {
    while (j < holes.size() && holes[j].end <= i.begin) ++j;
    for (std::size_t k = j; k < holes.size() && holes[k].begin < i.end; ++k) {
      rest.add(Interval{i.begin, std::min(holes[k].begin, i.end)});
      i.begin = std::max(i.begin, holes[k].end);
    }
    rest.add(i);
  }
  return rest;
}

std::string to_string(const ByteSet& set) {
  constexpr std::size_t kShown = 4;
  std::string text;
  const auto& intervals = set.intervals();
  for (std::size_t i = 0; i < std::min(kShown, intervals.size()); ++i) {
    if (i > 0) text += ' ';
    text +=
        "[" + std::to_string(intervals[i].begin) + ", " + std::to_string(intervals[i].end) + ")";
  }
  if (intervals.size() > kShown) {
    text += " and " + std::to_string(intervals.size() - kShown) + " more";
  }
  return text.empty() ? "no bytes" : text;
}

}  // namespace cohort
