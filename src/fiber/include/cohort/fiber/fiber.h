#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace cohort::fiber {

/// Memory for a fiber's frames: whole pages below a page that faults, committed as they are used.
class Stack {
 public:
  /// At least `bytes` usable bytes. Aborts if the system has no address space left.
  explicit Stack(std::size_t bytes);
  Stack(Stack&& other) noexcept;
  Stack& operator=(Stack&&) = delete;
  ~Stack();

  std::byte* bottom() const { return bottom_; }  ///< Lowest usable byte.
  std::byte* top() const { return bottom_ + bytes_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* mapping_ = nullptr;
  std::byte* bottom_ = nullptr;
  std::size_t bytes_ = 0;
};

/// A function that can stop in the middle and be continued by the thread that resumed it. Reusable:
/// once a job is finished, start() gives the next.
///
/// Not saved by a switch: signal mask, floating-point control and thread-local variables belong to
/// the thread; so does the state of exceptions, therefore a fiber never suspends inside a `catch`
/// or a destructor. For ThreadSanitizer a job follows its start(), and start() the job before; a
/// switch orders nothing: whoever hands data across one says so with tsan_release and tsan_acquire.
///
/// Thread safety: a fiber is used by one thread only.
class Fiber {
 public:
  explicit Fiber(std::size_t stack_bytes);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  /// Requires: no unfinished job.
  ~Fiber();

  /// Sets the job that the next resume() begins. Requires: the one before is finished.
  void start(std::function<void()> job);
  /// Runs the job until it suspends or finishes. Requires: an unfinished job; not called from it.
  void resume();
  /// Called from inside the job: gives control back to resume().
  void suspend();

  bool is_finished() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Tells ThreadSanitizer that what happened before a release of `address` happens before what
/// follows an acquire of it. Nothing in other builds.
void tsan_release(const void* address);
void tsan_acquire(const void* address);

}  // namespace cohort::fiber
