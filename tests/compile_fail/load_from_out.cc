#include "kernel.h"

void run(cohort::DirectLane& lane, const Args& a) { lane.load(a.y); }
