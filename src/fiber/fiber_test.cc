#include "cohort/fiber/fiber.h"

#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace cohort::fiber {
namespace {

constexpr std::size_t kStack = 256 * 1024;

// A fiber that hands everything over at every switch, as one thread's code would see it.
class Handing {
 public:
  explicit Handing(std::size_t stack_bytes) : fiber_(stack_bytes) {}
  void start(std::function<void()> job) {
    fiber_.start([this, job = std::move(job)] {
      tsan_acquire(this);
      job();
      tsan_release(this);
    });
  }
  void resume() {
    tsan_release(this);
    fiber_.resume();
    tsan_acquire(this);
  }
  void suspend() {
    tsan_release(this);
    fiber_.suspend();
    tsan_acquire(this);
  }
  bool is_finished() const { return fiber_.is_finished(); }

 private:
  Fiber fiber_;
};

TEST(FiberTest, RunsUntilItSuspendsAndGoesOnWhereItStopped) {
  Handing fiber(kStack);
  std::vector<int> steps;
  fiber.start([&] {
    steps.push_back(1);
    fiber.suspend();
    steps.push_back(3);
    fiber.suspend();
    steps.push_back(5);
  });
  fiber.resume();
  steps.push_back(2);
  EXPECT_FALSE(fiber.is_finished());
  fiber.resume();
  steps.push_back(4);
  fiber.resume();
  EXPECT_TRUE(fiber.is_finished());
  EXPECT_EQ(steps, (std::vector{1, 2, 3, 4, 5}));
}

TEST(FiberTest, TakesManyJobsOneAfterTheOther) {
  Handing fiber(kStack);
  int sum = 0;
  for (int n = 0; n < 1000; ++n) {
    fiber.start([&, n] {
      sum += n;
      if (n % 3 == 0) fiber.suspend();
      sum += 1;
    });
    while (!fiber.is_finished()) fiber.resume();
  }
  EXPECT_EQ(sum, 999 * 1000 / 2 + 1000);
}

TEST(FiberTest, ManyTakeTurns) {
  std::vector<std::unique_ptr<Handing>> fibers;
  std::vector<int> order;
  for (int f = 0; f < 64; ++f) {
    fibers.push_back(std::make_unique<Handing>(kStack));
    fibers.back()->start([&order, f, &fibers] {
      for (int turn = 0; turn < 10; ++turn) {
        order.push_back(f);
        fibers[static_cast<std::size_t>(f)]->suspend();
      }
    });
  }
  for (int turn = 0; turn < 11; ++turn) {
    for (const auto& fiber : fibers) {
      if (!fiber->is_finished()) fiber->resume();
    }
  }
  ASSERT_EQ(order.size(), 640u);
  for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], static_cast<int>(i % 64));
}

TEST(FiberTest, AFiberCanResumeAnother) {
  Handing outer(kStack);
  Handing inner(kStack);
  int value = 0;
  inner.start([&] {
    value = 1;
    inner.suspend();
    value = 3;
  });
  outer.start([&] {
    inner.resume();
    value += 1;
    outer.suspend();
    inner.resume();
  });
  outer.resume();
  EXPECT_EQ(value, 2);
  outer.resume();
  EXPECT_EQ(value, 3);
  EXPECT_TRUE(inner.is_finished());
}

// Uses `bytes` of stack, a page at a time.
int deep(std::size_t bytes) {
  char page[2048];
  std::memset(page, static_cast<int>(bytes & 0x7F), sizeof page);
  asm volatile("" ::"r"(&page[0]) : "memory");
  if (bytes < sizeof page) return page[7];
  return deep(bytes - sizeof page) + page[bytes % sizeof page] * 0;
}

TEST(FiberTest, TheWholeStackIsUsable) {
  Handing fiber(kStack);
  int result = -1;
  // Leaves room for the frames' own overhead, which sanitizers enlarge.
  fiber.start([&] { result = deep(kStack / 4); });
  fiber.resume();
  EXPECT_GE(result, 0);
}

TEST(FiberDeathTest, TheGuardPageEndsAnOverflow) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        Fiber fiber(64 * 1024);
        fiber.start([] { deep(64 * 1024 * 1024); });
        fiber.resume();
      },
      "");
}

TEST(FiberDeathTest, AnUnfinishedFiberCannotBeDestroyed) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        Fiber fiber(kStack);
        fiber.start([&] { fiber.suspend(); });
        fiber.resume();
      },
      "destroyed in the middle");
}

}  // namespace
}  // namespace cohort::fiber
