#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cohort/base/strings.h"
#include "cohort/litmus/litmus.h"
#include "cohort/litmus/promela.h"

#include "command.h"
#include "graph_flags.h"
#include "terminal.h"

namespace cohort::cli {
namespace {

struct LitmusFlags {
  std::vector<std::string> paths;
  std::vector<std::string> sets;
  std::string variant;
  std::string memory;
  std::string replay;
  std::string format = "text";
  std::int64_t bound = 5'000'000;
  std::int64_t memory_limit = 4096;
  int jobs = 1;
  std::int64_t random = 0;
  std::int64_t seed = 1;
  bool hash_compact = false;
  bool explain = false;
  bool to_promela = false;
};

// "flag_first,payload=7:0.3.1": a case and the choices that make its schedule.
std::string token_of(const litmus::CaseResult& result, const litmus::Fault& fault) {
  std::string token = result.variant;
  for (const auto& [name, value] : result.parameters) token += fmt::format(",{}={}", name, value);
  return token + ":" + fmt::format("{}", fmt::join(fault.choices, "."));
}

struct Token {
  std::string variant;
  std::map<std::string, std::int32_t> parameters;
  std::vector<std::uint32_t> choices;
};

bool parse_number(std::string_view text, std::int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// "name=value".
bool parse_setting(const std::string& text, std::map<std::string, std::int32_t>& settings) {
  const std::size_t equals = text.find('=');
  std::int64_t value = 0;
  if (equals == std::string::npos || equals == 0 || !parse_number(text.substr(equals + 1), value)) {
    return false;
  }
  settings[text.substr(0, equals)] = static_cast<std::int32_t>(value);
  return true;
}

Result<Token> parse_token(const std::string& text) {
  const auto wrong = [&] {
    return fail(ErrorCode::kInvalidArgument,
                "--replay: '" + printable(text).substr(0, 60) +
                    "' isn't a token; expected what was printed with a schedule, VARIANT:0.3.1");
  };
  Token token;
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return wrong();
  std::istringstream head(text.substr(0, colon));
  std::getline(head, token.variant, ',');
  for (std::string setting; std::getline(head, setting, ',');) {
    if (!parse_setting(setting, token.parameters)) return wrong();
  }
  std::istringstream choices(text.substr(colon + 1));
  for (std::string choice; std::getline(choices, choice, '.');) {
    std::int64_t value = 0;
    if (!parse_number(choice, value) || value < 0) return wrong();
    token.choices.push_back(static_cast<std::uint32_t>(value));
  }
  return token;
}

Result<litmus::File> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in || std::filesystem::is_directory(path)) {
    return fail(ErrorCode::kIo, "can't read '" + printable(path) + "'");
  }
  std::ostringstream text;
  text << in.rdbuf();
  return litmus::parse(text.str(), path);
}

// Files as they are named, and those of folders by name.
Result<std::vector<std::string>> files_of(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      if (entry.path().extension() == ".litmus") found.push_back(entry.path().string());
    }
    if (found.empty()) {
      return fail(ErrorCode::kNotFound, "no .litmus file in the folder '" + printable(path) + "'");
    }
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

std::string words_of(const std::vector<Verdict>& verdicts) {
  std::vector<std::string> words;
  for (const Verdict v : verdicts) words.emplace_back(word(v));
  return fmt::format("{}", fmt::join(words, ", "));
}

Finding finding_of(const std::string& file, const litmus::CaseResult& result,
                   const litmus::Fault& fault) {
  Finding f{.verdict = fault.verdict, .rule = fmt::format("litmus/{}", word(fault.verdict))};
  f.cause = fmt::format("{}: {} ({} steps, {} switches between lanes)", result.to_text(),
                        meaning(fault.verdict), fault.schedule.size(), fault.switches);
  f.timeline = fault.schedule;
  f.location = file;
  f.replay = fmt::format("cohort litmus {} --replay {}", file, token_of(result, fault));
  return f;
}

// A schedule lane by lane: a column each, a line a step.
void print_schedule(const litmus::Fault& fault, const std::string& replay) {
  fmt::print("    {}, in {} steps:\n", word(fault.verdict), fault.schedule.size());
  for (const std::string& step : fault.schedule) fmt::print("      {}\n", wrapped(step, 80, 10));
  fmt::print("    replay: {}\n", replay);
}

ExitStatus replay(const LitmusFlags& flags, const litmus::File& file,
                  const litmus::RunOptions& options) {
  const Result<Token> token = parse_token(flags.replay);
  if (!token) return usage_error(token.error().message);
  const auto schedule =
      litmus::replay(file, token->variant, token->parameters, token->choices, options);
  if (!schedule) return usage_error(schedule.error().message);
  for (std::size_t i = 0; i < schedule->size(); ++i)
    fmt::print("{:>4}  {}\n", i + 1, (*schedule)[i]);
  return ExitStatus::kPass;
}

ExitStatus run_litmus(const LitmusFlags& flags) {
  litmus::RunOptions options{.variant = flags.variant, .jobs = flags.jobs};
  options.explore.most_states = static_cast<std::size_t>(flags.bound);
  options.explore.most_bytes = static_cast<std::size_t>(flags.memory_limit) << 20;
  options.explore.hash_compact = flags.hash_compact;
  options.explore.random_schedules = static_cast<std::uint64_t>(flags.random);
  options.explore.seed = static_cast<std::uint64_t>(flags.seed);
  for (const std::string& setting : flags.sets) {
    if (!parse_setting(setting, options.parameters)) {
      return usage_error("--set: '" + printable(setting) + "', expected NAME=NUMBER");
    }
  }
  if (!flags.memory.empty()) {
    Result<litmus::Memory> memory = litmus::parse_memory(flags.memory, "--memory");
    if (!memory) return usage_error(memory.error().message);
    options.memory = *memory;
  }
  const Result<std::vector<std::string>> files = files_of(flags.paths);
  if (!files) return usage_error(files.error().message);
  if (!flags.replay.empty() && files->size() != 1) return usage_error("--replay takes one file");

  Report report{.subject = fmt::format("{}", fmt::join(flags.paths, " "))};
  std::size_t cases = 0;
  std::size_t different = 0;
  std::size_t unknown = 0;
  ProgressLine progress;
  for (std::size_t f = 0; f < files->size(); ++f) {
    if (is_interrupted()) return ExitStatus::kInterrupted;
    const std::string& path = (*files)[f];
    progress.show(fmt::format("litmus: {} of {}, {}", f, files->size(), path));
    const Result<litmus::File> file = read_file(path);
    if (!file) return usage_error(file.error().message);
    if (!flags.replay.empty()) {
      progress.hide();
      return replay(flags, *file, options);
    }
    if (flags.to_promela) {
      const Result<std::string> promela =
          litmus::to_promela(*file, flags.variant, options.parameters);
      if (!promela) return usage_error(promela.error().message);
      fmt::print("{}", *promela);
      continue;
    }
    const auto results = litmus::run(*file, options);
    progress.hide();
    if (!results) return usage_error(results.error().message);
    if (flags.format == "text") fmt::print("{}\n", path);
    for (const litmus::CaseResult& r : *results) {
      ++cases;
      const bool is_right = r.is_as_expected();
      const std::vector<Verdict> found = r.exploration.verdicts();
      const bool is_unknown = found.front() == Verdict::kUnknown;
      different += is_right || is_unknown ? 0 : 1;
      unknown += !is_right && is_unknown ? 1 : 0;
      report.properties.push_back({.name = fmt::format("{}: {}", path, r.to_text()),
                                   .verdict = is_right ? Verdict::kPass : found.front(),
                                   .examined = r.exploration.coverage()});
      if (flags.format == "text") {
        const std::string outcome = is_right ? good("as expected") : bad("NOT AS EXPECTED");
        fmt::print("  {}\n",
                   wrapped(fmt::format("{}: {}{} ({}; {})", r.to_text(), words_of(found),
                                       is_right ? "" : ", expected " + words_of(r.expected),
                                       outcome, r.exploration.coverage()),
                           80, 4));
      }
      for (const litmus::Fault& fault : r.exploration.faults) {
        const Finding finding = finding_of(path, r, fault);
        const bool is_expected = std::ranges::find(r.expected, fault.verdict) != r.expected.end();
        if (flags.format == "text" && (flags.explain || !is_expected)) {
          print_schedule(fault, finding.replay);
        }
        if (!is_expected) report.findings.push_back(finding);
      }
    }
  }
  if (flags.to_promela) return ExitStatus::kPass;
  if (flags.format != "text") {
    fmt::print("{}",
               write(report, flags.format == "json" ? ReportFormat::kJson : ReportFormat::kSarif));
  } else {
    fmt::print("{} of {} cases as expected", cases - different - unknown, cases);
    if (unknown > 0) fmt::print(", {} not decided within the bounds", unknown);
    fmt::print("\n");
  }
  if (different > 0) return ExitStatus::kFinding;
  return unknown > 0 ? ExitStatus::kGaveUp : ExitStatus::kPass;
}

}  // namespace

