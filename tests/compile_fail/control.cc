// Everything the other files get wrong, done right.
#include "kernel.h"

void run(cohort::DirectLane& lane, const Args& a) {
  const auto x = lane.load(a.x);
  auto y = lane.output(a.y);
  y(0, 0) = x(0, 0);
  lane.store(y);
}

const cohort::ArgsType& type = cohort::args_type<Args>();
cohort::Nanos sum() { return cohort::Nanos{1} + cohort::Nanos{2}; }
cohort::In<float> in_of(const cohort::Handle<float>& handle) { return handle; }
