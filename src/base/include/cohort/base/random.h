#pragma once

#include <array>
#include <cstdint>

namespace cohort {

/// One block of Philox 4x32-10: four random words that depend on counter and key alone.
/// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key);

/// A stream of random numbers that can be read at any index, in any order, with the same result on
/// every machine and compiler: the n-th number depends only on seed, stream and n.
///
/// Thread safety: const members are safe.
class Random {
 public:
  /// `stream` tells apart the uses of one seed (one per tensor, say).
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  /// The n-th 64 random bits.
  std::uint64_t bits(std::uint64_t n) const;
  /// The n-th number of a uniform distribution over [0, 1), a multiple of 2^-53.
  double uniform(std::uint64_t n) const;
  /// The n-th integer of a uniform distribution over [0, bound). Requires: bound > 0.
  std::uint64_t below(std::uint64_t n, std::uint64_t bound) const;
  /// The n-th number of the standard normal distribution. Box-Muller over polynomials of our own in
  /// + - * / sqrt, so that no mathematical library decides a bit.
  double normal(std::uint64_t n) const;

  /// Draws in sequence: next() is bits(0), bits(1), ...
  std::uint64_t next() { return bits(position_++); }
  std::uint64_t next_below(std::uint64_t bound) { return below(position_++, bound); }
  double next_uniform() { return uniform(position_++); }

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t position_ = 0;
};

}  // namespace cohort
