#include "cohort/base/check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace cohort {
namespace {

void print_and_abort(const std::string& message) {
  std::fprintf(stderr, "cohort: internal error: %s\n", message.c_str());
  std::abort();
}

std::atomic<CheckHandler> g_handler = nullptr;  // Tests replace it.

}  // namespace

CheckHandler set_check_handler(CheckHandler handler) { return g_handler.exchange(handler); }

namespace detail {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  const std::string text = std::string(file) + ":" + std::to_string(line) + ": CHECK(" + condition +
                           ") failed: " + message;
  if (const CheckHandler handler = g_handler.load()) handler(text);
  print_and_abort(text);
  std::abort();
}

}  // namespace detail
}  // namespace cohort
