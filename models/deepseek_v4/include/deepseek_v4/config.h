#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/base/result.h"

namespace deepseek_v4 {

/// The scalar fields of a DeepSeek-V4 configuration that its MoE layer uses.
struct Config {
  std::string name = {};
  std::int64_t hidden_size = 0;  ///< D.
  std::int64_t hc_mult = 4;      ///< H, residual streams.
  std::int64_t hc_sinkhorn_iters = 20;
  std::int64_t vocab_size = 0;             ///< V.
  std::int64_t moe_intermediate_size = 0;  ///< I.
  std::int64_t n_routed_experts = 0;       ///< E of the whole model.
  std::int64_t num_experts_per_tok = 0;    ///< k.
  float routed_scaling_factor = 1.0f;
  float swiglu_limit = 0.0f;  ///< 0: no clamp.
  std::int64_t num_hidden_layers = 0;
  std::int64_t num_hash_layers = 0;  ///< Layers below it route by token id.
  std::int64_t rms_chunk = 512;      ///< Columns per partial sum of hc_pre_rms.
};

/// FLASH, PRO, DEMO: the model's own; TOY: small, for fast tests.
enum class Preset { kFlash, kPro, kDemo, kToy };

const Config& preset(Preset preset);
/// Errors: kNotFound with a suggestion.
cohort::Result<Preset> preset_named(std::string_view name);
/// "flash", "pro", "demo", "toy".
const std::vector<std::string>& preset_names();

/// One token batch: how many rows the tensors of a step have.
enum class Mode { kDecode, kPrefill };
constexpr std::int64_t tokens_of(Mode mode) { return mode == Mode::kDecode ? 8 : 128; }

/// Extents that follow from a configuration and a number of tokens.
struct Extents {
  std::int64_t tokens = 0;         ///< T.
  std::int64_t padded_tokens = 0;  ///< Tp: T rounded up to 16.
  std::int64_t hidden = 0;         ///< D.
  std::int64_t streams = 4;        ///< H.
  std::int64_t flat = 0;           ///< K = H D.
  std::int64_t mixes = 24;         ///< C = (2 + H) H columns that matter.
  std::int64_t experts = 0;        ///< E.
  std::int64_t score_pad = 0;      ///< Columns of a score row: a power of two >= E, at least 256.
  std::int64_t top_k = 0;          ///< k.
};

/// Columns of the padded tensors: mixes_raw, pre_val_store.
inline constexpr std::int64_t kMixPad = 32;
inline constexpr std::int64_t kGatePad = 8;
inline constexpr std::int64_t kTokenTile = 8;     ///< Tokens per block of most operators.
inline constexpr std::int64_t kLinearTile = 16;   ///< Tokens per block of the matrix products.
inline constexpr std::int64_t kLinearSplits = 4;  ///< Parts of K in hc_pre_linear.
inline constexpr std::int64_t kMixSlice = 1024;   ///< Columns per block of mix_x.
inline constexpr std::int64_t kExpertTile = 16;   ///< Experts per block of the gate.

/// Checks a configuration for `tokens` rows and derives its extents. `experts` = 0 means all of the
/// model's.
/// Errors: kInvalidArgument naming the field, its value and the rule it breaks.
cohort::Result<Extents> extents_of(const Config& config, std::int64_t tokens,
                                   std::int64_t experts = 0);

/// num_tokens clamped to [0, tokens].
constexpr std::int64_t active_tokens(std::int64_t num_tokens, std::int64_t tokens) {
  return num_tokens < 0 ? 0 : (num_tokens > tokens ? tokens : num_tokens);
}
/// Tiles of 8 tokens that hold an active one.
constexpr std::int64_t active_tiles(std::int64_t num_tokens, std::int64_t tokens) {
  return (active_tokens(num_tokens, tokens) + kTokenTile - 1) / kTokenTile;
}
/// G: the rows that ffn_norm computes, whole tiles of 16 up to T.
constexpr std::int64_t normalised_rows(std::int64_t num_tokens, std::int64_t tokens) {
  const std::int64_t rows = (active_tokens(num_tokens, tokens) + 15) / 16 * 16;
  return rows < tokens ? rows : tokens;
}

}  // namespace deepseek_v4
