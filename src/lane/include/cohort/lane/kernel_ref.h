#pragma once

#include <cstdint>

#include "cohort/graph/kernel.h"
#include "cohort/lane/direct_lane.h"
#include "cohort/lane/modelled_lane.h"

namespace cohort {

/// A kernel: a struct with
///   static constexpr KernelInfo kInfo;
///   struct Args { operands...; COHORT_OPERANDS(...) };
///   static std::int64_t blocks(const Args&);
///   template <class L> static void run(L& lane, const Args&, std::int64_t block);
/// and, where they apply,
///   static std::int64_t capacity(const Args&);   the most blocks for any value of the scalars;
///   static Status validate(const Args&);         called at submission, before blocks();
///   static void region(const Args&, std::int64_t block, const RegionSink&);
///                                                what a block may touch, if addresses depend on
///                                                data.
template <class K>
concept Kernel = requires(const typename K::Args& args, DirectLane& direct,
                          ModelledLane& modelled) {
  { K::kInfo } -> std::convertible_to<KernelInfo>;
  {K::Args::operand_table()};
  { K::blocks(args) } -> std::same_as<std::int64_t>;
  { K::run(direct, args, std::int64_t{}) } -> std::same_as<void>;
  { K::run(modelled, args, std::int64_t{}) } -> std::same_as<void>;
};

/// Erases a kernel's code.
template <Kernel K>
KernelBody kernel_body() {
  using Args = typename K::Args;
  KernelBody body;
  body.info = K::kInfo;
  body.args_type = &args_type<Args>();
  body.blocks = [](const void* a) { return K::blocks(*static_cast<const Args*>(a)); };
  if constexpr (requires(const Args& a) { K::capacity(a); }) {
    body.capacity = [](const void* a) -> std::int64_t {
      return K::capacity(*static_cast<const Args*>(a));
    };
  } else {
    body.capacity = body.blocks;
  }
  body.direct = [](DirectLane& lane, const void* a, std::int64_t block) {
    K::run(lane, *static_cast<const Args*>(a), block);
  };
  body.modelled = [](ModelledLane& lane, const void* a, std::int64_t block) {
    K::run(lane, *static_cast<const Args*>(a), block);
  };
  if constexpr (requires(const Args& a) { K::validate(a); }) {
    body.validate = [](const void* a) -> Status {
      return K::validate(*static_cast<const Args*>(a));
    };
  }
  if constexpr (requires(const Args& a, const RegionSink& sink) { K::region(a, 0, sink); }) {
    body.region = [](const void* a, std::int64_t block, const RegionSink& sink) {
      K::region(*static_cast<const Args*>(a), block, sink);
    };
  }
  return body;
}

/// Erases a kernel to what a graph holds: one phase, a lane per block.
template <Kernel K>
KernelRef kernel_ref() {
  const KernelBody body = kernel_body<K>();
  KernelRef ref;
  ref.name = body.info.name;
  ref.core = body.info.core;
  ref.args_type = body.args_type;
  ref.phases.push_back({.body = body});
  return ref;
}

}  // namespace cohort
