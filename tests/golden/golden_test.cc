// Fingerprints of ten runs: the same on every machine, from every compiler, in every build.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "cohort/base/hash.h"
#include "cohort/lane/run_in_order.h"

#include "deepseek_v4/inputs.h"
#include "deepseek_v4/pre_norm_graph.h"

namespace deepseek_v4 {
namespace {

struct GoldenRun {
  const char* name;
  PreNormOptions options;
  std::uint64_t seed = 1;
  ParameterSet set = ParameterSet::kLayer0Ffn;
};

std::vector<GoldenRun> golden_runs() {
  const Config& toy = preset(Preset::kToy);
  return {
      {"toy_decode", {.config = toy}},
      {"toy_decode_seed_2", {.config = toy}, 2},
      {"toy_decode_bf16", {.config = toy, .bf16_stream = true}},
      {"toy_decode_hash", {.config = toy, .layer_id = 0}},
      {"toy_decode_slot_5_lanes", {.config = toy, .variant = Variant::kSlot, .lanes = 5}},
      {"toy_decode_no_tokens", {.config = toy, .num_tokens = 0}},
      {"toy_16_tokens_9_active", {.config = toy, .tokens = 16, .num_tokens = 9}},
      {"toy_prefill_hard",
       {.config = toy, .tokens = 128, .num_tokens = 77, .variant = Variant::kHard}},
      {"toy_chain_attention", {.config = toy, .hc_chain = true}, 1, ParameterSet::kLayer0Attention},
      {"flash_decode_chain", {.config = preset(Preset::kFlash), .hc_chain = true}},
  };
}

std::string fingerprint(const GoldenRun& run) {
  auto built = build_pre_norm(run.options, hc_parameters(run.set).scales);
  EXPECT_TRUE(built) << built.error().message;
  built->graph.poison_tensors();
  draw_inputs(*built, run.seed, run.set);
  cohort::run_in_order(built->graph);
  cohort::Hasher hasher;
  for (const std::string& name : inputs_of(run.options)) {
    hasher.add(name).add(built->graph.find_tensor(name)->memory());
  }
  for (const std::string& name : outputs_of(run.options)) {
    hasher.add(name).add(built->graph.find_tensor(name)->memory());
  }
  std::ostringstream out;
  out << run.name << " " << std::hex << hasher.digest() << "\n";
  return out.str();
}

TEST(Golden, FingerprintsOfTenRuns) {
  std::string found;
  for (const GoldenRun& run : golden_runs()) found += fingerprint(run);
  // To accept a change of results on purpose: COHORT_UPDATE_GOLDEN=1 golden_test.
  if (std::getenv("COHORT_UPDATE_GOLDEN") != nullptr) std::ofstream(GOLDEN_FILE) << found;
  std::ifstream in(GOLDEN_FILE);
  std::ostringstream expected;
  expected << in.rdbuf();
  EXPECT_EQ(found, expected.str());
}

}  // namespace
}  // namespace deepseek_v4
