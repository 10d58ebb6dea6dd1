// Every operator, on both lanes, against the float64 reference, with poison in everything not
// written.
#include "cohort/lane/run_in_order.h"

#include "operator_cases.h"

namespace deepseek_v4 {
namespace {

class Operators : public testing::TestWithParam<Case> {};

TEST_P(Operators, AgreeWithTheReferenceOnBothLanes) {
  const Case& c = GetParam();
  const bool large = c.preset == Preset::kFlash && c.tokens == 128;
  run_case(c, large ? std::vector<std::int64_t>{0, 17, 128} : all_token_counts(c.tokens));
}

INSTANTIATE_TEST_SUITE_P(
    Toy, Operators,
    testing::Values(Case{Preset::kToy, 8, false, 10}, Case{Preset::kToy, 8, true, 10},
                    Case{Preset::kToy, 8, false, 0}, Case{Preset::kToy, 16, false, 10},
                    Case{Preset::kToy, 16, true, 0}, Case{Preset::kToy, 128, false, 10},
                    Case{Preset::kToy, 128, true, 10}, Case{Preset::kToy, 128, false, 0}),
    case_name);
INSTANTIATE_TEST_SUITE_P(Flash, Operators,
                         testing::Values(Case{Preset::kFlash, 8, false, 10},
                                         Case{Preset::kFlash, 8, true, 10},
                                         Case{Preset::kFlash, 128, false, 10},
                                         Case{Preset::kFlash, 128, true, 10}),
                         case_name);

// Chained without a contract check: what a caller sees, from one drawn input.
TEST(PreNorm, ZeroStreamGivesTheKnownAnswer) {
  const PreNormOptions options{.config = preset(Preset::kToy)};
  auto built = build_pre_norm(options, hc_parameters(ParameterSet::kLayer0Ffn).scales);
  ASSERT_TRUE(built);
  reset(*built);
  const auto x = built->graph.find<float>("x_hc");
  std::fill_n(x->host(), x->rows() * x->cols(), 0.0f);
  cohort::run_in_order(built->graph);
  EXPECT_NEAR(built->graph.find<float>("inv_rms")->host()[3], 1000.0, 2e-3);
  EXPECT_EQ(built->graph.find<float>("mixes_raw")->host()[5], 0.0f);
  EXPECT_EQ(built->graph.find<BFloat16>("x_mixed")->host()[100].bits, 0);
  EXPECT_EQ(built->graph.find<float>("xg_buf")->host()[100], 0.0f);
  EXPECT_NEAR(built->graph.find<float>("xn_scale_buf")->host()[2], 1.27e6, 1);
  EXPECT_NEAR(built->graph.find<float>("ffn_inv_rms_buf")->host()[2], 1000.0, 2e-3);
  EXPECT_EQ(built->graph.find<std::int8_t>("x_norm_i8")->host()[100], 0);
  const float pre[] = {0.917987589f, 0.116583369f, 0.119004578f, 0.100228442f,
                       0.176100586f, 0.046407409f, 0.001086314f, 0.643228466f};
  const float post[] = {0.352199172f, 0.092812818f, 0.002170628f, 1.286454932f};
  const float comb[] = {0.974300167f, 0.000090726f, 0.005241721f, 0.018882427f,
                        0.001564342f, 0.995424589f, 0.001351786f, 0.000820284f,
                        0.005494353f, 0.001665382f, 0.988097304f, 0.001994439f,
                        0.018640140f, 0.002818304f, 0.005308192f, 0.978301845f};
  for (int c = 0; c < 8; ++c) {
    EXPECT_NEAR(built->graph.find<float>("pre_val_store")->host()[c], pre[c], 5e-6f * pre[c]);
  }
  for (int c = 0; c < 4; ++c) {
    EXPECT_NEAR(built->graph.find<float>("post")->host()[c], post[c], 5e-6f * post[c]);
  }
  for (int c = 0; c < 16; ++c) {
    EXPECT_NEAR(built->graph.find<float>("comb")->host()[c], comb[c], 1e-6f + 5e-5f * comb[c]);
  }
}

TEST(PreNorm, AtomicLinearIsWithinItsOrderOfAddition) {
  PreNormOptions options{.config = preset(Preset::kToy), .atomic_linear = true};
  const HcScales scales = hc_parameters(ParameterSet::kLayer0Ffn).scales;
  for (const Variant variant : {Variant::kUnfused, Variant::kSlot}) {
    options.variant = variant;
    auto built = build_pre_norm(options, scales);
    ASSERT_TRUE(built) << built.error().message;
    reset(*built);
    for (const cohort::Task& task : built->graph.tasks()) {
      if (task.is_dummy()) continue;
      for (const std::string& e : cohort::check_contract(task).errors) ADD_FAILURE() << e;
    }
    expect_pass(check_outputs(*built, options, scales));
  }
}

TEST(PreNorm, HcChainHasNoRouter) {
  PreNormOptions options{
      .config = preset(Preset::kToy), .tokens = 16, .num_tokens = 5, .hc_chain = true};
  const HcScales scales = hc_parameters(ParameterSet::kLayer0Ffn).scales;
  for (const Variant variant : {Variant::kUnfused, Variant::kCounter}) {
    options.variant = variant;
    auto built = build_pre_norm(options, scales);
    ASSERT_TRUE(built) << built.error().message;
    reset(*built);
    cohort::run_in_order(built->graph);
    expect_pass(check_outputs(*built, options, scales));
    expect_pass(check_status(*built, options));
    EXPECT_FALSE(built->graph.find<float>("gate_w"));
  }
}

}  // namespace
}  // namespace deepseek_v4
