#include <cstdio>
#include <system_error>

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

// What stands for an option's value in messages: "N".
std::string value_word(const CLI::Option& option) {
  return option.get_option_text().empty() ? option.get_type_name() : option.get_option_text();
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
    return " " + value_word(*option);
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

// "--name=value" is read as it is written even if the value begins with a dash; an empty value has
// to be a word of its own.
void append_words(const CLI::App& app, std::vector<std::string>& words) {
  std::vector<std::string> positional;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& value : option->results()) {
      if (option->get_lnames().empty()) {
        positional.push_back(value);
      } else if (const std::string name = "--" + option->get_lnames().front(); value.empty()) {
        words.insert(words.end(), {name, value});
      } else {
        words.push_back(name + "=" + value);
      }
    }
  }
  if (!positional.empty()) words.push_back("--");
  words.insert(words.end(), positional.begin(), positional.end());
  for (const CLI::App* command : app.get_subcommands()) {
    words.push_back(command->get_name());
    append_words(*command, words);
  }
}

// What an action comes to where the system refuses it: a thread, or output to a full disk.
ExitStatus acted(const std::function<ExitStatus()>& action) {
  try {
    return action();
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) return ExitStatus::kUsage;  // main() says so.
    return usage_error(printable(error.what()));
  }
}

std::string message_of(const CLI::App& app, const CLI::ParseError& error) {
  if (const std::vector<std::string> extras = app.remaining(true); !extras.empty()) {
    return fmt::format("'{}' isn't expected here{}", printable(extras.front()),
                       did_you_mean(extras.front(), words_of(innermost(app))));
  }
  const std::string message = error.what();
  if (error.get_name() == "ArgumentMismatch") {
    const std::string name = message.substr(0, message.find(':'));
    const CLI::Option* option = innermost(app).get_option_no_throw(name);
    if (option != nullptr && option->count() > 1) {
      return fmt::format("{} is given {} times, expected once", name, option->count());
    }
    if (option != nullptr) {
      return fmt::format("{} has no value, expected {} {}", name, name, value_word(*option));
    }
  }
  return printable(message);
}

}  // namespace

ExitStatus usage_error(const std::string& message) {
  fmt::print(stderr, "cohort: {}\n", message);
  return ExitStatus::kUsage;
}

CommandLine parse_command_line(int argc, const char* const* argv) {
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
  add_litmus_command(app, action);
  add_bench_command(app, action);

  CommandLine line;
  try {
    app.parse(argc, argv);
    append_words(app, line.words);
    line.action = std::move(action);
  } catch (const CLI::CallForHelp&) {
    line.output = innermost(app).help();
  } catch (const CLI::CallForVersion& version) {
    line.output = std::string(version.what()) + "\n";
  } catch (const CLI::ParseError& error) {
    line.error = message_of(app, error);
    line.hint = fmt::format("Run '{} --help'.", path_of(innermost(app)));
  }
  return line;
}

int main(int argc, const char* const* argv) {
  catch_interrupts();
  const CommandLine line = parse_command_line(argc, argv);
  ExitStatus status = ExitStatus::kPass;
  if (line.action) {
    status = acted(line.action);
  } else if (!line.error.empty()) {
    status = usage_error(line.error);
    fmt::print(stderr, "{}\n", line.hint);
  } else {
    fmt::print("{}", line.output);
  }
  // The flush alone doesn't tell: a buffer that couldn't be written before is gone.
  const bool is_flushed = std::fflush(stdout) == 0;
  if (!is_flushed || std::ferror(stdout) != 0) status = usage_error("can't write the output");
  return static_cast<int>(status);
}

}  // namespace cohort::cli
