#pragma once

#include <atomic>

#include "cohort/fiber/fiber.h"

#if defined(__SANITIZE_ADDRESS__)
#define COHORT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define COHORT_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define COHORT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define COHORT_TSAN 1
#endif
#endif

#ifdef COHORT_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef COHORT_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace cohort::fiber {

/// Tells the sanitizers about one fiber's switches. In order: entering (on the resumer's stack),
/// entered (on the fiber's), leaving (on the fiber's), left (on the resumer's).
class Sanitizer {
 public:
  Sanitizer() {
#ifdef COHORT_TSAN
    inside_ = __tsan_create_fiber(0);
#endif
  }
  ~Sanitizer() {
#ifdef COHORT_TSAN
    __tsan_destroy_fiber(inside_);
#endif
  }
  Sanitizer(const Sanitizer&) = delete;
  Sanitizer& operator=(const Sanitizer&) = delete;

  void entering([[maybe_unused]] const Stack& stack) {
#ifdef COHORT_ASAN
    __sanitizer_start_switch_fiber(&resumer_fake_, stack.bottom(), stack.bytes());
#endif
#ifdef COHORT_TSAN
    outside_.store(__tsan_get_current_fiber(), std::memory_order_relaxed);
    __tsan_switch_to_fiber(inside_, __tsan_switch_to_fiber_no_sync);
#endif
  }
  void entered([[maybe_unused]] const Stack& stack) {
#ifdef COHORT_ASAN
    __sanitizer_finish_switch_fiber(fiber_fake_, &resumer_bottom_, &resumer_bytes_);
#endif
  }
  /// `finished`: what the fiber has let go of for good, if it has; nullptr otherwise.
  void leaving([[maybe_unused]] const void* finished = nullptr) {
#ifdef COHORT_ASAN
    __sanitizer_start_switch_fiber(&fiber_fake_, resumer_bottom_, resumer_bytes_);
#endif
#ifdef COHORT_TSAN
    void* outside = outside_.load(std::memory_order_relaxed);
    if (finished != nullptr) tsan_release(finished);
    __tsan_switch_to_fiber(outside, __tsan_switch_to_fiber_no_sync);
#endif
  }
  void left() {
#ifdef COHORT_ASAN
    __sanitizer_finish_switch_fiber(resumer_fake_, nullptr, nullptr);
#endif
  }

 private:
#ifdef COHORT_ASAN
  void* resumer_fake_ = nullptr;
  void* fiber_fake_ = nullptr;
  const void* resumer_bottom_ = nullptr;
  std::size_t resumer_bytes_ = 0;
#endif
#ifdef COHORT_TSAN
  void* inside_ = nullptr;
  std::atomic<void*> outside_ = nullptr;  // Set by the resumer, read by the fiber.
#endif
};

}  // namespace cohort::fiber
