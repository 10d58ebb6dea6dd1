#pragma once

#include <compare>
#include <cstdint>

namespace cohort {

/// An integer with a unit. Adds to its own kind only, so time can't be added to bytes, and a bare
/// integer can't be passed where a quantity is meant.
template <class Tag>
struct Quantity {
  std::int64_t value = 0;

  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return {a.value + b.value}; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return {a.value - b.value}; }
  friend constexpr Quantity operator*(Quantity a, std::int64_t n) { return {a.value * n}; }
  constexpr Quantity& operator+=(Quantity b) { return value += b.value, *this; }
};

using Bytes = Quantity<struct BytesTag>;  ///< Bytes of storage or traffic.
using Nanos = Quantity<struct NanosTag>;  ///< Wall-clock nanoseconds. Never used by `device`.
using Picos = Quantity<struct PicosTag>;  ///< Virtual picoseconds of `device`.

/// An index that names one kind of thing. Dense from zero, stable for the life of its owner, and
/// ordered by creation so that iteration is deterministic.
template <class Tag>
struct Id {
  std::uint32_t value = 0;
  friend constexpr auto operator<=>(Id, Id) = default;
};

using TensorId = Id<struct TensorTag>;
using TaskId = Id<struct TaskTag>;

}  // namespace cohort
