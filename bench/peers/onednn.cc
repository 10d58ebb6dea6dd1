// oneDNN's f32 matrix products of the shapes of the hyper-connection's linear and of the gate:
// [T, K] x [N, K]^T. Threads follow OMP_NUM_THREADS.
#include <dnnl.hpp>

#include "samples.h"

namespace {

std::vector<double> product(std::int64_t rows, std::int64_t inner, std::int64_t outputs) {
  using dnnl::memory;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto f32 = memory::data_type::f32;
  const memory::desc x_plain({rows, inner}, f32, memory::format_tag::ab);
  const memory::desc w_plain({inner, outputs}, f32, memory::format_tag::ba);
  const memory::desc y_plain({rows, outputs}, f32, memory::format_tag::ab);
  // The weights may be laid out as oneDNN likes best: they are constant, as ours are.
  const memory::desc w_any({inner, outputs}, f32, memory::format_tag::any);
  const dnnl::matmul::primitive_desc pd(dnnl::matmul::desc(x_plain, w_any, y_plain), engine);
  memory x(x_plain, engine);
  memory w(w_plain, engine);
  memory y(y_plain, engine);
  const auto fill = [](memory& m, std::size_t count) {
    auto* values = static_cast<float*>(m.get_data_handle());
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 7) - 3.0f;
  };
  fill(x, static_cast<std::size_t>(rows * inner));
  fill(w, static_cast<std::size_t>(inner * outputs));
  memory w_best(pd.weights_desc(), engine);
  dnnl::reorder(w, w_best).execute(stream, w, w_best);
  const dnnl::matmul matmul(pd);
  const int repeats = rows > 64 ? 20 : 200;
  return samples::time(11, repeats, [&] {
    for (int i = 0; i < repeats; ++i) {
      matmul.execute(stream, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w_best}, {DNNL_ARG_DST, y}});
    }
    stream.wait();
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
