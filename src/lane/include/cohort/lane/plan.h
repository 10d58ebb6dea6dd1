#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cohort/base/result.h"
#include "cohort/lane/footprint.h"

namespace cohort {

/// Bytes of one tensor that a lane publishes or acquires, rounded out to lines.
struct LineRange {
  const Tensor* tensor = nullptr;
  ByteSet lines = {};
};

/// What one lane does around one barrier.
struct LaneMaintenance {
  std::vector<LineRange> publish = {};  ///< Before it arrives.
  std::vector<LineRange> acquire = {};  ///< After it is released.

  std::int64_t publish_lines() const;
  std::int64_t acquire_lines() const;
};

/// A tensor that two lanes of a fused grid hand on to each other.
struct Repartition {
  const Tensor* tensor = nullptr;
  std::size_t producer = 0;  ///< First phase that writes bytes another lane uses later.
  std::size_t consumer = 0;  ///< First phase that uses them.
};

/// Everything about the phases of a fused kernel that follows from their footprints.
struct FusionPlan {
  struct PhaseLane {
    std::int64_t blocks = 0;
    TensorBytesMap bytes = {};
  };
  std::int64_t lanes = 0;
  std::vector<std::vector<PhaseLane>> phases = {};          ///< [phase][lane], blocks of this run.
  std::vector<Repartition> repartitions = {};               ///< By tensor, at any number of blocks.
  std::vector<std::vector<LaneMaintenance>> barriers = {};  ///< [barrier][lane].
  /// [tensor of `repartitions`' kind or not]: lines that several lanes write in one phase; never
  /// cleaned.
  std::vector<LineRange> shared_lines = {};
};

/// Derives what lanes publish and acquire.
///
/// A tensor is repartitioned if some lane, in some phase, reads or writes a byte that another lane
/// wrote in an earlier phase, by the kernels' block mappings over their whole capacity: so the
/// answer doesn't depend on num_tokens. Then
///   publish k of lane l = what l wrote since the barrier it took part in before, of every
///   repartitioned
///                         tensor that a phase after k uses;
///   acquire k of lane l = what l reads until its next barrier, of every repartitioned tensor
///   written
///                         before, its own bytes included,
/// in bytes rounded out to lines. A line that two lanes write in one phase is left out of both.
///
/// Errors: kInvalidArgument "false-sharing: ..." if such a line is written through the data cache
/// or
///         used by another lane later, with tensor, line and lanes.
Result<FusionPlan> plan_fusion(const BoundKernel& kernel);

/// Whether plan_fusion() succeeds: what a graph asks before it takes a fused kernel.
Status check_fusion(const BoundKernel& kernel);

/// A table for people: per phase blocks and lanes, then repartitioned tensors and what each barrier
/// publishes and acquires.
std::string to_text(const FusionPlan& plan, const BoundKernel& kernel);

}  // namespace cohort
