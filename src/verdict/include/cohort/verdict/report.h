#pragma once

#include <string>
#include <vector>

#include "cohort/verdict/verdict.h"

namespace cohort {

/// One fact a finding rests on: what it is about ("writer", "missing step", "bytes") and what was
/// seen.
struct Evidence {
  std::string label = {};
  std::string text = {};
};

/// One checked "no", with what a person needs to believe it and to mend it.
struct Finding {
  Verdict verdict = Verdict::kUnknown;
  std::string rule = {};   ///< Stable id of the rule that found it: "race/no-path".
  std::string cause = {};  ///< One sentence: what is wrong, with the names of all involved.
  std::vector<Evidence> evidence = {};
  std::vector<std::string> timeline =
      {};                     ///< A short run that shows it, a step a line; or nothing.
  std::string advice = {};    ///< What to do; empty if the cause says it.
  std::string location = {};  ///< Graph, task, file:line:col: whatever names the place.
  std::string replay = {};    ///< A command or token that shows it again; or nothing.
};

/// One property that was checked, and how much was looked at. A silent check that examined nothing
/// is not a pass.
struct Property {
  std::string name = {};  ///< "every conflicting pair of tasks is ordered"
  Verdict verdict = Verdict::kPass;
  std::string examined = {};  ///< "91 pairs of 14 tasks"
};

/// Everything one check has to say.
struct Report {
  std::string subject = {};  ///< What was checked: "pre-norm --variant slot --num-tokens 8".
  std::vector<Property> properties = {};
  std::vector<Finding> findings = {};
  std::vector<std::string> notes = {};  ///< Worth knowing, wrong in no way.

  /// Appends what another report says.
  void merge(Report other);

  /// kFinding if there is a finding that isn't `unknown`; else kGaveUp if anything is `unknown`;
  /// else kPass.
  ExitStatus exit_status() const;
};

/// How a report is written.
enum class ReportFormat { kText, kJson, kSarif };

/// The report as text for people: a line per property, then each finding with its evidence.
/// Lines are at most 80 columns wide where words allow.
std::string to_text(const Report& report);

/// The report as JSON, schema docs/schemas/report.schema.json.
std::string to_json(const Report& report);

/// The report as SARIF 2.1.0.
/// Source: OASIS, Static Analysis Results Interchange Format 2.1.0.
std::string to_sarif(const Report& report);

std::string write(const Report& report, ReportFormat format);

}  // namespace cohort
