#include "parser.h"

namespace cohort::litmus {

std::string_view prelude() {
  return R"(
proc slot_barrier(slot, members) {
  head = load cached slot[lane]
  store cached slot[lane] = head + 1
  clean slot[lane]
  fence
  for j in 0..members - 1 {
    wait until slot[j] >= head + 1
  }
}

proc counter_barrier(counter, members) {
  before = load counter
  add(counter, 1) acq_rel
  wait acquire until counter >= (before / members + 1) * members
}

proc hard_barrier(signal, round, everyone) {
  add(signal, 1) acq_rel
  wait acquire until signal >= round * everyone
}
)";
}

}  // namespace cohort::litmus
