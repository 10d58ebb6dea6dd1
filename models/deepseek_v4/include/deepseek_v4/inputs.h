#pragma once

#include <array>
#include <cstdint>

#include "deepseek_v4/pre_norm_graph.h"

namespace deepseek_v4 {

/// Scales and base of one trained hyper-connection.
struct HcParameters {
  HcScales scales = {};
  std::array<float, 24> base = {};  ///< 0..3 pre, 4..7 post, 8 + 4 i + j comb.
};

/// Values of DeepSeek-V4's own weights.
enum class ParameterSet {
  kLayer8Attention,
  kLayer0Ffn,
  kLayer0Attention,
  kLayer9Attention,
};
const HcParameters& hc_parameters(ParameterSet set);

/// Sets every input of a pre-norm graph: x_hc, ffn_out of standard deviation 1; hc_ffn_fn 0.0635;
/// gate_w 1 / sqrt(D); gate_bias 0.1; norm_w 1; hc_ffn_base of `set`; input_ids uniform; tid2eid k
/// distinct experts a token. All zero-mean normal where not said otherwise.
///
/// Determinism: depends on seed, tensor name and index alone.
void draw_inputs(PreNormGraph& graph, std::uint64_t seed,
                 ParameterSet set = ParameterSet::kLayer0Ffn);

}  // namespace deepseek_v4
