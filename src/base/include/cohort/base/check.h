#pragma once

#include <string>

namespace cohort {

/// Called with "file:line: text" when a COHORT_CHECK fails. It must not return.
using CheckHandler = void (*)(const std::string& message);

/// Installs the handler of failed checks and returns the one before; nullptr restores the default,
/// which prints to stderr and aborts. Tests install one that throws.
///
/// Thread safety: safe.
CheckHandler set_check_handler(CheckHandler handler);

namespace detail {
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);
}  // namespace detail
}  // namespace cohort

/// Aborts, in every build, if `condition` is false: a contract was broken by the caller or by
/// Cohort. The second argument is a string that says which. Not for input: that is a Result.
#define COHORT_CHECK(condition, message) \
  (static_cast<bool>(condition)          \
       ? static_cast<void>(0)            \
       : ::cohort::detail::check_failed(__FILE__, __LINE__, #condition, (message)))

/// COHORT_CHECK in debug builds only, for inner loops.
#ifdef NDEBUG
#define COHORT_DCHECK(condition, message) static_cast<void>(0)
#else
#define COHORT_DCHECK(condition, message) COHORT_CHECK(condition, message)
#endif
