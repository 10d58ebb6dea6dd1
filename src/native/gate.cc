#include "gate.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace cohort::native {

void Gate::wake(std::uint32_t count) {
  changes_.fetch_add(1);
  syscall(SYS_futex, &changes_, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

// A spurious or interrupted return is fine: the caller looks again.
void Gate::sleep(std::uint32_t seen, std::chrono::nanoseconds limit) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const timespec time{.tv_sec = limit.count() / kSecond, .tv_nsec = limit.count() % kSecond};
  const timespec* timeout = limit == std::chrono::nanoseconds::max() ? nullptr : &time;
  syscall(SYS_futex, &changes_, FUTEX_WAIT_PRIVATE, seen, timeout, nullptr, 0);
}

}  // namespace cohort::native
