#pragma once

// Every operator of one graph, on both lanes, against the float64 reference, with poison in
// everything not written.
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cohort/lane/contract.h"

#include "deepseek_v4/check_outputs.h"
#include "deepseek_v4/inputs.h"

namespace deepseek_v4 {

struct Case {
  Preset preset;
  std::int64_t tokens;
  bool bf16_stream;
  std::int64_t layer_id;
};

inline std::vector<std::int64_t> all_token_counts(std::int64_t tokens) {
  return {-3, 0,  1,          7,      8,          15,
          16, 17, tokens - 1, tokens, tokens + 5, std::numeric_limits<std::int32_t>::max()};
}

inline void expect_pass(const std::vector<OutputCheck>& checks) {
  for (const OutputCheck& c : checks) {
    EXPECT_TRUE(c.comparison.pass)
        << c.tensor << " (" << c.rule << "): " << to_text(c.comparison, c.shape);
  }
}

// Poisons what the graph computes, draws what it reads.
inline void reset(PreNormGraph& graph) {
  graph.graph.poison_tensors();
  draw_inputs(graph, 7);
}

inline void run_case(const Case& c, const std::vector<std::int64_t>& token_counts) {
  PreNormOptions options{.config = preset(c.preset),
                         .tokens = c.tokens,
                         .bf16_stream = c.bf16_stream,
                         .layer_id = c.layer_id};
  const HcScales scales = hc_parameters(ParameterSet::kLayer0Ffn).scales;
  auto built = build_pre_norm(options, scales);
  ASSERT_TRUE(built) << built.error().message;
  for (const std::int64_t n : token_counts) {
    SCOPED_TRACE("num_tokens " + std::to_string(n));
    options.num_tokens = n;
    ASSERT_TRUE(built->graph.set_scalar("num_tokens", static_cast<double>(n)));
    reset(*built);
    ASSERT_TRUE(validate_routing(*built, n));
    for (const cohort::Task& task : built->graph.tasks()) {
      if (task.is_dummy()) continue;
      const cohort::ContractReport report = cohort::check_contract(task);
      for (const std::string& error : report.errors) ADD_FAILURE() << task.name << ": " << error;
    }
    const std::vector<OutputCheck> outputs = check_outputs(*built, options, scales);
    EXPECT_GE(outputs.size(), 7u);
    expect_pass(outputs);
    expect_pass(check_status(*built, options));
  }
}

inline std::string case_name(const testing::TestParamInfo<Case>& info) {
  return preset(info.param.preset).name + "_T" + std::to_string(info.param.tokens) +
         (info.param.bf16_stream ? "_bf16" : "_fp32") +
         (info.param.layer_id < 3 ? "_hash" : "_sorted");
}

}  // namespace deepseek_v4
