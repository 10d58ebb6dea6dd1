#include "cohort/lane/barrier.h"

#include <atomic>

// Sequentially consistent, and a read-modify-write to arrive: whoever arrives then asks whether
// somebody sleeps, and whoever is about to sleep first looks again.
namespace cohort {
namespace {

constexpr std::int64_t kSlotWords = 8;

std::atomic_ref<std::int32_t> word(const std::int32_t* workspace, std::int64_t index) {
  return std::atomic_ref<std::int32_t>(const_cast<std::int32_t&>(workspace[index]));
}

std::int64_t slot_of(const BoundMeeting& meeting, std::int64_t lane) {
  return meeting.first_word + kSlotWords * lane;
}

}  // namespace

std::int32_t arrive(Barrier barrier, std::int32_t* workspace, const BoundMeeting& meeting,
                    std::int64_t lane) {
  if (barrier == Barrier::kSlot) {
    const auto head = word(workspace, slot_of(meeting, lane));
    const std::int32_t target =
        head.load(std::memory_order_relaxed) + 1;  // Only this lane writes it.
    head.exchange(target);
    return target;
  }
  const auto expected = static_cast<std::int32_t>(meeting.expected);
  const std::int32_t before = word(workspace, meeting.first_word).fetch_add(1);
  return (before / expected + 1) * expected;
}

bool released(Barrier barrier, const std::int32_t* workspace, const BoundMeeting& meeting,
              std::int32_t target) {
  if (barrier == Barrier::kCounter) {
    return word(workspace, meeting.first_word).load() >= target;
  }
  for (std::int64_t lane = 0; lane < meeting.participants; ++lane) {
    if (word(workspace, slot_of(meeting, lane)).load() < target) {
      return false;
    }
  }
  return true;
}

std::int32_t arrivals(Barrier barrier, const std::int32_t* workspace, const BoundMeeting& meeting,
                      std::int64_t lane) {
  const std::int64_t index =
      barrier == Barrier::kSlot ? slot_of(meeting, lane) : meeting.first_word;
  return word(workspace, index).load(std::memory_order_relaxed);
}

}  // namespace cohort
