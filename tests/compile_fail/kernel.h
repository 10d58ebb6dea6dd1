#pragma once

#include "cohort/lane/fuse.h"

// What the snippets begin with.
struct Args {
  cohort::In<float> x;
  cohort::Out<float> y;
  std::int64_t n = 0;
  COHORT_OPERANDS(x, y, n)
};
