// What the default suite leaves out: all token counts of FLASH's prefill, and the presets PRO and
// DEMO.
#include "operator_cases.h"

namespace deepseek_v4 {
namespace {

class AllOperators : public testing::TestWithParam<Case> {};

TEST_P(AllOperators, AgreeWithTheReferenceOnBothLanes) {
  run_case(GetParam(), all_token_counts(GetParam().tokens));
}

INSTANTIATE_TEST_SUITE_P(
    Slow, AllOperators,
    testing::Values(Case{Preset::kFlash, 16, false, 10}, Case{Preset::kFlash, 16, true, 0},
                    Case{Preset::kFlash, 128, false, 0}, Case{Preset::kFlash, 128, true, 10},
                    Case{Preset::kPro, 8, false, 10}, Case{Preset::kPro, 8, true, 0},
                    Case{Preset::kPro, 128, false, 10}, Case{Preset::kDemo, 8, false, 10},
                    Case{Preset::kDemo, 16, true, 0}, Case{Preset::kDemo, 128, false, 0},
                    Case{Preset::kToy, 8, true, 0}, Case{Preset::kToy, 16, true, 10},
                    Case{Preset::kToy, 128, true, 0}),
    case_name);

}  // namespace
}  // namespace deepseek_v4
