#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cohort/cli/graph_registry.h"

#include "command.h"
#include "terminal.h"

namespace cohort::cli {
namespace {

ExitStatus list() {
  if (registered_graphs().empty()) fmt::print("No graph is registered in this program.\n");
  for (const GraphEntry* entry : registered_graphs()) {
    fmt::print("{}\n", entry->name());
    if (!entry->help().empty()) fmt::print("  {}\n", wrapped(entry->help(), 80, 2));
    if (!entry->variants().empty()) {
      fmt::print("  variants: {}\n", fmt::join(entry->variants(), ", "));
    }
    std::vector<std::string> names;
    for (const Parameter& p : entry->parameters()) names.push_back("--" + p.name);
    if (!names.empty()) {
      fmt::print("  {}\n", wrapped(fmt::format("parameters: {}", fmt::join(names, " ")), 80, 14));
    }
  }
  return ExitStatus::kPass;
}

}  // namespace

void add_list_command(CLI::App& app, Action& action) {
  app.add_subcommand("list", "Show the graphs of this program, their variants and parameters.")
      ->callback([&action] { action = list; });
}

}  // namespace cohort::cli
