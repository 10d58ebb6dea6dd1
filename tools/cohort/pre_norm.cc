// The graphs of DeepSeek-V4's MoE pre-processing, for the command line.
#include <cstring>
#include <limits>

#include "cohort/cli/graph_registry.h"

#include "deepseek_v4/check_outputs.h"
#include "deepseek_v4/inputs.h"
#include "deepseek_v4/pre_norm_graph.h"

namespace deepseek_v4 {
namespace {

using cohort::ErrorCode;
using cohort::fail;
using cohort::Result;
using cohort::cli::BuildRequest;
using cohort::cli::BuiltGraph;

const std::vector<std::string> kVariants = {"unfused", "slot", "counter", "hard"};
const std::vector<std::string> kStops = {"full", "split", "barrier1", "mix", "barrier2"};

template <class Enum>
Enum nth(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<Enum>(std::find(names.begin(), names.end(), name) - names.begin());
}

StopAfter stop_named(const std::string& name) {
  if (name == "full") return StopAfter::kFull;
  return static_cast<StopAfter>(nth<int>(kStops, name) - 1);
}

// The scales are bound when the graph is built, so a saved run's come from the file.
Result<HcScales> scales_of(const BuildRequest& request) {
  if (request.loaded() == nullptr) return hc_parameters(ParameterSet::kLayer0Ffn).scales;
  COHORT_TRY(const auto stored, request.loaded()->find("hc_ffn_scale"));
  if (stored.dtype != cohort::DType::kFloat32 || stored.shape != cohort::Shape{3}) {
    return fail(ErrorCode::kInvalidArgument,
                "\"" + request.loaded()->file() + "\": tensor \"hc_ffn_scale\" is " +
                    std::string(cohort::name(stored.dtype)) + " " +
                    cohort::to_string(stored.shape) + ", expected F32 [3]");
  }
  float values[3];
  std::memcpy(values, stored.bytes.data(), sizeof values);
  return HcScales{values[0], values[1], values[2]};
}

// What the graph has computed when the fused kernel stops there.
std::vector<std::string> outputs_until(const PreNormOptions& options) {
  std::vector<std::string> names = outputs_of(options);
  if (options.stop_after == StopAfter::kFull) return names;
  names = {"inv_rms", "mixes_raw", "pre_val_store", "post"};
  if (options.stop_after >= StopAfter::kMix) names.push_back("x_mixed");
  return names;
}

Result<BuiltGraph> build(const BuildRequest& request, bool hc_chain) {
  COHORT_TRY(const Preset chosen, preset_named(request.choice("preset")));
  PreNormOptions options{
      .config = preset(chosen),
      .tokens = tokens_of(request.choice("mode") == "decode" ? Mode::kDecode : Mode::kPrefill),
      .num_tokens = request.integer("num-tokens"),
      .variant = nth<Variant>(kVariants, request.variant()),
      .lanes = request.integer("lanes"),
      .bf16_stream = request.choice("stream") == "bf16",
      .layer_id = request.integer("layer-id"),
      .hc_chain = hc_chain};
  // Only a fused kernel can stop in its middle: the unfused chain is compared up to there.
  options.stop_after = stop_named(request.choice("stop"));
  PreNormOptions built_as = options;
  if (options.variant == Variant::kUnfused) built_as.stop_after = StopAfter::kFull;
  COHORT_TRY(const HcScales scales, scales_of(request));
  COHORT_TRY(PreNormGraph built, build_pre_norm(built_as, scales));

  auto state = std::make_shared<PreNormGraph>(std::move(built));
  BuiltGraph result;
  result.graph = std::shared_ptr<cohort::Graph>(state, &state->graph);
  result.inputs = inputs_of(options);
  result.outputs = outputs_until(options);
  result.draw = [state](std::uint64_t seed) { draw_inputs(*state, seed); };
  result.validate = [state, n = options.num_tokens] { return validate_routing(*state, n); };
  result.check = [state, options, scales] { return check_outputs(*state, options, scales); };
  result.declared = declared_producers(built_as);
  result.constants = {{"hc_ffn_scale", {scales.pre, scales.post, scales.comb}}};
  result.metadata = {
      {"num_tokens", std::to_string(options.num_tokens)},
      {"layer_id", std::to_string(options.layer_id)},
      {"num_hash_layers", std::to_string(options.config.num_hash_layers)},
      {"routed_scaling_factor", std::to_string(options.config.routed_scaling_factor)},
      {"preset", request.choice("preset")},
      {"mode", request.choice("mode")},
      {"variant", request.variant()},
      {"seed", std::to_string(request.seed())}};
  return result;
}

cohort::cli::GraphEntry& declare(cohort::cli::GraphEntry& entry) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  return entry.variants(kVariants)
      .parameter("mode", "8 tokens or 128.", {{"decode", "prefill"}, true})
      .parameter("num-tokens", "Active tokens; clamped to the mode's.",
                 {8, -kMost - 1, kMost, {0, 1, 7, 8, 128}})
      .parameter("lanes", "Most lanes of the fused grid; a hard barrier ignores it.",
                 {8, 1, 64, {}})
      .parameter("preset", "Configuration of the model.", {preset_names(), false})
      .parameter("stream", "Element type of the residual streams.", {{"fp32", "bf16"}, true})
      .parameter("layer-id", "Layers below the hash layers route by token id.", {10, 0, 1000, {}})
      .parameter("stop", "Stop the fused kernel after a step.", {kStops, false});
}

const auto& pre_norm =
    declare(cohort::cli::register_graph("pre-norm",
                                        [](const BuildRequest& r) { return build(r, false); }))
        .help(
            "DeepSeek-V4's MoE pre-processing: hyper-connection, norm, gate and "
            "route; split, mix and norm fused.");
const auto& hc_chain = declare(cohort::cli::register_graph("hc-chain", [](const BuildRequest& r) {
                         return build(r, true);
                       })).help("The hyper-connection chain of pre-norm alone, without a router.");

}  // namespace
}  // namespace deepseek_v4
