#include "cohort/tensor/tensor.h"

#include <cstring>
#include <limits>

#include "cohort/base/check.h"

namespace cohort {
namespace {

// Repeats the `element_bytes` first bytes of `pattern` over the tensor.
void fill_pattern(const Tensor& tensor, std::uint64_t pattern) {
  const std::span<std::byte> memory = tensor.memory();
  const auto size = static_cast<std::size_t>(tensor.element_bytes());
  std::byte element[8];
  std::memcpy(element, &pattern, sizeof element);
  for (std::size_t i = 0; i + size <= memory.size(); i += size) {
    std::memcpy(memory.data() + i, element, size);
  }
}

template <class T>
std::uint64_t bits_of(T value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

template <class T>
std::uint64_t integer_bits(double value, const Tensor& tensor) {
  COHORT_CHECK(value == static_cast<double>(static_cast<T>(value)),
               "tensor " + tensor.name + " of " + std::string(name(tensor.dtype)) +
                   " can't hold the value " + std::to_string(value));
  return bits_of(static_cast<T>(value));
}

std::uint64_t element_bits(const Tensor& tensor, double value) {
  switch (tensor.dtype) {
    case DType::kFloat64:
      return bits_of(value);
    case DType::kFloat32:
      return bits_of(static_cast<float>(value));
    case DType::kFloat16:
      return bits_of(Float16(static_cast<float>(value)));
    case DType::kBFloat16:
      return bits_of(BFloat16(value));
    case DType::kInt64:
      return integer_bits<std::int64_t>(value, tensor);
    case DType::kInt32:
      return integer_bits<std::int32_t>(value, tensor);
    case DType::kInt16:
      return integer_bits<std::int16_t>(value, tensor);
    case DType::kInt8:
      return integer_bits<std::int8_t>(value, tensor);
    case DType::kUInt8:
    case DType::kBool:
      return integer_bits<std::uint8_t>(value, tensor);
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2:
      break;
  }
  COHORT_CHECK(value == 0.0, "an 8-bit float tensor can only be filled with 0");
  return 0;
}

}  // namespace

std::int64_t elements(const Shape& shape) {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) {
    COHORT_CHECK(extent >= 0, "negative extent in shape " + to_string(shape));
    COHORT_CHECK(extent == 0 || product <= std::numeric_limits<std::int64_t>::max() / extent,
                 "shape " + to_string(shape) + " has more than 2^63 elements");
    product *= extent;
  }
  return product;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

std::int64_t Tensor::rows() const { return shape.size() < 2 ? 1 : shape[0]; }

std::int64_t Tensor::cols() const {
  if (shape.size() < 2) return elements(shape);
  return elements(Shape(shape.begin() + 1, shape.end()));
}

std::uint64_t poison_pattern(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 0x7FF8DEADDEADDEADu;
    case DType::kFloat32:
      return 0x7FC0DEAD7FC0DEADu;
    case DType::kFloat16:
      return 0x7E017E017E017E01u;
    case DType::kBFloat16:
      return 0x7FC17FC17FC17FC1u;
    default:
      return 0x5A5A5A5A5A5A5A5Au;
  }
}

void poison(const Tensor& tensor) { fill_pattern(tensor, poison_pattern(tensor.dtype)); }

void fill(const Tensor& tensor, double value) {
  const std::uint64_t bits = element_bits(tensor, value);
  if (bits == 0) {
    std::memset(tensor.data, 0, tensor.memory().size());
  } else {
    fill_pattern(tensor, bits);
  }
}

}  // namespace cohort
