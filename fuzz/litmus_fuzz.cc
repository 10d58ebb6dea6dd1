// Any text: an error that says where, or a protocol that is explored a little; what is found is
// found again from its choices.
#include <cstdint>
#include <string>
#include <string_view>

#include "cohort/litmus/litmus.h"

namespace {

namespace litmus = cohort::litmus;

constexpr const char* kName = "input.litmus";

// Lines of text that a terminal doesn't act on.
bool is_printable(std::string_view text) {
  for (const char c : text) {
    if (c != '\n' && (c < 0x20 || c > 0x7E)) return false;
  }
  return true;
}

void check_error(const cohort::Error& error) {
  COHORT_CHECK(error.message.find(kName) != std::string::npos, "no place: " + error.message);
  COHORT_CHECK(is_printable(error.message), "an error has bytes a terminal acts on");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto file = litmus::parse(text, kName);
  if (!file) {
    check_error(file.error());
    return 0;
  }
  litmus::RunOptions options;
  options.explore.most_states = 300;
  options.explore.most_bytes = std::size_t{64} << 20;
  const auto cases = litmus::run(*file, options);
  if (!cases) {
    check_error(cases.error());
    return 0;
  }
  for (const litmus::CaseResult& c : *cases) {
    COHORT_CHECK(!c.exploration.verdicts().empty(), "a case without a verdict");
    for (const litmus::Fault& fault : c.exploration.faults) {
      const auto steps = litmus::replay(*file, c.variant, c.parameters, fault.choices, options);
      COHORT_CHECK(steps, steps.error().message);
      COHORT_CHECK(*steps == fault.schedule, "a schedule taken again differs");
    }
  }
  return 0;
}
