// OpenBLAS's sgemm of the shapes of the hyper-connection's linear and of the gate. Threads follow
// OPENBLAS_NUM_THREADS.
#include <cblas.h>

#include "samples.h"

namespace {

std::vector<double> product(int rows, int inner, int outputs) {
  const auto filled = [](int count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) - 3.0f;
    return values;
  };
  const std::vector<float> x = filled(rows * inner);
  const std::vector<float> w = filled(outputs * inner);
  std::vector<float> y(static_cast<std::size_t>(rows * outputs));
  const int repeats = rows > 64 ? 20 : 200;
  return samples::time(11, repeats, [&] {
    for (int i = 0; i < repeats; ++i) {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, outputs, inner, 1.0f, x.data(),
                  inner, w.data(), inner, 0.0f, y.data(), outputs);
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  return samples::main(argc, argv,
                       {{"linear/8", {[] { return product(8, 16384, 24); }}},
                        {"linear/128", {[] { return product(128, 16384, 24); }}},
                        {"gate/8", {[] { return product(8, 4096, 256); }}},
                        {"gate/128", {[] { return product(128, 4096, 256); }}}});
}
