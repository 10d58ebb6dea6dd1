#include "kernel.h"

struct Disordered {
  cohort::In<float> x;
  std::int64_t n = 0;
  cohort::Out<float> y;
  COHORT_OPERANDS(x, n, y)
};
const cohort::ArgsType& type = cohort::args_type<Disordered>();
