#pragma once

#include <functional>
#include <string>

#include <CLI/CLI.hpp>

#include "cohort/base/result.h"
#include "cohort/verdict/verdict.h"

namespace cohort::cli {

/// What the command line asks for, once it is parsed.
using Action = std::function<ExitStatus()>;

/// Each declares one subcommand, whose callback sets `action`. A command is one file and one line
/// in command_line.cc.
void add_list_command(CLI::App& app, Action& action);
void add_run_command(CLI::App& app, Action& action);
void add_verify_command(CLI::App& app, Action& action);
void add_litmus_command(CLI::App& app, Action& action);
void add_bench_command(CLI::App& app, Action& action);

/// Prints "cohort: MESSAGE" to stderr. Returns kUsage.
ExitStatus usage_error(const std::string& message);

}  // namespace cohort::cli
