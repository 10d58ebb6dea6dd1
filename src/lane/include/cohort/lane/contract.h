#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cohort/graph/graph.h"
#include "cohort/lane/footprint.h"

namespace cohort {

/// What check_contract() looked at and found.
struct ContractReport {
  std::int64_t blocks = 0;
  std::int64_t bytes_compared = 0;
  std::vector<BlockFootprint> footprints = {};
  /// Breaches of the tile contract, directions, and differences between the two lanes, in words.
  std::vector<std::string> errors = {};
};

/// Runs every block of a task's kernel on DirectLane, on ModelledLane, and on ModelledLane with the
/// second poison, each from the same bytes, and compares every byte of every operand's tensor. Also
/// compares the declared directions with what was recorded. The tensors end as DirectLane left
/// them.
ContractReport check_contract(const Task& task);

}  // namespace cohort
