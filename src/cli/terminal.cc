#include "terminal.h"

#include <csignal>
#include <cstdlib>

#include <fmt/format.h>
#include <unistd.h>

namespace cohort::cli {
namespace {

volatile std::sig_atomic_t interrupted = 0;

std::string coloured(std::string_view code, std::string_view text) {
  return may_colour() ? fmt::format("\033[{}m{}\033[0m", code, text) : std::string(text);
}

}  // namespace

bool may_colour() {
  static const bool may = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  return may;
}

std::string good(std::string_view text) { return coloured("32", text); }
std::string bad(std::string_view text) { return coloured("31", text); }

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  std::string out;
  std::size_t column = indent;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (column > indent && column + 1 + word.size() > width) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

ProgressLine::ProgressLine()
    : is_terminal_(isatty(STDERR_FILENO) != 0),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

ProgressLine::~ProgressLine() {
  if (is_shown_) fmt::print(stderr, "\r\033[K");
}

void ProgressLine::show(std::string_view what, std::size_t done, std::size_t all) {
  using std::chrono::milliseconds;
  const auto now = std::chrono::steady_clock::now();
  if (!is_terminal_ || now - start_ < milliseconds(2000) || now - last_ < milliseconds(100)) return;
  last_ = now;
  is_shown_ = true;
  fmt::print(stderr, "\r\033[K{}: {} of {}", what, done, all);
}

void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &action, nullptr);
}

bool is_interrupted() { return interrupted != 0; }

}  // namespace cohort::cli
