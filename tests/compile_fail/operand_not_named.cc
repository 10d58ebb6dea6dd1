#include "kernel.h"

struct Forgetful {
  cohort::In<float> x;
  cohort::Out<float> y;
  cohort::Out<float> z;
  COHORT_OPERANDS(x, y)
};
const cohort::ArgsType& type = cohort::args_type<Forgetful>();
