#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>

#include <sched.h>

namespace cohort::native {

/// How long a waiter stays awake before it sleeps.
struct Patience {
  bool spins = true;  ///< False with more workers than CPUs: who is waited for may need this one.

  static constexpr std::chrono::nanoseconds kSpin{2000};
  static constexpr int kYields = 40;

  /// Spins, then yields the CPU. Returns whether `ready()` came true.
  template <class Ready>
  bool wait_awake(Ready ready) const {
    if (spins) {
      const auto start = std::chrono::steady_clock::now();
      do {
        for (int i = 0; i < 16; ++i) {
          if (ready()) return true;
          pause();
        }
      } while (std::chrono::steady_clock::now() - start < kSpin);
    }
    for (int i = 0; i < kYields; ++i) {
      if (ready()) return true;
      sched_yield();
    }
    return ready();
  }

 private:
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
};

/// Where threads sleep until a condition that others make true.
///
/// No wake-up is lost: a waiter announces itself before it looks at the condition for the last
/// time, and a notifier changes the condition before it looks for waiters. Both steps of both are
/// sequentially consistent, which the condition's change and its test have to be too.
class Gate {
 public:
  /// Wakes up to `count` sleepers. The condition was changed by a sequentially consistent
  /// read-modify-write before.
  void notify(std::uint32_t count = std::numeric_limits<std::int32_t>::max()) {
    if (sleepers_.load() != 0) wake(count);
  }

  /// Sleeps until `ready()`.
  template <class Ready>
  void sleep_until(Ready ready) {
    sleepers_.fetch_add(1);
    for (std::uint32_t seen = changes_.load(); !ready(); seen = changes_.load()) {
      sleep(seen, std::chrono::nanoseconds::max());
    }
    sleepers_.fetch_sub(1);
  }

  /// Sleeps until `ready()`, for at most `limit`; returns `ready()`.
  template <class Ready>
  bool sleep_until(Ready ready, std::chrono::nanoseconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    sleepers_.fetch_add(1);
    bool is_ready = false;
    for (;;) {
      const std::uint32_t seen = changes_.load();
      is_ready = ready();
      const auto left = end - std::chrono::steady_clock::now();
      if (is_ready || left <= left.zero()) break;
      sleep(seen, left);
    }
    sleepers_.fetch_sub(1);
    return is_ready;
  }

 private:
  void wake(std::uint32_t count);
  void sleep(std::uint32_t seen, std::chrono::nanoseconds limit);

  std::atomic<std::uint32_t> changes_{0};  // A futex: 32 bits.
  std::atomic<std::int32_t> sleepers_{0};
};

}  // namespace cohort::native
