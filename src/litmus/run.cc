#include <algorithm>
#include <atomic>
#include <cstdio>
#include <thread>

#include "cohort/litmus/litmus.h"

#include "explore.h"
#include "program.h"

namespace cohort::litmus {

std::vector<Verdict> Exploration::verdicts() const {
  std::vector<Verdict> all;
  for (const Fault& fault : faults) all.push_back(fault.verdict);
  if (all.empty()) all.push_back(is_exhaustive ? Verdict::kPass : Verdict::kUnknown);
  return all;
}

std::string Exploration::coverage() const {
  if (is_exhaustive) {
    return "exhaustive: " + std::to_string(states) + " states, " + std::to_string(transitions) +
           " steps";
  }
  if (schedules > 0) return std::to_string(schedules) + " random schedules";
  if (omission_probability >= 0) {
    char probability[32];
    std::snprintf(probability, sizeof probability, "%.1e", std::max(omission_probability, 1e-30));
    return "hash-compacted: " + std::to_string(states) + " states, omission probability < " +
           probability;
  }
  return "gave up after " + std::to_string(states) + " states";
}

bool CaseResult::is_as_expected() const {
  const std::vector<Verdict> found = exploration.verdicts();
  return expected.empty() || std::ranges::all_of(found, [&](Verdict v) {
           return std::ranges::find(expected, v) != expected.end();
         });
}

std::string CaseResult::to_text() const {
  std::string text = variant;
  for (const auto& [name, value] : parameters) text += ", " + name + " = " + std::to_string(value);
  return text;
}

Result<std::vector<CaseResult>> run(const File& file, const RunOptions& options) {
  const bool has_expectations =
      std::ranges::any_of(file.variants, [](const Variant& v) { return !v.expects.empty(); });
  struct Job {
    CaseResult result;
    Program program;
  };
  std::vector<Job> jobs;
  bool has_variant = options.variant.empty();
  for (const Variant& variant : file.variants) {
    if (!options.variant.empty() && variant.name != options.variant) continue;
    has_variant = true;
    if (has_expectations && variant.expects.empty() && options.variant.empty()) continue;
    COHORT_TRY(std::vector<Case> cases, cases_of(file, variant, options.parameters));
    // A parameter's value belongs to a case's name only if it is not the same in all of them.
    for (Case& c : cases) {
      COHORT_TRY(Program program,
                 compile(file, variant, c.parameters, options.memory ? &*options.memory : nullptr));
      CaseResult result{.variant = variant.name, .expected = c.expected};
      for (const auto& [name, value] : c.parameters) {
        const bool differs =
            std::ranges::any_of(cases, [&name = name, &value = value](const Case& other) {
              return other.parameters.at(name) != value;
            });
        if (differs || options.parameters.contains(name)) result.parameters[name] = value;
      }
      jobs.push_back({std::move(result), std::move(program)});
    }
  }
  if (!has_variant) {
    return fail(ErrorCode::kNotFound, file.name + " has no variant '" + options.variant + "'");
  }
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next.fetch_add(1); i < jobs.size(); i = next.fetch_add(1)) {
      jobs[i].result.exploration = explore(jobs[i].program, options.explore);
    }
  };
  std::vector<std::thread> threads;
  for (int t = 1; t < options.jobs; ++t) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  std::vector<CaseResult> results;
  for (Job& job : jobs) results.push_back(std::move(job.result));
  return results;
}

Result<std::vector<std::string>> replay(const File& file, const std::string& variant,
                                        const std::map<std::string, std::int32_t>& parameters,
                                        const std::vector<std::uint32_t>& choices,
                                        const RunOptions& options) {
  for (const Variant& v : file.variants) {
    if (v.name != variant) continue;
    COHORT_TRY(const std::vector<Case> cases, cases_of(file, v, parameters));
    COHORT_TRY(const Program program, compile(file, v, cases.front().parameters,
                                              options.memory ? &*options.memory : nullptr));
    if (auto schedule = schedule_of(program, choices)) return *std::move(schedule);
    return fail(ErrorCode::kInvalidArgument,
                "the token isn't of this file's variant '" + variant + "' as it is now");
  }
  return fail(ErrorCode::kNotFound, file.name + " has no variant '" + variant + "'");
}

}  // namespace cohort::litmus
