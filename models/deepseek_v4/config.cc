#include "deepseek_v4/config.h"

#include <array>
#include <bit>

#include "cohort/base/strings.h"

namespace deepseek_v4 {
namespace {

using cohort::ErrorCode;
using cohort::fail;

const std::array<Config, 4>& configs() {
  static const std::array<Config, 4> kConfigs = {{
      {.name = "flash",
       .hidden_size = 4096,
       .vocab_size = 129280,
       .moe_intermediate_size = 2048,
       .n_routed_experts = 256,
       .num_experts_per_tok = 6,
       .routed_scaling_factor = 1.5f,
       .swiglu_limit = 10.0f,
       .num_hidden_layers = 43,
       .num_hash_layers = 3,
       .rms_chunk = 512},
      {.name = "pro",
       .hidden_size = 7168,
       .vocab_size = 129280,
       .moe_intermediate_size = 3072,
       .n_routed_experts = 384,
       .num_experts_per_tok = 6,
       .routed_scaling_factor = 2.5f,
       .swiglu_limit = 10.0f,
       .num_hidden_layers = 61,
       .num_hash_layers = 3,
       .rms_chunk = 256},
      {.name = "demo",
       .hidden_size = 4096,
       .vocab_size = 129280,
       .moe_intermediate_size = 4096,
       .n_routed_experts = 16,
       .num_experts_per_tok = 2,
       .routed_scaling_factor = 1.0f,
       .swiglu_limit = 0.0f,
       .num_hidden_layers = 8,
       .num_hash_layers = 0,
       .rms_chunk = 512},
      {.name = "toy",
       .hidden_size = 1024,
       .vocab_size = 1024,
       .moe_intermediate_size = 512,
       .n_routed_experts = 32,
       .num_experts_per_tok = 6,
       .routed_scaling_factor = 1.5f,
       .swiglu_limit = 10.0f,
       .num_hidden_layers = 43,
       .num_hash_layers = 3,
       .rms_chunk = 512},
  }};
  return kConfigs;
}

cohort::Status check_multiple(const Config& config, const char* field, std::int64_t value,
                              std::int64_t multiple) {
  if (value > 0 && value % multiple == 0) return {};
  return fail(ErrorCode::kInvalidArgument,
              "configuration '" + config.name + "': " + field + " is " + std::to_string(value) +
                  ", expected a positive multiple of " + std::to_string(multiple));
}

cohort::Status check_range(const Config& config, const char* field, std::int64_t value,
                           std::int64_t low, std::int64_t high) {
  if (low <= value && value <= high) return {};
  return fail(ErrorCode::kInvalidArgument, "configuration '" + config.name + "': " + field +
                                               " is " + std::to_string(value) + ", expected " +
                                               std::to_string(low) + " to " + std::to_string(high));
}

}  // namespace

const Config& preset(Preset preset) { return configs()[static_cast<std::size_t>(preset)]; }

const std::vector<std::string>& preset_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const Config& config : configs()) names.push_back(config.name);
    return names;
  }();
  return kNames;
}

cohort::Result<Preset> preset_named(std::string_view name) {
  for (std::size_t i = 0; i < configs().size(); ++i) {
    if (configs()[i].name == name) return static_cast<Preset>(i);
  }
  return fail(ErrorCode::kNotFound, "no preset '" + cohort::printable(name) + "'" +
                                        cohort::did_you_mean(name, preset_names()));
}

cohort::Result<Extents> extents_of(const Config& config, std::int64_t tokens,
                                   std::int64_t experts) {
  COHORT_TRY_STATUS(check_multiple(config, "hidden_size", config.hidden_size, kMixSlice));
  COHORT_TRY_STATUS(check_range(config, "hc_mult", config.hc_mult, 4, 4));
  COHORT_TRY_STATUS(check_range(config, "hc_sinkhorn_iters", config.hc_sinkhorn_iters, 1, 1000));
  const std::int64_t flat = config.hidden_size * config.hc_mult;
  COHORT_TRY_STATUS(check_multiple(config, "rms_chunk", config.rms_chunk, 16));
  if (flat % config.rms_chunk != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "configuration '" + config.name + "': rms_chunk is " +
                    std::to_string(config.rms_chunk) +
                    ", expected a divisor of hc_mult * hidden_size = " + std::to_string(flat));
  }
  const std::int64_t visible = experts > 0 ? experts : config.n_routed_experts;
  COHORT_TRY_STATUS(check_multiple(config, "n_routed_experts", visible, kExpertTile));
  COHORT_TRY_STATUS(check_range(config, "num_experts_per_tok", config.num_experts_per_tok, 1,
                                visible < 8 ? visible : 8));
  COHORT_TRY_STATUS(check_multiple(config, "vocab_size", config.vocab_size, 1));
  if (tokens <= 0 || tokens % kTokenTile != 0 || (tokens > 16 && tokens % 16 != 0)) {
    return fail(ErrorCode::kInvalidArgument, "configuration '" + config.name + "': tokens is " +
                                                 std::to_string(tokens) +
                                                 ", expected 8 or a positive multiple of 16");
  }
  Extents e;
  e.tokens = tokens;
  e.padded_tokens = (tokens + 15) / 16 * 16;
  e.hidden = config.hidden_size;
  e.streams = config.hc_mult;
  e.flat = flat;
  e.mixes = (2 + config.hc_mult) * config.hc_mult;
  e.experts = visible;
  e.score_pad = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(visible < 256 ? 256 : visible)));
  e.top_k = config.num_experts_per_tok;
  return e;
}

}  // namespace deepseek_v4
