#pragma once

#include <string>
#include <vector>

#include "cohort/observe/compare.h"

#include "deepseek_v4/pre_norm_graph.h"

namespace deepseek_v4 {

using cohort::observe::OutputCheck;

/// Compares every output of a finished run with the float64 reference, each operator fed with the
/// values that the run computed before it (staged), over the rows that num_tokens defines.
std::vector<OutputCheck> check_outputs(const PreNormGraph& graph, const PreNormOptions& options,
                                       const HcScales& scales);

/// Compares the bits of everything that must be zero, hold a constant or be untouched. Untouched
/// bytes must hold the poison they held before: run it only on tensors that were poisoned first.
std::vector<OutputCheck> check_status(const PreNormGraph& graph, const PreNormOptions& options);

}  // namespace deepseek_v4
