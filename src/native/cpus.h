#pragma once

namespace cohort::native {

/// CPUs this process may use at once: its affinity mask, cut by the cgroup's CPU quota; at least 1.
int allowed_cpus();

/// Ties the calling thread to the `index`-th CPU of its affinity mask, counted round.
void pin_to_cpu(int index);

/// Whether a debugger or tracer is attached, so that time may stand still.
bool is_traced();

}  // namespace cohort::native
