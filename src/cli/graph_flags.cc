#include "graph_flags.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cohort/base/strings.h"

namespace cohort::cli {

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    std::int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stopped == end && value >= least && value <= most) return "";
    return fmt::format("'{}', expected a whole number from {} to {}", printable(text), least, most);
  };
  return {check, ""};
}

CLI::Validator one_of(std::vector<std::string> choices) {
  const auto check = [choices](const std::string& text) -> std::string {
    if (std::ranges::find(choices, text) != choices.end()) return "";
    return fmt::format("'{}', expected one of {}{}", printable(text), fmt::join(choices, ", "),
                       did_you_mean(text, choices));
  };
  return {check, ""};
}

void add_graph_flags(CLI::App& command, const GraphEntry& entry, GraphFlags& flags) {
  const auto note = [&flags](const std::string& name) {
    return [&flags, name](const std::string&) { flags.given.insert(name); };
  };
  if (!entry.variants().empty()) {
    flags.variant = entry.variants().front();
    command
        .add_option("--variant", flags.variant,
                    fmt::format("One of {}.", fmt::join(entry.variants(), ", ")))
        ->check(one_of(entry.variants()))
        ->each(note("variant"))
        ->option_text("WORD")
        ->default_str(flags.variant);
  }
  for (const Parameter& p : entry.parameters()) {
    if (const auto* integer = std::get_if<IntegerParameter>(&p.kind)) {
      std::int64_t& value = flags.integers[p.name] = integer->initial;
      command.add_option("--" + p.name, value, p.help)
          ->check(whole_number(integer->least, integer->most))
          ->each(note(p.name))
          ->option_text("N")
          ->default_str(std::to_string(integer->initial));
    } else {
      const auto& choices = std::get<ChoiceParameter>(p.kind).choices;
      std::string& value = flags.choices[p.name] = choices.front();
      command
          .add_option("--" + p.name, value,
                      fmt::format("{} One of {}.", p.help, fmt::join(choices, ", ")))
          ->check(one_of(choices))
          ->each(note(p.name))
          ->option_text("WORD")
          ->default_str(choices.front());
    }
  }
}

BuildRequest request_of(const GraphEntry& entry, const GraphFlags& flags) {
  BuildRequest request = entry.defaults();
  for (const auto& [name, value] : flags.integers) request.set(name, value);
  for (const auto& [name, value] : flags.choices) request.set(name, value);
  request.set_variant(flags.variant);
  return request;
}

std::vector<BuildRequest> sweep_of(const GraphEntry& entry, const GraphFlags& flags) {
  return entry.sweep(request_of(entry, flags), flags.given);
}

}  // namespace cohort::cli
