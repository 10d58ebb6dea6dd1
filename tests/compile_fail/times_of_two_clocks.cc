#include "kernel.h"

const auto sum = cohort::Nanos{1} + cohort::Picos{2};
