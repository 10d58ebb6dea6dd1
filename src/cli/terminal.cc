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

ProgressLine::ProgressLine() : start_(std::chrono::steady_clock::now()) {
  if (isatty(STDERR_FILENO) != 0) drawer_ = std::thread([this] { keep_drawing(); });
}

ProgressLine::~ProgressLine() {
  if (!drawer_.joinable()) return;
  hide();
  {
    const std::lock_guard lock(mutex_);
    is_done_ = true;
  }
  changed_.notify_one();
  drawer_.join();
}

void ProgressLine::show(std::string text) {
  const std::lock_guard lock(mutex_);
  text_ = std::move(text);
}

void ProgressLine::hide() {
  const std::lock_guard lock(mutex_);
  text_.clear();
  if (is_drawn_) fmt::print(stderr, "\r\033[K");
  is_drawn_ = false;
}

void ProgressLine::keep_drawing() {
  using std::chrono::seconds;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::milliseconds(200), [&] { return is_done_; })) {
    const auto elapsed = std::chrono::steady_clock::now() - start_;
    if (text_.empty() || elapsed < seconds(2)) continue;
    fmt::print(stderr, "\r\033[K{}, {} s", text_,
               std::chrono::duration_cast<seconds>(elapsed).count());
    is_drawn_ = true;
  }
}

void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = [](int) {
    interrupted = 1;
    constexpr std::string_view kHeard = "\nStopping after this step; Ctrl-C again ends at once.\n";
    if (isatty(STDERR_FILENO) == 0) return;
    // Nothing can be done where a terminal refuses this.
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kHeard.data(), kHeard.size());
  };
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &action, nullptr);
}

bool is_interrupted() { return interrupted != 0; }

}  // namespace cohort::cli
