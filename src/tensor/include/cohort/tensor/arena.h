#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace cohort {

/// Memory for tensors: allocations live as long as the arena.
///
/// Thread safety: none.
class Arena {
 public:
  Arena() = default;
  Arena(Arena&&) = default;
  Arena& operator=(Arena&&) = default;

  /// `bytes` zero bytes, aligned to kTensorAlignment and padded to whole lines. Large allocations
  /// are mapped lazily, so memory that nobody touches costs nothing.
  std::byte* allocate(std::int64_t bytes);

  /// Bytes handed out so far, padding included.
  std::int64_t allocated() const { return allocated_; }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::vector<std::unique_ptr<std::byte, Free>> blocks_;
  std::int64_t allocated_ = 0;
};

}  // namespace cohort
