#pragma once

#include "cohort/graph/graph.h"
#include "cohort/lane/fuse.h"
#include "cohort/lane/kernel_ref.h"

// A small fused grid for the checks' tests: squares by columns, then sums by rows.
namespace cohort::check {

struct Square {
  static constexpr KernelInfo kInfo{.name = "square"};
  struct Args {
    In<float> x;   // [8, 128]
    Out<float> y;  // [8, 128]
    COHORT_OPERANDS(x, y)
  };
  static std::int64_t blocks(const Args& a) { return a.x.cols() / 16; }
  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    const auto x = lane.load(a.x.cols(16 * block, 16));
    auto y = lane.output(a.y.cols(16 * block, 16));
    for (std::int64_t r = 0; r < x.rows; ++r) {
      for (std::int64_t c = 0; c < 16; ++c) y(r, c) = x(r, c) * x(r, c);
    }
    lane.store(y);
  }
};

struct RowSum {
  static constexpr KernelInfo kInfo{.name = "row_sum"};
  struct Args {
    In<float> y;   // [8, 128]
    Out<float> z;  // [8, 16]: a line a row, column 0 used
    COHORT_OPERANDS(y, z)
  };
  static std::int64_t blocks(const Args& a) { return a.y.rows(); }
  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    const auto y = lane.load(a.y.rows(block, 1));
    float sum = 0;
    for (std::int64_t c = 0; c < y.cols; ++c) sum += y(0, c);
    lane.put(a.z.rows(block, 1), 0, sum);
  }
};

struct SquareSumArgs {
  In<float> x;
  Out<float> y;
  Out<float> z;
  InOut<std::int32_t> workspace;
  COHORT_OPERANDS(x, y, z, workspace)
};

inline KernelRef square_sum(FuseOptions options = {}) {
  return fuse<SquareSumArgs>("square_sum", options)
      .phase<Square>([](const SquareSumArgs& a) {
        return Square::Args{a.x, a.y};
      })
      .barrier()
      .phase<RowSum>([](const SquareSumArgs& a) {
        return RowSum::Args{a.y, a.z};
      });
}

struct SquareSum {
  Graph graph{"squares"};
  Handle<float> x = graph.tensor<float>("x", {8, 128});
  Handle<float> y = graph.tensor<float>("y", {8, 128});
  Handle<float> z = graph.tensor<float>("z", {8, 16});
  Handle<std::int32_t> workspace = graph.tensor<std::int32_t>("workspace", {64}, {.initial = 0});

  TaskId submit(const KernelRef& kernel, Launch launch = {.sync_start = true}) {
    return graph.submit(kernel, SquareSumArgs{x, y, z, workspace}, std::move(launch)).id;
  }
};

}  // namespace cohort::check
