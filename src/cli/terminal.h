#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace cohort::cli {

/// Whether stdout is a terminal that may be coloured (NO_COLOR isn't set).
bool may_colour();
/// `text` in green or red if colours may be used, else as it is.
std::string good(std::string_view text);
std::string bad(std::string_view text);

/// `text` broken at spaces into lines of at most `width` columns; those after the first begin with
/// `indent` spaces, and the first is taken to stand behind as many.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent);

/// A line on stderr that says how far a long command is: only on a terminal, only after two
/// seconds, gone at the end.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(std::string_view what, std::size_t done, std::size_t all);

 private:
  bool is_terminal_;
  bool is_shown_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_;
};

/// Makes Ctrl-C a request that is_interrupted() reports; a second one ends the process.
void catch_interrupts();
bool is_interrupted();

}  // namespace cohort::cli
