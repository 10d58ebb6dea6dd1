#pragma once

#include <string>

#include "cohort/cli/graph_registry.h"

namespace cohort::cli {

/// Sets a graph's inputs from a file.
/// Errors: kInvalidArgument naming every input that is missing, misshaped or mistyped, a line each.
Status load_inputs(const BuiltGraph& built, const SafeTensors& file);

/// Refuses a path that save_run() couldn't write to as things are: to be known before a long run.
Status can_save(const std::string& path);

/// Writes inputs, outputs and constants of a finished run, and its metadata.
/// Errors: write_safetensors()'s.
Status save_run(const BuiltGraph& built, const std::string& path);

}  // namespace cohort::cli
