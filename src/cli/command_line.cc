#include <cstdio>

#include <fmt/format.h>

#include "cohort/base/strings.h"
#include "cohort/base/version.h"
#include "cohort/cli/graph_registry.h"
#include "cohort/cli/main.h"

#include "command.h"
#include "terminal.h"

namespace cohort::cli {
namespace {

constexpr std::size_t kWidth = 80;
constexpr std::size_t kNameColumn = 26;

// "cohort run pre-norm".
std::string path_of(const CLI::App& app) {
  return (app.get_parent() != nullptr ? path_of(*app.get_parent()) + " " : "") + app.get_name();
}

// Help in at most 80 columns: names on the left, wrapped text on the right.
class Formatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    return row(make_option_name(option, is_positional) + make_option_opts(option),
               make_option_desc(option));
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0) return "";
    std::string text = " " + option->get_option_text();
    if (text == " ") text += option->get_type_name();
    return text;
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    std::string text = option->get_description();
    if (!option->get_default_str().empty()) text += " [" + option->get_default_str() + "]";
    return text;
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return row(command->get_name(), command->get_description());
  }
  std::string make_description(const CLI::App* app) const override {
    return wrapped(app->get_description(), kWidth, 0) + "\n\n";
  }
  std::string make_usage(const CLI::App* app, std::string) const override {
    const bool has_commands = !app->get_subcommands(nullptr).empty();
    return "Usage: " + path_of(*app) + (has_commands ? " COMMAND" : "") + " [OPTION...]\n";
  }

 private:
  static std::string row(const std::string& name, const std::string& text) {
    std::string line = "  " + name;
    if (line.size() + 1 > kNameColumn) {
      line += "\n" + std::string(kNameColumn, ' ');
    } else {
      line.resize(kNameColumn, ' ');
    }
    return line + wrapped(text, kWidth, kNameColumn) + "\n";
  }
};

// The innermost command that was named.
const CLI::App& innermost(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return *at;
}

std::vector<std::string> words_of(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  }
  for (const CLI::App* command : app.get_subcommands(nullptr)) words.push_back(command->get_name());
  return words;
}

ExitStatus parse_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& at = innermost(app);
  std::string message = error.what();
  if (const std::vector<std::string> extras = app.remaining(true); !extras.empty()) {
    message = fmt::format("'{}' isn't expected here{}", printable(extras.front()),
                          did_you_mean(extras.front(), words_of(at)));
  }
  usage_error(message);
  fmt::print(stderr, "Run '{} --help'.\n", path_of(at));
  return ExitStatus::kUsage;
}

}  // namespace

ExitStatus usage_error(const std::string& message) {
  fmt::print(stderr, "cohort: {}\n", message);
  return ExitStatus::kUsage;
}

int main(int argc, const char* const* argv) {
  catch_interrupts();
  CLI::App app(
      "Fuses chains of small SPMD kernels into one grid, checks the fusion and runs it on this "
      "CPU.",
      "cohort");
  app.formatter(std::make_shared<Formatter>());
  app.set_version_flag("--version", fmt::format("cohort {}", kVersion), "Print the version.");
  app.set_help_flag("--help", "Print this.");
  app.require_subcommand(1);
  app.footer(
      "\nExit codes: 0 pass, 1 a finding or a failed comparison, 2 usage or input,\n"
      "3 gave up, 130 interrupted.");
  Action action;
  add_list_command(app, action);
  add_run_command(app, action);
  add_verify_command(app, action);
  add_bench_command(app, action);

  ExitStatus status = ExitStatus::kUsage;
  try {
    app.parse(argc, argv);
    status = action();
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", innermost(app).help());
    status = ExitStatus::kPass;
  } catch (const CLI::CallForVersion& version) {
    fmt::print("{}\n", version.what());
    status = ExitStatus::kPass;
  } catch (const CLI::ParseError& error) {
    status = parse_error(app, error);
  }
  if (std::fflush(stdout) != 0) return static_cast<int>(usage_error("can't write the output"));
  return static_cast<int>(status);
}

}  // namespace cohort::cli
