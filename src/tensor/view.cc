#include "cohort/tensor/view.h"

namespace cohort {

Region ViewFields::region() const {
  COHORT_CHECK(tensor != nullptr, "region of a view of nothing");
  const std::int64_t size = tensor->element_bytes();
  const std::int64_t begin = static_cast<const std::byte*>(data) - tensor->data;
  return Region::box(tensor->id, begin, row_count, col_count * size, pitch * size);
}

}  // namespace cohort
