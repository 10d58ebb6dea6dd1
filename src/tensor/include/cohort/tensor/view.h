#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "cohort/base/check.h"
#include "cohort/tensor/region.h"
#include "cohort/tensor/tensor.h"

namespace cohort {

/// What a view is made of, without its element type: a box of a tensor seen as a matrix.
struct ViewFields {
  const Tensor* tensor = nullptr;  ///< Null in a view of nothing.
  void* data = nullptr;            ///< Element (0, 0).
  std::int64_t row_count = 0;
  std::int64_t col_count = 0;
  std::int64_t pitch = 0;     ///< Elements from one row to the next.
  std::uint32_t version = 0;  ///< Of the tensor, counted by the graph; see InOut.
  std::int32_t operand = -1;  ///< Index in the task's operand table, once submitted.

  /// The bytes it covers. Requires: a view of a tensor.
  Region region() const;
};

/// A typed view whose slices are again of type `Self`.
template <class T, class Self>
class View : public ViewFields {
 public:
  bool is_null() const { return tensor == nullptr; }

  std::int64_t rows() const { return row_count; }
  std::int64_t cols() const { return col_count; }

  /// Rows [first, first + count). Requires: they exist.
  Self rows(std::int64_t first, std::int64_t count) const {
    COHORT_CHECK(0 <= first && 0 <= count && first + count <= row_count,
                 out_of_range("rows", first, count));
    Self slice = self();
    slice.data = element(first * pitch);
    slice.row_count = count;
    return slice;
  }

  /// Columns [first, first + count). Requires: they exist.
  Self cols(std::int64_t first, std::int64_t count) const {
    COHORT_CHECK(0 <= first && 0 <= count && first + count <= col_count,
                 out_of_range("cols", first, count));
    Self slice = self();
    slice.data = element(first);
    slice.col_count = count;
    return slice;
  }

  /// The same elements as another matrix. Requires: no holes, as many elements.
  Self reshaped(std::int64_t rows, std::int64_t cols) const {
    COHORT_CHECK(pitch == col_count || row_count <= 1, "reshape of a view with holes");
    COHORT_CHECK(rows * cols == row_count * col_count, "reshape to another number of elements");
    Self view = self();
    view.row_count = rows;
    view.col_count = cols;
    view.pitch = cols;
    return view;
  }

 protected:
  View() = default;
  explicit View(const ViewFields& fields) : ViewFields(fields) {}
  T* typed() const { return static_cast<T*>(data); }

 private:
  void* element(std::int64_t i) const { return const_cast<std::remove_const_t<T>*>(typed() + i); }
  const Self& self() const { return static_cast<const Self&>(*this); }
  std::string out_of_range(const char* what, std::int64_t first, std::int64_t count) const {
    return std::string(what) + " [" + std::to_string(first) + ", " + std::to_string(first + count) +
           ") of a view of " + std::to_string(row_count) + " x " + std::to_string(col_count) +
           (tensor != nullptr ? " of tensor " + tensor->name : "");
  }
};

}  // namespace cohort
