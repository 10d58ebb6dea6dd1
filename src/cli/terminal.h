#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace cohort::cli {

/// Whether stdout is a terminal that may be coloured (NO_COLOR isn't set).
bool may_colour();
/// `text` in green or red if colours may be used, else as it is.
std::string good(std::string_view text);
std::string bad(std::string_view text);

/// `text` broken at spaces into lines of at most `width` columns; those after the first begin with
/// `indent` spaces, and the first is taken to stand behind as many.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent);

/// A line on stderr that says what a long command is doing and for how long it has been at it: only
/// on a terminal, only after two seconds, gone at the end. A thread of its own keeps it up to date,
/// so that one long step shows as well as many short ones.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(std::string text);
  /// Takes the line away until the next show(): before anything else is printed.
  void hide();

 private:
  void keep_drawing();

  const std::chrono::steady_clock::time_point start_;
  std::mutex mutex_;  // Guards what follows, and the line itself.
  std::condition_variable changed_;
  std::string text_;  // Empty while hidden.
  bool is_drawn_ = false;
  bool is_done_ = false;
  std::thread drawer_;  // Not started where stderr is no terminal.
};

/// Makes Ctrl-C a request that is_interrupted() reports, and says so on a terminal; a second one
/// ends the process.
void catch_interrupts();
bool is_interrupted();

}  // namespace cohort::cli
