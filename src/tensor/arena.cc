#include "cohort/tensor/arena.h"

#include <cstdlib>
#include <cstring>

#include "cohort/base/check.h"
#include "cohort/tensor/tensor.h"

namespace cohort {

void Arena::Free::operator()(std::byte* p) const { std::free(p); }

std::byte* Arena::allocate(std::int64_t bytes) {
  COHORT_CHECK(bytes >= 0, "allocation of a negative number of bytes");
  // calloc leaves fresh pages to the operating system's zero pages; aligned_alloc + memset would
  // touch them all. The slack for alignment is lost.
  const std::int64_t padded = (bytes + kTensorAlignment) / kTensorAlignment * kTensorAlignment;
  auto* raw =
      static_cast<std::byte*>(std::calloc(static_cast<std::size_t>(padded + kTensorAlignment), 1));
  COHORT_CHECK(raw != nullptr, "out of memory: " + std::to_string(padded) + " bytes for a tensor");
  blocks_.emplace_back(raw);
  allocated_ += padded;
  const auto address = reinterpret_cast<std::uintptr_t>(raw);
  const std::uintptr_t aligned =
      (address + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
  return raw + (aligned - address);
}

}  // namespace cohort
