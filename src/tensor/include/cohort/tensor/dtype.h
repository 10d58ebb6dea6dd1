#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "cohort/base/float16.h"

namespace cohort {

/// The element types a tensor can have.
enum class DType : std::uint8_t {
  kFloat64,
  kFloat32,
  kFloat16,
  kBFloat16,
  kFloat8E4M3,
  kFloat8E5M2,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUInt8,
  kBool,
};
inline constexpr int kDTypes = 12;

/// Bytes of one element.
std::int64_t size_of(DType dtype);

/// The name used in messages and in safetensors: "F32", "BF16", "I8", ...
std::string_view name(DType dtype);
std::optional<DType> dtype_named(std::string_view name);

template <class T>
inline constexpr bool kHasDType = false;
template <class T>
inline constexpr DType kDTypeOf = DType::kFloat32;

#define COHORT_DTYPE_(type, dtype)              \
  template <>                                   \
  inline constexpr bool kHasDType<type> = true; \
  template <>                                   \
  inline constexpr DType kDTypeOf<type> = dtype;
COHORT_DTYPE_(double, DType::kFloat64)
COHORT_DTYPE_(float, DType::kFloat32)
COHORT_DTYPE_(Float16, DType::kFloat16)
COHORT_DTYPE_(BFloat16, DType::kBFloat16)
COHORT_DTYPE_(std::int64_t, DType::kInt64)
COHORT_DTYPE_(std::int32_t, DType::kInt32)
COHORT_DTYPE_(std::int16_t, DType::kInt16)
COHORT_DTYPE_(std::int8_t, DType::kInt8)
COHORT_DTYPE_(std::uint8_t, DType::kUInt8)
#undef COHORT_DTYPE_

/// A C++ type that can be the element of a tensor.
template <class T>
concept Element = kHasDType<T>;

}  // namespace cohort
