#include "cohort/simd/simd.h"
