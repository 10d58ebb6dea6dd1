#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

// What every program of `cohort bench` is made of: it is given the names of benchmarks, runs those
// it has, and prints a line of JSON for each: {"name": ..., "unit": ..., "samples": [...]}.
namespace samples {

using Clock = std::chrono::steady_clock;

inline double nanos_since(Clock::time_point start) {
  return static_cast<double>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

/// Nanoseconds of `body` per one of the `per` things it does: `count` samples after one that isn't
/// kept.
inline std::vector<double> time(int count, double per, const std::function<void()>& body) {
  std::vector<double> taken;
  for (int i = -1; i < count; ++i) {
    const auto start = Clock::now();
    body();
    if (i >= 0) taken.push_back(nanos_since(start) / per);
  }
  return taken;
}

/// A benchmark gives samples; their unit is nanoseconds unless it says otherwise.
struct Benchmark {
  std::function<std::vector<double>()> run;
  std::string unit = "ns";
};

inline int main(int argc, char** argv, const std::map<std::string, Benchmark>& benchmarks) {
  if (argc == 2 && std::strcmp(argv[1], "--list") == 0) {
    for (const auto& [name, benchmark] : benchmarks) std::printf("%s\n", name.c_str());
    return 0;
  }
  for (int i = 1; i < argc; ++i) {
    const auto it = benchmarks.find(argv[i]);
    if (it == benchmarks.end()) {
      std::fprintf(stderr, "%s: no benchmark is called %s; see --list\n", argv[0], argv[i]);
      return 2;
    }
    std::string text;
    for (const double sample : it->second.run()) {
      char number[32];
      std::snprintf(number, sizeof number, "%s%.6g", text.empty() ? "" : ", ", sample);
      text += number;
    }
    std::printf("{\"name\": \"%s\", \"unit\": \"%s\", \"samples\": [%s]}\n", argv[i],
                it->second.unit.c_str(), text.c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace samples
