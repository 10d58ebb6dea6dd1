#include "cohort/native/executor.h"
