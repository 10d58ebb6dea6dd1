#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "cohort/lane/kernel_ref.h"
#include "cohort/lane/plan.h"

namespace cohort {

/// How a fused kernel is launched.
struct FuseOptions {
  std::int64_t lanes = 8;  ///< Most lanes; see bind_kernel.
  Barrier barrier = Barrier::kCounter;
  std::int64_t vector_cores = 48;  ///< What a hard barrier counts; 48 on A2/A3.
};

/// A fused kernel under construction: phases with a barrier between every two.
///
///   before                                  after
///   for b in blocks(A): A(b)   launch 1     for each lane l of n, all resident:
///   for b in blocks(B): B(b)   launch 2       for b = l; b < blocks(A); b += n: A(b)
///                                             barrier
///                                             for b = l; b < blocks(B); b += n: B(b)
///
/// Numerics: unchanged, bit for bit, for any number of lanes: the same bodies run.
/// What lanes publish and acquire at a barrier is derived from the phases' footprints; see plan.h.
template <class Args>
class Fusion {
 public:
  Fusion(std::string name, FuseOptions options) {
    ref_.name = std::move(name);
    ref_.args_type = &args_type<Args>();
    ref_.barrier = options.barrier;
    ref_.lane_cap = options.lanes;
    ref_.vector_cores = options.vector_cores;
    COHORT_CHECK(options.lanes > 0 && options.vector_cores > 0, "a fused kernel needs lanes");
    COHORT_CHECK(options.barrier != Barrier::kNone, "a fused kernel needs a barrier");
    ref_.check = &check_fusion;
  }

  /// Appends a phase that runs kernel K on `project(args)`.
  /// Requires: it is the first, or follows a barrier().
  template <Kernel K, class Project>
  Fusion&& phase(Project project) && {
    COHORT_CHECK(ref_.phases.size() == ref_.meetings.size(),
                 "fuse: a barrier() comes between two phases");
    Phase phase{.body = kernel_body<K>()};
    if (ref_.phases.empty()) ref_.core = phase.body.info.core;
    COHORT_CHECK(phase.body.info.core == ref_.core, "fuse: phases run on one kind of core");
    phase.project = [project =
                         std::move(project)](const void* args) -> std::shared_ptr<const void> {
      return std::make_shared<typename K::Args>(project(*static_cast<const Args*>(args)));
    };
    ref_.phases.push_back(std::move(phase));
    return std::move(*this);
  }

  /// Appends a meeting of lanes [0, participants); 0 means all. Requires: it follows a phase.
  Fusion&& barrier(std::int64_t participants = 0) && {
    COHORT_CHECK(ref_.phases.size() == ref_.meetings.size() + 1, "fuse: barrier() follows a phase");
    ref_.meetings.push_back({.participants = participants});
    return std::move(*this);
  }

  /// Makes a debug entry: runs only the first `steps(args)` of phase, barrier, phase, ...
  template <class Steps>
  Fusion&& stop_after(Steps steps) && {
    ref_.steps = [steps = std::move(steps)](const void* args) -> std::int64_t {
      return steps(*static_cast<const Args*>(args));
    };
    return std::move(*this);
  }

  /// The finished kernel. Requires: it ends with a phase.
  operator KernelRef() && {
    COHORT_CHECK(ref_.phases.size() == ref_.meetings.size() + 1, "fuse: the last step is a phase");
    return std::move(ref_);
  }

 private:
  KernelRef ref_;
};

/// Starts a fused kernel over the operands `Args`, whose last tensor is the workspace.
///
/// Example: KernelRef fused = fuse<MyArgs>("fused", {.lanes = 8})
///              .phase<A>([](const MyArgs& a) { return A::Args{...}; }).barrier()
///              .phase<B>([](const MyArgs& a) { return B::Args{...}; });
template <class Args>
Fusion<Args> fuse(std::string name, FuseOptions options = {}) {
  return Fusion<Args>(std::move(name), options);
}

}  // namespace cohort
