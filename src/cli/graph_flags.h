#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cohort/cli/graph_registry.h"

namespace cohort::cli {

/// The parameters of a graph as flags, while they are parsed.
struct GraphFlags {
  std::string variant = {};
  std::map<std::string, std::int64_t> integers = {};
  std::map<std::string, std::string> choices = {};
  std::set<std::string> given = {};  ///< "variant" and names of parameters.
};

/// Declares --variant and a flag for each parameter. `flags` outlives the parsing.
void add_graph_flags(CLI::App& command, const GraphEntry& entry, GraphFlags& flags);
/// What the parsed flags ask for.
BuildRequest request_of(const GraphEntry& entry, const GraphFlags& flags);
/// What they ask for with --sweep: a flag that is given is not swept.
std::vector<BuildRequest> sweep_of(const GraphEntry& entry, const GraphFlags& flags);

/// Validators that say what was found and what was expected.
CLI::Validator whole_number(std::int64_t least, std::int64_t most);
CLI::Validator one_of(std::vector<std::string> choices);

}  // namespace cohort::cli
