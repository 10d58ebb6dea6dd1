#include "cohort/fiber/fiber.h"

#include <atomic>
#include <utility>

#include <boost/context/detail/fcontext.hpp>
#include <sys/mman.h>
#include <unistd.h>

#include "cohort/base/check.h"

#include "sanitizer.h"

namespace cohort::fiber {
namespace {

namespace context = boost::context::detail;

std::size_t page_bytes() {
  static const auto kBytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return kBytes;
}

}  // namespace

Stack::Stack(std::size_t bytes) {
  const std::size_t page = page_bytes();
  bytes_ = (bytes + page - 1) / page * page;
  void* memory = mmap(nullptr, bytes_ + page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  COHORT_CHECK(memory != MAP_FAILED,
               "no memory for a fiber's stack of " + std::to_string(bytes_) + " bytes");
  mapping_ = static_cast<std::byte*>(memory);
  bottom_ = mapping_ + page;
  COHORT_CHECK(mprotect(mapping_, page, PROT_NONE) == 0, "a stack's guard page can't be protected");
}

Stack::Stack(Stack&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      bottom_(other.bottom_),
      bytes_(other.bytes_) {}

Stack::~Stack() {
  if (mapping_ != nullptr) munmap(mapping_, bytes_ + page_bytes());
}

struct Fiber::State {
  explicit State(std::size_t stack_bytes) : stack(stack_bytes) {}

  static void enter(context::transfer_t transfer);

  Stack stack;
  std::function<void()> job;
  // Atomic, not ordering: both sides use them, and a switch orders nothing.
  std::atomic<bool> finished = true;
  std::atomic<bool> running = false;
  std::atomic<context::fcontext_t> inside = nullptr;   // Where resume() continues.
  std::atomic<context::fcontext_t> outside = nullptr;  // Where suspend() continues.
  Sanitizer sanitizer;
};

// The fiber's own loop: a job, then back to resume(), then the next job.
void Fiber::State::enter(context::transfer_t transfer) {
  auto& state = *static_cast<State*>(transfer.data);
  for (context::fcontext_t outside = transfer.fctx;;) {
    tsan_acquire(&state);  // A job follows its start().
    state.outside.store(outside, std::memory_order_relaxed);
    state.sanitizer.entered(state.stack);
    state.job();
    state.finished.store(true, std::memory_order_relaxed);
    outside = state.outside.load(std::memory_order_relaxed);
    state.sanitizer.leaving(&state);  // From here the state may be reused or destroyed.
    outside = context::jump_fcontext(outside, &state).fctx;
  }
}

Fiber::Fiber(std::size_t stack_bytes) : state_(std::make_unique<State>(stack_bytes)) {
  state_->inside.store(
      context::make_fcontext(state_->stack.top(), state_->stack.bytes(), &State::enter),
      std::memory_order_relaxed);
}

Fiber::~Fiber() {
  tsan_acquire(state_.get());
  COHORT_CHECK(state_->finished, "a fiber is destroyed in the middle of its job");
}

void Fiber::start(std::function<void()> job) {
  COHORT_CHECK(state_->finished, "a fiber is given a job in the middle of another");
  tsan_acquire(state_.get());
  state_->job = std::move(job);
  tsan_release(state_.get());
  state_->finished.store(false, std::memory_order_relaxed);
}

void Fiber::resume() {
  State& state = *state_;
  COHORT_DCHECK(!state.finished && !state.running, "a fiber is resumed that can't run");
  state.running.store(true, std::memory_order_relaxed);
  state.sanitizer.entering(state.stack);
  state.inside.store(
      context::jump_fcontext(state.inside.load(std::memory_order_relaxed), &state).fctx,
      std::memory_order_relaxed);
  state.sanitizer.left();
  state.running.store(false, std::memory_order_relaxed);
}

void Fiber::suspend() {
  State& state = *state_;
  COHORT_DCHECK(state.running, "a fiber suspends that isn't running");
  state.sanitizer.leaving();
  state.outside.store(
      context::jump_fcontext(state.outside.load(std::memory_order_relaxed), &state).fctx,
      std::memory_order_relaxed);
  state.sanitizer.entered(state.stack);
}

bool Fiber::is_finished() const { return state_->finished.load(std::memory_order_relaxed); }

}  // namespace cohort::fiber
