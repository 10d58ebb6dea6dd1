#pragma once

#include <cstdint>
#include <vector>

#include "cohort/graph/graph.h"
#include "cohort/lane/fuse.h"
#include "cohort/lane/kernel_ref.h"

// Kernels for the executor's tests and benchmarks: integers, so that any lost, repeated or
// reordered block changes the result.
namespace cohort::native {

inline std::int32_t scramble(std::int32_t x, std::int32_t y) {
  const std::uint32_t mixed =
      static_cast<std::uint32_t>(x) * 2654435761u + static_cast<std::uint32_t>(y);
  return static_cast<std::int32_t>(mixed ^ mixed >> 15);
}

// z = scramble(scramble(x, y), z); block b is row b.
struct MixRows {
  static constexpr KernelInfo kInfo{.name = "mix_rows"};
  struct Args {
    In<std::int32_t> x;     // [R, C]
    In<std::int32_t> y;     // [R, C]
    InOut<std::int32_t> z;  // [R, C]
    std::int64_t rows = 0;
    COHORT_OPERANDS(x, y, z, rows)
  };
  static std::int64_t blocks(const Args& a) { return a.rows; }
  static std::int64_t capacity(const Args& a) { return a.z.rows(); }
  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    const auto x = lane.load(a.x.rows(block, 1));
    const auto y = lane.load(a.y.rows(block, 1));
    auto z = lane.update(a.z.rows(block, 1));
    for (std::int64_t c = 0; c < z.cols; ++c) {
      z(0, c) = scramble(scramble(x(0, c), y(0, c)), z(0, c));
    }
    lane.store(z);
  }
};

// y[:, c] = running scramble down the rows; block b is columns [16 b, 16 b + 16), a line of each
// row.
struct SumDown {
  static constexpr KernelInfo kInfo{.name = "sum_down"};
  struct Args {
    In<std::int32_t> x;   // [R, C]
    Out<std::int32_t> y;  // [R, C]
    COHORT_OPERANDS(x, y)
  };
  static std::int64_t blocks(const Args& a) { return a.x.cols() / 16; }
  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    const auto x = lane.load(a.x.cols(16 * block, 16));
    auto y = lane.output(a.y.cols(16 * block, 16));
    for (std::int64_t c = 0; c < 16; ++c) {
      std::int32_t sum = 1;
      for (std::int64_t r = 0; r < x.rows; ++r) y(r, c) = sum = scramble(sum, x(r, c));
    }
    lane.store(y);
  }
};

// y[r, :] = running scramble along the row; block b is row b.
struct SumAcross {
  static constexpr KernelInfo kInfo{.name = "sum_across"};
  struct Args {
    In<std::int32_t> x;   // [R, C]
    Out<std::int32_t> y;  // [R, C]
    std::int64_t rows = 0;
    COHORT_OPERANDS(x, y, rows)
  };
  static std::int64_t blocks(const Args& a) { return a.rows; }
  static std::int64_t capacity(const Args& a) { return a.x.rows(); }
  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    const auto x = lane.load(a.x.rows(block, 1));
    auto y = lane.output(a.y.rows(block, 1));
    std::int32_t sum = 1;
    for (std::int64_t c = 0; c < x.cols; ++c) y(0, c) = sum = scramble(sum, x(0, c));
    lane.store(y);
  }
};

struct WeaveArgs {
  In<std::int32_t> x;   // [R, C]
  Out<std::int32_t> a;  // [R, C]
  Out<std::int32_t> b;  // [R, C]
  Out<std::int32_t> c;  // [R, C]
  InOut<std::int32_t> sync_workspace;
  std::int64_t rows = 0;
  COHORT_OPERANDS(x, a, b, c, sync_workspace, rows)
};

// x -> a down, a -> b across, b -> c down: every barrier hands whole rows to columns or back.
inline KernelRef weave(FuseOptions options) {
  return fuse<WeaveArgs>("weave", options)
      .phase<SumDown>([](const WeaveArgs& w) {
        return SumDown::Args{w.x, w.a};
      })
      .barrier()
      .phase<SumAcross>([](const WeaveArgs& w) {
        return SumAcross::Args{w.a, w.b, w.rows};
      })
      .barrier()
      .phase<SumDown>([](const WeaveArgs& w) {
        return SumDown::Args{w.b, w.c};
      });
}

// The tensors of one weave, named with a suffix.
struct WeaveTensors {
  Handle<std::int32_t> x, a, b, c, workspace;

  WeaveTensors(Graph& graph, const std::string& suffix, std::int64_t rows, std::int64_t cols) {
    x = graph.tensor<std::int32_t>("x" + suffix, {rows, cols});
    a = graph.tensor<std::int32_t>("a" + suffix, {rows, cols});
    b = graph.tensor<std::int32_t>("b" + suffix, {rows, cols});
    c = graph.tensor<std::int32_t>("c" + suffix, {rows, cols});
    workspace = graph.tensor<std::int32_t>("workspace" + suffix, {512}, {.initial = 0});
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      x.host()[i] = static_cast<std::int32_t>(i * 7919);
    }
  }
  Submission submit(Graph& graph, const KernelRef& kernel, std::int64_t rows, Launch launch) const {
    return graph.submit(kernel, WeaveArgs{x, a, b, c, workspace, rows}, std::move(launch));
  }
};

}  // namespace cohort::native
