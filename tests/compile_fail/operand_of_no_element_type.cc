#include "kernel.h"

struct Odd {
  cohort::In<float> x;
  const char* name = nullptr;
  COHORT_OPERANDS(x, name)
};
const cohort::ArgsType& type = cohort::args_type<Odd>();
