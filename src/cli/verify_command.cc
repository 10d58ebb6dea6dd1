#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cohort/base/strings.h"
#include "cohort/check/verify.h"
#include "cohort/cli/graph_registry.h"
#include "cohort/inject/mistakes.h"

#include "command.h"
#include "graph_flags.h"
#include "terminal.h"

namespace cohort::cli {
namespace {

struct VerifyFlags {
  const GraphEntry* entry = nullptr;
  GraphFlags graph;
  std::uint64_t seed = 1;
  std::string memory = "strict";
  std::string format = "text";
  std::string inject;
  bool surplus = false;
  bool sweep = false;
};

ReportFormat format_of(const std::string& word) {
  if (word == "json") return ReportFormat::kJson;
  return word == "sarif" ? ReportFormat::kSarif : ReportFormat::kText;
}

Result<BuiltGraph> build(const VerifyFlags& flags, BuildRequest request) {
  request.set_seed(flags.seed);
  COHORT_TRY(BuiltGraph built, flags.entry->build(request));
  built.graph->poison_tensors();
  if (built.draw) built.draw(flags.seed);
  if (built.validate) COHORT_TRY_STATUS(built.validate());
  return built;
}

check::VerifyOptions options_of(const VerifyFlags& flags, const BuiltGraph& built) {
  return {.memory = flags.memory == "dma" ? check::MemoryModel::kDma : check::MemoryModel::kStrict,
          .inputs = built.inputs,
          .declared = built.declared,
          .surplus = flags.surplus};
}

// Whether a finding has the verdict of a mistake and names everything it must.
bool catches(const Finding& finding, const inject::Mistake& mistake) {
  std::string text = finding.cause + finding.location;
  for (const Evidence& e : finding.evidence) text += e.text;
  return finding.verdict == mistake.expected &&
         std::ranges::all_of(mistake.names, [&](const std::string& name) {
           return text.find(name) != std::string::npos;
         });
}

// Whether a report on a graph with a mistake holds what it must and nothing else.
bool is_caught(const Report& report, const inject::Mistake& mistake) {
  if (mistake.expected == Verdict::kPass) return report.findings.empty();
  const bool is_found =
      std::ranges::any_of(report.findings, [&](const Finding& f) { return catches(f, mistake); });
  return is_found && std::ranges::all_of(report.findings, [&](const Finding& f) {
           return f.verdict == mistake.expected ||
                  std::ranges::find(mistake.consequences, f.verdict) != mistake.consequences.end();
         });
}

Report verify_with(const VerifyFlags& flags, const BuiltGraph& built,
                   const inject::Mistake& mistake) {
  const Graph wrong = mistake.graph ? mistake.graph(*built.graph) : built.graph->rewritten({});
  check::VerifyOptions options = options_of(flags, built);
  options.perturb = mistake.record;
  return check::verify(wrong, options);
}

ExitStatus inject_all(const VerifyFlags& flags, const BuiltGraph& built,
                      const std::vector<inject::Mistake>& mistakes) {
  std::size_t caught = 0;
  std::size_t silent = 0;
  std::size_t missed = 0;
  ProgressLine progress;
  for (std::size_t i = 0; i < mistakes.size(); ++i) {
    const inject::Mistake& m = mistakes[i];
    if (is_interrupted()) return ExitStatus::kInterrupted;
    progress.show(fmt::format("verify: {} of {}, {}", i, mistakes.size(), m.id));
    const bool is_right = is_caught(verify_with(flags, built, m), m);
    progress.hide();
    const bool must_be_silent = m.expected == Verdict::kPass;
    ++(is_right ? (must_be_silent ? silent : caught) : missed);
    const std::string outcome = must_be_silent ? "silent" : "caught";
    fmt::print("{:<6}{:<20}{}  {}\n", m.id, word(m.expected),
               is_right ? good(outcome) : bad("MISSED"), wrapped(m.what, 80, 34));
  }
  fmt::print("{} caught, {} silent as they must be, {} missed\n", caught, silent, missed);
  return missed == 0 ? ExitStatus::kPass : ExitStatus::kFinding;
}

ExitStatus inject_one(const VerifyFlags& flags, const BuiltGraph& built,
                      const std::vector<inject::Mistake>& mistakes) {
  std::vector<std::string> ids = {"all"};
  for (const inject::Mistake& m : mistakes) ids.push_back(m.id);
  const auto mistake = std::ranges::find(mistakes, flags.inject, &inject::Mistake::id);
  if (mistake == mistakes.end()) {
    return usage_error(fmt::format("--inject: '{}' can't be put into this graph{}; what can: {}",
                                   printable(flags.inject), did_you_mean(flags.inject, ids),
                                   fmt::join(ids, ", ")));
  }
  const Report report = verify_with(flags, built, *mistake);
  fmt::print("{}", write(report, format_of(flags.format)));
  const bool is_right = is_caught(report, *mistake);
  if (flags.format == "text") {
    fmt::print(
        "{}: {}, expected {}: {}\n", mistake->id, mistake->what, word(mistake->expected),
        is_right ? good("found with its cause, and nothing else") : bad("NOT FOUND AS EXPECTED"));
  }
  return is_right ? ExitStatus::kPass : ExitStatus::kFinding;
}

ExitStatus sweep(const VerifyFlags& flags) {
  std::size_t failed = 0;
  ExitStatus worst = ExitStatus::kPass;
  const std::vector<BuildRequest> requests = sweep_of(*flags.entry, flags.graph);
  ProgressLine progress;
  std::size_t done = 0;
  for (const BuildRequest& request : requests) {
    if (is_interrupted()) return ExitStatus::kInterrupted;
    progress.show(fmt::format("verify: {} of {}", done++, requests.size()));
    const Result<BuiltGraph> built = build(flags, request);
    if (!built) return usage_error(built.error().message);
    const Report report = check::verify(*built->graph, options_of(flags, *built));
    progress.hide();
    const ExitStatus status = report.exit_status();
    fmt::print("{}  {}\n", status == ExitStatus::kPass ? good("pass") : bad("FAIL"),
               request.to_text());
    for (const Finding& f : report.findings) {
      fmt::print("      {}\n", wrapped(fmt::format("{}: {}", word(f.verdict), f.cause), 80, 6));
    }
    if (status != ExitStatus::kPass) ++failed;
    worst = std::max(worst, status);
  }
  fmt::print("{} of {} pass\n", requests.size() - failed, requests.size());
  return worst;
}

ExitStatus verify_graph(const VerifyFlags& flags) {
  if (flags.sweep) return sweep(flags);
  const BuildRequest request = request_of(*flags.entry, flags.graph);
  const Result<BuiltGraph> built = build(flags, request);
  if (!built) return usage_error(built.error().message);
  if (!flags.inject.empty()) {
    const std::vector<inject::Mistake> mistakes = inject::mistakes_for(*built->graph);
    if (flags.inject == "all") return inject_all(flags, *built, mistakes);
    return inject_one(flags, *built, mistakes);
  }
  Report report = check::verify(*built->graph, options_of(flags, *built));
  report.subject = fmt::format("{} {}", flags.entry->name(), request.to_text());
  fmt::print("{}", write(report, format_of(flags.format)));
  return report.exit_status();
}

void add_graph(CLI::App& verify, const GraphEntry& entry, Action& action) {
  auto flags = std::make_shared<VerifyFlags>();
  flags->entry = &entry;
  CLI::App* command = verify.add_subcommand(entry.name(), entry.help());
  add_graph_flags(*command, entry, flags->graph);
  command->add_option("--seed", flags->seed, "Of the drawn inputs.")
      ->option_text("N")
      ->check(whole_number(0, INT64_MAX))
      ->default_str("1");
  command
      ->add_option("--memory", flags->memory,
                   "What makes writes visible: strict, or what tile traffic needs: dma.")
      ->check(one_of({"strict", "dma"}))
      ->option_text("WORD")
      ->default_str("strict");
  command->add_option("--format", flags->format, "One of text, json, sarif.")
      ->check(one_of({"text", "json", "sarif"}))
      ->option_text("WORD")
      ->default_str("text");
  CLI::Option* inject =
      command
          ->add_option(
              "--inject", flags->inject,
              "Put a mistake in and expect it to be found, or all of them in turn: exit 0 if so.")
          ->option_text("ID");
  command->add_flag("--surplus", flags->surplus,
                    "Look for explicit edges that order nothing, too.");
  command
      ->add_flag(
          "--sweep", flags->sweep,
          "Verify every combination of the variants and swept parameters that aren't given, a "
          "line each.")
      ->excludes(inject);
  command->callback([flags, &action] { action = [flags] { return verify_graph(*flags); }; });
}

}  // namespace

void add_verify_command(CLI::App& app, Action& action) {
  CLI::App* verify = app.add_subcommand(
      "verify",
      "Prove that a graph has no race, and that its fused grids neither deadlock nor read "
      "stale bytes.");
  verify->require_subcommand(1);
  for (const GraphEntry* entry : registered_graphs()) add_graph(*verify, *entry, action);
}

}  // namespace cohort::cli