void add_litmus_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<LitmusFlags>();
  CLI::App* command = app.add_subcommand(
      "litmus",
      "Explore every schedule of small protocols, and compare with what their files expect.");
  command->add_option("FILE", flags->paths, "Litmus files, and folders of them.")
      ->required()
      ->option_text("");
  command->add_option("--variant", flags->variant, "This variant only.")->option_text("NAME");
  command->add_option("--set", flags->sets, "A value for a parameter, in place of the file's.")
      ->option_text("NAME=N");
  command->add_option("--memory", flags->memory, "A memory model, in place of the file's.")
      ->option_text("MODEL");
  command->add_option("--bound", flags->bound, "Most states of a case.")
      ->option_text("N")
      ->check(whole_number(1, 4'000'000'000))
      ->default_str("5000000");
  command->add_option("--memory-limit", flags->memory_limit, "Most MiB for the states of a case.")
      ->option_text("N")
      ->check(whole_number(1, 1'000'000))
      ->default_str("4096");
  command->add_option("--jobs", flags->jobs, "Cases explored at a time.")
      ->option_text("N")
      ->check(whole_number(1, 1024))
      ->default_str("1");
  command->add_option("--random", flags->random, "Take N random schedules instead of all.")
      ->option_text("N")
      ->check(whole_number(1, 1'000'000'000'000));
  command->add_option("--seed", flags->seed, "Of the random schedules.")
      ->option_text("N")
      ->check(whole_number(0, INT64_MAX))
      ->default_str("1");
  command->add_flag(
      "--hash-compact", flags->hash_compact,
      "Keep 64 bits of each state instead of the state; says how likely one is left out.");
  command->add_option("--replay", flags->replay, "Take a schedule again, from its token.")
      ->option_text("TOKEN");
  command->add_option("--format", flags->format, "One of text, json, sarif.")
      ->check(one_of({"text", "json", "sarif"}))
      ->option_text("WORD")
      ->default_str("text");
  command->add_flag("--explain", flags->explain, "Print the schedules of expected faults, too.");
  command->add_flag("--to-promela", flags->to_promela,
                    "Print a variant as a model for Spin (memory sc).");
  command->callback([flags, &action] { action = [flags] { return run_litmus(*flags); }; });
}

}  // namespace cohort::cli
