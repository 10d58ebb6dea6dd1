// OpenMP's barrier and tasks; built once with each of libgomp and libomp.
#include <omp.h>

#include "samples.h"

namespace {

std::vector<double> barrier(int threads) {
  constexpr int kRounds = 20'000;
  return samples::time(7, kRounds, [&] {
#pragma omp parallel num_threads(threads)
    for (int i = 0; i < kRounds; ++i) {
#pragma omp barrier
    }
  });
}

// Each task waits for the one before.
std::vector<double> chain(int threads) {
  constexpr int kTasks = 10'000;
  return samples::time(7, kTasks, [&] {
    int link = 0;
#pragma omp parallel num_threads(threads)
#pragma omp single
    for (int i = 0; i < kTasks; ++i) {
#pragma omp task depend(inout : link)
      {}
    }
  });
}

// Layers of 8; each task waits for all 8 of the layer before.
std::vector<double> layers(int threads) {
  constexpr int kLayers = 1000;
  return samples::time(7, 8.0 * kLayers, [&] {
    char d[2][8] = {};
#pragma omp parallel num_threads(threads)
#pragma omp single
    for (int layer = 0; layer < kLayers; ++layer) {
      const char* in = d[layer % 2];
      for (int i = 0; i < 8; ++i) {
        char* out = &d[(layer + 1) % 2][i];
#pragma omp task depend(out               \
                        : *out) depend(in \
                                       : in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7])
        {}
      }
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  return samples::main(argc, argv,
                       {{"barrier/2", {[] { return barrier(2); }}},
                        {"barrier/8", {[] { return barrier(8); }}},
                        {"tasks/chain/1", {[] { return chain(1); }}},
                        {"tasks/layers/1", {[] { return layers(1); }}},
                        {"tasks/layers/2", {[] { return layers(2); }}}});
}
