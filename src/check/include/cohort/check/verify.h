#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cohort/check/audit.h"
#include "cohort/check/race.h"
#include "cohort/check/visibility.h"

namespace cohort::check {

struct VerifyOptions {
  MemoryModel memory = MemoryModel::kStrict;
  std::vector<std::string> inputs = {};          ///< Tensors that are set before a run.
  std::vector<DeclaredProducers> declared = {};  ///< See audit().
  bool surplus = false;                          ///< Look for surplus explicit edges too.
  /// Called on the recorded run before it is checked, for tests of the checks.
  std::function<void(GraphRecord& record)> perturb = {};
};

/// Everything that can be said of a graph without a device: its submissions; then, of one recorded
/// run, the race proof, the visibility of every fused grid and the audit. A graph that can't be run
/// gets findings for its submissions alone.
Report verify(const Graph& graph, const VerifyOptions& options = {});

}  // namespace cohort::check
