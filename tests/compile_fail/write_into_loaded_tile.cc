#include "kernel.h"

void run(cohort::DirectLane& lane, const Args& a) {
  const auto x = lane.load(a.x);
  x(0, 0) = 1;
}
