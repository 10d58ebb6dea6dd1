#include "cohort/base/float16.h"

#include <cmath>

namespace cohort {

BFloat16::BFloat16(double value) {
  const auto u = std::bit_cast<std::uint64_t>(value);
  if ((u & 0x7FFF'FFFF'FFFF'FFFFu) > 0x7FF0'0000'0000'0000u) {
    bits = static_cast<std::uint16_t>(((u >> 48) & 0x8000u) | 0x7FC0u);
    return;
  }
  // Rounding to float by truncation with a sticky last bit keeps the second rounding exact: float
  // has 16 bits below bfloat16's, so the sticky bit never becomes a tie.
  auto near = static_cast<float>(value);
  auto f = std::bit_cast<std::uint32_t>(near);
  if (static_cast<double>(near) != value) {
    if (std::abs(static_cast<double>(near)) > std::abs(value)) --f;  // Back towards zero.
    f |= 1u;
  }
  bits = round(f);
}

Float16::Float16(float value) {
  const auto u = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((u >> 16) & 0x8000u);
  const std::uint32_t magnitude = u & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) {
    bits = static_cast<std::uint16_t>(sign | 0x7E00u);
    return;
  }
  if (magnitude >= 0x477FF000u) {  // Rounds to 65536 or beyond.
    bits = static_cast<std::uint16_t>(sign | 0x7C00u);
    return;
  }
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  const std::uint32_t significand = (magnitude & 0x7FFFFFu) | 0x800000u;
  const int shift = exponent < -14 ? 13 + (-14 - exponent) : 13;
  if (shift > 24) {  // Below half of the smallest subnormal.
    bits = sign;
    return;
  }
  const std::uint32_t kept = significand >> shift;
  const std::uint32_t rest = significand & ((1u << shift) - 1);
  const std::uint32_t half = 1u << (shift - 1);
  std::uint32_t rounded = kept + ((rest > half || (rest == half && (kept & 1u) != 0)) ? 1u : 0u);
  if (exponent >= -14) rounded += static_cast<std::uint32_t>(exponent + 14) << 10;
  bits = static_cast<std::uint16_t>(sign | rounded);
}

Float16::operator float() const {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1Fu;
  const std::uint32_t fraction = bits & 0x3FFu;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000u | (fraction << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float subnormal = static_cast<float>(fraction) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(subnormal));
}

}  // namespace cohort
