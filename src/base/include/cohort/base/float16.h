#pragma once

#include <bit>
#include <cstdint>

namespace cohort {

/// bfloat16: the upper 16 bits of a binary32. Storage only; arithmetic is done in float.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  /// Rounds to nearest, ties to even, in one step; a NaN stays a quiet NaN with its sign.
  explicit BFloat16(float value) : bits(round(std::bit_cast<std::uint32_t>(value))) {}
  /// Rounds to nearest, ties to even, from double in one step (no intermediate float).
  explicit BFloat16(double value);

  /// Exact.
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  explicit operator double() const { return static_cast<double>(static_cast<float>(*this)); }

  static BFloat16 from_bits(std::uint16_t bits) {
    BFloat16 value;
    value.bits = bits;
    return value;
  }

  /// Equality of bits: NaNs with the same bits are equal, +0 and -0 are not.
  friend bool operator==(BFloat16, BFloat16) = default;

 private:
  static std::uint16_t round(std::uint32_t u) {
    if ((u & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<std::uint16_t>((u >> 16) | 0x0040u);
    return static_cast<std::uint16_t>((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16);
  }
};

/// IEEE 754 binary16. Storage only.
struct Float16 {
  std::uint16_t bits = 0;

  Float16() = default;
  /// Rounds to nearest, ties to even; overflow gives infinity; a NaN stays a quiet NaN.
  explicit Float16(float value);

  /// Exact.
  explicit operator float() const;

  static Float16 from_bits(std::uint16_t bits) {
    Float16 value;
    value.bits = bits;
    return value;
  }

  friend bool operator==(Float16, Float16) = default;
};

}  // namespace cohort
