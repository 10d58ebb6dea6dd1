#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cohort/base/quantity.h"
#include "cohort/tensor/dtype.h"

namespace cohort {

/// Extents, outermost first. A scalar has no extents and one element.
using Shape = std::vector<std::int64_t>;

/// Elements of a shape. Requires: no negative extent, product below 2^63.
std::int64_t elements(const Shape& shape);

/// "[8, 4096]".
std::string to_string(const Shape& shape);

/// The unit of cache maintenance: 64 aligned bytes of global memory.
inline constexpr std::int64_t kLineBytes = 64;
/// Every tensor starts at a multiple of this, so that no two tensors share a line.
inline constexpr std::int64_t kTensorAlignment = 512;

/// A named, typed, row-major array in global memory. Seen by kernels as a matrix: a vector is one
/// row, anything else has shape[0] rows of the product of the other extents.
struct Tensor {
  TensorId id = {};
  std::string name = {};
  DType dtype = DType::kFloat32;
  Shape shape = {};
  std::byte* data = nullptr;  ///< First byte; aligned to kTensorAlignment, unless external.
  std::int64_t address = 0;   ///< Address in the device's global memory; the same in every run.
  std::optional<double> initial =
      {};                   ///< Value of every element at the start of every run, if any.
  bool manual_dep = false;  ///< Makes no automatic edges.
  bool external = false;    ///< Its bytes belong to the caller.

  std::int64_t rows() const;
  std::int64_t cols() const;
  std::int64_t element_bytes() const { return size_of(dtype); }
  std::int64_t bytes() const { return elements(shape) * element_bytes(); }
  std::span<std::byte> memory() const { return {data, static_cast<std::size_t>(bytes())}; }
};

/// Fills a tensor's bytes with the pattern that marks memory nobody wrote: a quiet NaN 0x7FC0DEAD
/// for float, 0x7FC1 for 16-bit floats, 0x5A in every byte of an integer.
void poison(const Tensor& tensor);

/// The byte pattern of poison for one element, repeated to eight bytes.
std::uint64_t poison_pattern(DType dtype);

/// Sets every element to `value`, converted to the element type (rounded to nearest even).
/// Requires: an integer type can hold `value`.
void fill(const Tensor& tensor, double value);

}  // namespace cohort
