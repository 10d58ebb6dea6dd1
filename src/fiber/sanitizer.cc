#include "sanitizer.h"

namespace cohort::fiber {

#ifdef COHORT_TSAN
void tsan_release(const void* address) { __tsan_release(const_cast<void*>(address)); }
void tsan_acquire(const void* address) { __tsan_acquire(const_cast<void*>(address)); }
#else
void tsan_release(const void*) {}
void tsan_acquire(const void*) {}
#endif

}  // namespace cohort::fiber
