#include "cohort/check/verify.h"

namespace cohort::check {

Report verify(const Graph& graph, const VerifyOptions& options) {
  Report report = audit_submissions(graph);
  if (!report.findings.empty()) return report;
  GraphRecord record = record_graph(graph);
  if (options.perturb) options.perturb(record);
  report.merge(race_proof(graph, record));
  for (const TaskRecord& task : record.tasks) {
    if (task.grid) report.merge(check_visibility(graph, *task.grid, options.memory));
  }
  report.merge(audit(graph, record, options.inputs, options.declared));
  if (options.surplus) report.merge(surplus_edges(graph, record));
  return report;
}

}  // namespace cohort::check
