#include "cpus.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>

#include <sched.h>

namespace cohort::native {
namespace {

// The unified hierarchy (v2) says "quota period" or "max period" in one file; v1 has two files and
// -1 for no limit.
double quota_in_cpus() {
  std::ifstream v2("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (v2 >> quota >> period && quota != "max" && period > 0) return std::stod(quota) / period;
  std::ifstream v1_quota("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  std::ifstream v1_period("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  double us = 0;
  if (v1_quota >> us && v1_period >> period && us > 0 && period > 0) return us / period;
  return INFINITY;
}

}  // namespace

int allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cpus = static_cast<int>(std::thread::hardware_concurrency());
  if (sched_getaffinity(0, sizeof set, &set) == 0) cpus = CPU_COUNT(&set);
  const double quota = quota_in_cpus();
  if (quota < cpus) cpus = static_cast<int>(std::floor(quota));
  return std::max(cpus, 1);
}

void pin_to_cpu(int index) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return;
  int skip = index % std::max(CPU_COUNT(&set), 1);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set) || skip-- > 0) continue;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
    return;
  }
}

bool is_traced() {
  std::ifstream status("/proc/self/status");
  std::string key;
  while (status >> key) {
    if (key == "TracerPid:") {
      int pid = 0;
      status >> pid;
      return pid != 0;
    }
  }
  return false;
}

}  // namespace cohort::native
