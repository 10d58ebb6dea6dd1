#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cohort/base/result.h"
#include "cohort/check/audit.h"
#include "cohort/graph/graph.h"

#include "deepseek_v4/config.h"
#include "deepseek_v4/fused_pre_norm.h"

namespace deepseek_v4 {

/// How the three kernels split_pre_post, mix_x and ffn_norm are launched.
enum class Variant { kUnfused, kSlot, kCounter, kHard };

/// What a pre-norm graph is built from.
struct PreNormOptions {
  Config config = preset(Preset::kFlash);
  std::int64_t tokens = 8;      ///< T.
  std::int64_t num_tokens = 8;  ///< N, clamped by every kernel.
  Variant variant = Variant::kUnfused;
  std::int64_t lanes = 8;          ///< Cap of the fused kernel; a hard barrier ignores it.
  std::int64_t vector_cores = 48;  ///< What a hard barrier counts.
  bool bf16_stream = false;
  std::int64_t layer_id = 10;  ///< Below num_hash_layers routes by token id.
  std::int64_t experts = 0;    ///< E; 0: all of the model's.
  bool atomic_linear = false;  ///< Split-K by atomic addition instead of partials and a reduce.
  StopAfter stop_after = StopAfter::kFull;  ///< Anything else takes the debug form.
  /// Only the chain: no gate, route and stand-ins.
  bool hc_chain = false;
};

/// Scalars that a model's weights bring along.
struct HcScales {
  float pre = 0;   ///< s0.
  float post = 0;  ///< s1.
  float comb = 0;  ///< s2.
};

/// A built graph with the extents it was built for. Its tensors are found by name: inputs x_hc,
/// hc_ffn_fn, hc_ffn_base, norm_w, gate_w, gate_bias, tid2eid, input_ids, ffn_out; the others as in
/// outputs_of().
struct PreNormGraph {
  cohort::Graph graph;
  Extents extents;
  bool hash_routing = false;
};

/// Builds DeepSeek-V4's MoE pre-processing with hc_post behind it:
///   unfused  {rms, linear -> reduce} -> split -> mix -> norm -> {quant, pre_route, gate} -> route
///            -> {dispatch_standin, shared_standin}, comb, hc_post; edges follow from data.
///   fused    split, mix and norm are one cohort; inv_rms and mixes_raw make no automatic edges:
///   the fused
///            task names both producers, comb waits for dispatch_standin alone (in hc_chain: for
///            the fused task), which comes after them through the explicit edge of gate_pre_route.
/// Errors: kInvalidArgument from extents_of(), or the graph's refusals.
cohort::Result<PreNormGraph> build_pre_norm(const PreNormOptions& options, const HcScales& scales);

/// Names of the tensors that callers set, and of those that the graph computes, in the order in
/// which they are saved.
std::vector<std::string> inputs_of(const PreNormOptions& options);
std::vector<std::string> outputs_of(const PreNormOptions& options);

/// The edges that the graph promises of the fused task, of comb_sinkhorn and of the consumers of
/// the normalised rows, by task name: for a contract audit. Empty if unfused.
std::vector<cohort::check::DeclaredProducers> declared_producers(const PreNormOptions& options);

/// Whether every routing input is usable: ids inside the vocabulary, table entries inside [0, E)
/// and distinct within a token, for the first num_tokens tokens. Errors: kInvalidArgument naming
/// token, value and limit.
cohort::Status validate_routing(const PreNormGraph& graph, std::int64_t num_tokens);

}  // namespace deepseek_v4
