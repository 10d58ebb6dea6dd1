#include "cohort/verdict/report.h"

#include <algorithm>
#include <array>
#include <iterator>

#include <nlohmann/json.hpp>

#include "cohort/base/check.h"
#include "cohort/base/version.h"

namespace cohort {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kColumns = 80;

// Appends `text` in lines of at most kColumns, the first after `first`, the others after `rest`.
// A single word that is longer stays whole.
void wrap(std::string& out, std::string_view first, std::string_view rest, std::string_view text) {
  std::string line(first);
  bool empty = true;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view part = text.substr(0, end);
    if (!empty && line.size() + 1 + part.size() > kColumns) {
      out += line + '\n';
      line = rest;
      empty = true;
    }
    if (!empty) line += ' ';
    line += part;
    empty = false;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  out += line + '\n';
}

Json finding_json(const Finding& f) {
  Json evidence = Json::array();
  for (const Evidence& e : f.evidence) evidence.push_back({{"label", e.label}, {"text", e.text}});
  return {{"verdict", word(f.verdict)}, {"rule", f.rule},       {"cause", f.cause},
          {"location", f.location},     {"evidence", evidence}, {"timeline", f.timeline},
          {"advice", f.advice},         {"replay", f.replay}};
}

// Text can hold bytes from a user's file; invalid UTF-8 becomes U+FFFD rather than an exception.
std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

void Report::merge(Report other) {
  if (subject.empty()) subject = std::move(other.subject);
  std::ranges::move(other.properties, std::back_inserter(properties));
  std::ranges::move(other.findings, std::back_inserter(findings));
  std::ranges::move(other.notes, std::back_inserter(notes));
}

ExitStatus Report::exit_status() const {
  bool unknown = false;
  for (const Finding& f : findings) {
    if (f.verdict == Verdict::kUnknown) {
      unknown = true;
    } else if (f.verdict != Verdict::kPass) {
      return ExitStatus::kFinding;
    }
  }
  for (const Property& p : properties) {
    if (p.verdict == Verdict::kUnknown) {
      unknown = true;
    } else if (p.verdict != Verdict::kPass) {
      return ExitStatus::kFinding;
    }
  }
  return unknown ? ExitStatus::kGaveUp : ExitStatus::kPass;
}

std::string to_text(const Report& report) {
  std::string out;
  if (!report.subject.empty()) wrap(out, "", "  ", report.subject);
  for (const Property& p : report.properties) {
    std::string head = "  " + std::string(word(p.verdict));
    head.resize(std::max<std::size_t>(head.size() + 2, 22), ' ');
    std::string text = p.name;
    if (!p.examined.empty()) text += " (" + p.examined + ")";
    wrap(out, head, std::string(22, ' '), text);
  }
  for (const Finding& f : report.findings) {
    out += '\n';
    wrap(out, std::string(word(f.verdict)) + ": ", "  ", f.cause);
    if (!f.location.empty()) wrap(out, "  at: ", "      ", f.location);
    for (const Evidence& e : f.evidence) wrap(out, "  " + e.label + ": ", "      ", e.text);
    for (const std::string& line : f.timeline) out += "    | " + line + '\n';
    if (!f.advice.empty()) wrap(out, "  do: ", "      ", f.advice);
    if (!f.replay.empty()) out += "  replay: " + f.replay + '\n';
  }
  if (!report.notes.empty()) out += '\n';
  for (const std::string& note : report.notes) wrap(out, "note: ", "  ", note);
  return out;
}

std::string to_json(const Report& report) {
  Json properties = Json::array();
  for (const Property& p : report.properties) {
    properties.push_back(
        {{"name", p.name}, {"verdict", word(p.verdict)}, {"examined", p.examined}});
  }
  Json findings = Json::array();
  for (const Finding& f : report.findings) findings.push_back(finding_json(f));
  return dump({{"cohort", kVersion},
               {"subject", report.subject},
               {"exit_status", static_cast<int>(report.exit_status())},
               {"properties", properties},
               {"findings", findings},
               {"notes", report.notes}});
}

std::string to_sarif(const Report& report) {
  std::array<bool, kVerdicts> used = {};
  for (const Finding& f : report.findings) used[static_cast<std::size_t>(f.verdict)] = true;
  Json rules = Json::array();
  std::array<int, kVerdicts> rule_index = {};
  for (std::size_t v = 0; v < used.size(); ++v) {
    if (!used[v]) continue;
    rule_index[v] = static_cast<int>(rules.size());
    const auto verdict = static_cast<Verdict>(v);
    rules.push_back({{"id", word(verdict)}, {"shortDescription", {{"text", meaning(verdict)}}}});
  }
  Json results = Json::array();
  for (const Finding& f : report.findings) {
    std::string text = f.cause;
    if (!f.advice.empty()) text += ". " + f.advice;
    Json result = {{"ruleId", word(f.verdict)},
                   {"ruleIndex", rule_index[static_cast<std::size_t>(f.verdict)]},
                   {"level", f.verdict == Verdict::kUnknown ? "warning" : "error"},
                   {"message", {{"text", text}}},
                   {"properties", finding_json(f)}};
    if (!f.location.empty()) {
      result["locations"] = Json::array(
          {{{"logicalLocations", Json::array({{{"fullyQualifiedName", f.location}}})}}});
    }
    results.push_back(result);
  }
  const Json driver = {{"name", "cohort"}, {"version", kVersion}, {"rules", rules}};
  return dump({{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
               {"version", "2.1.0"},
               {"runs", Json::array({{{"tool", {{"driver", driver}}}, {"results", results}}})}});
}

std::string write(const Report& report, ReportFormat format) {
  switch (format) {
    case ReportFormat::kText:
      return to_text(report);
    case ReportFormat::kJson:
      return to_json(report);
    case ReportFormat::kSarif:
      return to_sarif(report);
  }
  COHORT_CHECK(false, "a report format outside its enumeration");
  return {};
}

}  // namespace cohort
