#pragma once

namespace cohort::cli {

/// The whole command line, for the graphs that this program registers. What a program that links
/// cohort::main runs. Returns an ExitStatus.
int main(int argc, const char* const* argv);

}  // namespace cohort::cli
