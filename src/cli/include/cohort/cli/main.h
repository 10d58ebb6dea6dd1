#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cohort/verdict/verdict.h"

namespace cohort::cli {

/// A command line, read but not acted on. Exactly one of `action`, `output` and `error` is set.
struct CommandLine {
  std::function<ExitStatus()> action = {};  ///< Does what is asked for.
  std::string output = {};                  ///< The help or version asked for.
  std::string error = {};                   ///< What is wrong, in one line.
  std::string hint = {};                    ///< Where to read on; set with `error`.
  /// The command and each flag given, as "--name=value": another spelling of the same, without the
  /// program's name. Set with `action`.
  std::vector<std::string> words = {};
};

/// Reads a command line against the graphs that this program registers. Any bytes are fine.
CommandLine parse_command_line(int argc, const char* const* argv);

/// The whole command line: reads it and does what it asks for. What a program that links
/// cohort::main runs. Returns an ExitStatus.
int main(int argc, const char* const* argv);

}  // namespace cohort::cli
