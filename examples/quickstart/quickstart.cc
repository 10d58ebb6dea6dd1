// Two small kernels, fused into one grid: squares by columns, then sums by rows. Linking
// cohort::main makes this file a whole program: quickstart list, quickstart run squares --variant
// counter, ...
#include "cohort/cli/graph_registry.h"
#include "cohort/lane/fuse.h"

using cohort::In, cohort::Out, cohort::InOut;

struct Square {  // y = x * x; block b takes columns [16 b, 16 b + 16), a cache line of every row.
  static constexpr cohort::KernelInfo kInfo{.name = "square"};
  struct Args {
    In<float> x;   // [R, C]
    Out<float> y;  // [R, C]
    COHORT_OPERANDS(x, y)
  };
  static std::int64_t blocks(const Args& a) { return a.x.cols() / 16; }
  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    const auto x = lane.load(a.x.cols(16 * block, 16));
    auto y = lane.output(a.y.cols(16 * block, 16));
    for (int r = 0; r < x.rows; ++r) {
      for (int c = 0; c < 16; ++c) y(r, c) = x(r, c) * x(r, c);
    }
    lane.store(y);
  }
};

struct RowSum {  // z[r] = sum of y[r, :]; block b is row b: it reads what every lane wrote.
  static constexpr cohort::KernelInfo kInfo{.name = "row_sum"};
  struct Args {
    In<float> y;   // [R, C]
    Out<float> z;  // [R, 1]
    COHORT_OPERANDS(y, z)
  };
  static std::int64_t blocks(const Args& a) { return a.y.rows(); }
  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    const auto y = lane.load(a.y.rows(block, 1));
    auto z = lane.output(a.z.rows(block, 1));
    z(0, 0) = 0;
    for (int c = 0; c < y.cols; ++c) z(0, 0) += y(0, c);
    lane.store(z);
  }
};

struct SquareSumArgs {
  In<float> x;
  Out<float> y, z;
  InOut<std::int32_t> workspace;  // Where the barrier counts.
  COHORT_OPERANDS(x, y, z, workspace)
};

cohort::Result<cohort::cli::BuiltGraph> build(const cohort::cli::BuildRequest& request) {
  auto graph = std::make_shared<cohort::Graph>("squares");
  const auto x = graph->tensor<float>("x", {request.integer("rows"), 128});
  const auto y = graph->tensor<float>("y", {x.rows(), 128});
  const auto z = graph->tensor<float>("z", {x.rows(), 1});
  if (request.variant() == "unfused") {
    graph->submit(cohort::kernel_ref<Square>(), Square::Args{x, y});
    graph->submit(cohort::kernel_ref<RowSum>(), RowSum::Args{y, z});
  } else {
    const auto workspace = graph->tensor<std::int32_t>("workspace", {64}, {.initial = 0});
    const cohort::KernelRef fused = cohort::fuse<SquareSumArgs>("square_sum", {.lanes = 8})
                                        .phase<Square>([](const SquareSumArgs& a) {
                                          return Square::Args{a.x, a.y};
                                        })
                                        .barrier()
                                        .phase<RowSum>([](const SquareSumArgs& a) {
                                          return RowSum::Args{a.y, a.z};
                                        });
    graph->submit(fused, SquareSumArgs{x, y, z, workspace}, {.sync_start = true});
  }
  return cohort::cli::BuiltGraph{
      .graph = graph,
      .inputs = {"x"},
      .outputs = {"y", "z"},
      .draw =
          [x](std::uint64_t seed) {
            for (int i = 0; i < x.rows() * x.cols(); ++i) x.host()[i] = float((seed + i) % 7);
          },
      .check = [x, z]() -> std::vector<cohort::observe::OutputCheck> {
        std::vector<double> found(z.host(), z.host() + z.rows()), expected(found.size());
        for (int i = 0; i < x.rows() * x.cols(); ++i) {
          expected[i / x.cols()] += double(x.host()[i]) * x.host()[i];
        }
        return {{"z", "exact", {z.rows()}, cohort::observe::compare(found, expected, {}, 4)}};
      }};
}

COHORT_GRAPH("squares", build)
    .help("Squares by columns, then sums by rows.")
    .variants({"unfused", "counter"})
    .parameter("rows", "Rows of x.", cohort::cli::IntegerParameter{8, 1, 1024, {1, 3, 8}});
