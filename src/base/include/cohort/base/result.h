#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "cohort/base/check.h"

namespace cohort {

/// What a caller can react to. A code exists only if some caller does something different for it;
/// everything else is kInvalidArgument plus a good message.
enum class ErrorCode {
  kInvalidArgument,  ///< The request can never succeed; fix the input.
  kNotFound,         ///< A named thing does not exist; the message may suggest another.
  kOutOfRange,       ///< A region or index is outside its tensor or buffer.
  kLimit,            ///< A budget (steps, bytes, time) ran out; retry with more.
  kIo,               ///< The operating system refused; its text is in the message.
};

/// Why something could not be done. `message` is lower case, without a full stop, names every
/// object involved, and shows both what was found and what was expected.
struct Error {
  ErrorCode code = ErrorCode::kInvalidArgument;
  std::string message = {};
};

/// An Error on its way out; `return fail(code, message);` at every failing exit.
struct Unexpected {
  Error error;
};
[[nodiscard]] inline Unexpected fail(ErrorCode code, std::string message) {
  return {{code, std::move(message)}};
}
[[nodiscard]] inline Unexpected fail(Error error) { return {std::move(error)}; }

/// Either a T or an Error: the part of std::expected<T, Error> that Cohort uses, spelled the same,
/// so that it becomes an alias once every supported compiler has it. Stricter in one way: reading
/// the wrong side is a failed CHECK, not undefined.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Unexpected unexpected) : state_(std::in_place_index<1>, std::move(unexpected.error)) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & { return require_value(), std::get<0>(state_); }
  const T& value() const& { return require_value(), std::get<0>(state_); }
  T&& value() && { return require_value(), std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const {
    COHORT_CHECK(!has_value(), "error() of a Result that holds a value");
    return std::get<1>(state_);
  }

 private:
  void require_value() const {
    COHORT_CHECK(has_value(), "value of a failed Result: " + std::get<1>(state_).message);
  }

  std::variant<T, Error> state_;
};

/// Success, or why not.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Unexpected unexpected) : error_(std::move(unexpected.error)) {}

  bool has_value() const { return !error_.has_value(); }
  explicit operator bool() const { return has_value(); }
  void value() const { COHORT_CHECK(has_value(), "value of a failed Status: " + error_->message); }
  const Error& error() const {
    COHORT_CHECK(error_.has_value(), "error() of a Status that is success");
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace cohort

#define COHORT_TRY_CONCAT_(a, b) a##b
#define COHORT_TRY_NAME_(line) COHORT_TRY_CONCAT_(cohort_try_, line)

/// `COHORT_TRY(const auto id, graph.find(name));` declares `id`, or returns the error.
#define COHORT_TRY(declaration, ...)                                                          \
  auto COHORT_TRY_NAME_(__LINE__) = (__VA_ARGS__);                                            \
  if (!COHORT_TRY_NAME_(__LINE__)) return ::cohort::fail(COHORT_TRY_NAME_(__LINE__).error()); \
  declaration = *std::move(COHORT_TRY_NAME_(__LINE__))

/// `COHORT_TRY_STATUS(file.flush());` returns the error, if there is one.
#define COHORT_TRY_STATUS(...)                                \
  do {                                                        \
    if (auto cohort_status = (__VA_ARGS__); !cohort_status) { \
      return ::cohort::fail(cohort_status.error());           \
    }                                                         \
  } while (false)
