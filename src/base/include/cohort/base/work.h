#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace cohort {

/// The vector operations that a device profile prices. kReduce folds one register row to a scalar;
/// kCast covers conversions in either direction; kSelect covers max, min, compare and select.
enum class Operation : std::uint8_t {
  kAdd,
  kMul,
  kFma,
  kDiv,
  kSqrt,
  kExp,
  kLog,
  kSelect,
  kCast,
  kReduce,
  kSort,
  kCopy,
  kMatmulInt8,     ///< One repeat is a 16 x 16 x 32 product on the cube core.
  kMatmulFloat32,  ///< One repeat is a 16 x 16 x 8 product on the cube core.
};
inline constexpr int kOperations = 14;

/// The name of an operation as profiles and reports write it: "add", "mul", ...
std::string_view name(Operation operation);

/// `elements` applications of one operation: what a `simd` call does to its tile.
/// A device issues it as repeats of one 256-byte register row; see `register_rows`.
struct WorkItem {
  Operation operation = Operation::kAdd;
  std::int64_t elements = 0;

  friend bool operator==(const WorkItem&, const WorkItem&) = default;
};

/// 256-byte register rows that `elements` 32-bit lanes fill.
constexpr std::int64_t register_rows(std::int64_t elements) { return (elements + 63) / 64; }

/// What a call costs, as a list of counted operations; borrowed for the length of the call.
using Work = std::span<const WorkItem>;

}  // namespace cohort
