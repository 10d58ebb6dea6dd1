#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "cohort/simd/int8.h"

#include "deepseek_v4/expert_kernels.h"

/// The kernels that carry tokens to the ranks of their experts and results back. R ranks hold L
/// experts each: expert g lives on rank g / L as its expert g % L. Route t k + j is token t's j-th
/// expert. In windows, source s has the rows [e M + s T, + T) of expert e, M = recv_rows(T, R).
/// Counters are monotonic: epoch n, counted from 1, waits for n times what an epoch adds. A
/// counter has a line of its own per source: column 0 of [R, 16].
namespace deepseek_v4 {

using cohort::Window;

inline constexpr std::int64_t kCounterWords = 16;  ///< int32 in a line of 64 bytes.
inline constexpr std::int64_t kAuxWords = 8;       ///< Columns of recv_aux and recv_route.
inline constexpr std::int64_t kMaxExperts = 512;  ///< E; bounds the local scratch of dispatch_meta.

/// M: rows that a rank keeps for each of its experts, enough for every route of every source.
constexpr std::int64_t recv_rows(std::int64_t tokens, std::int64_t ranks) {
  return (ranks * tokens + kExpertRows - 1) / kExpertRows * kExpertRows;
}

namespace detail {

/// Copies a tile of any type.
template <class T>
void copy_tile(const Tile<const T>& from, const Tile<T>& to) {
  for (std::int64_t r = 0; r < to.rows; ++r) std::copy_n(from.row(r), to.cols, to.row(r));
}

/// Waits until every other rank's counter has reached `value`.
template <class L>
void wait_for_all(L& lane, const Window<std::int32_t>& counters, std::int64_t rank,
                  std::int64_t value) {
  for (std::int64_t source = 0; source < counters.rows(); ++source) {
    if (source != rank) lane.wait_at_least(counters.rows(source, 1).cols(0, 1), value);
  }
}

/// Adds 1 to this rank's counter on every other rank.
template <class L>
void notify_all(L& lane, const Window<std::int32_t>& counters, std::int64_t rank) {
  for (std::int64_t to = 0; to < counters.rows(); ++to) {
    if (to != rank) lane.notify(to, counters.rows(rank, 1).cols(0, 1));
  }
}

/// Whether `rank` is one of the ranks that own a line of `counters`.
inline cohort::Status check_counters(const char* kernel, const Window<std::int32_t>& counters,
                                     std::int64_t rank) {
  if (counters.cols() != kCounterWords) {
    return cohort::fail(cohort::ErrorCode::kInvalidArgument,
                        std::string(kernel) + ": counters have " + std::to_string(counters.cols()) +
                            " columns, expected 16: a line of their own per source");
  }
  if (0 <= rank && rank < counters.rows()) return {};
  return cohort::fail(cohort::ErrorCode::kInvalidArgument,
                      std::string(kernel) + ": rank is " + std::to_string(rank) +
                          ", expected 0 to " + std::to_string(counters.rows() - 1));
}

}  // namespace detail

/// Tells every rank how many rows it will get for each of its experts: row `rank` of its recv_meta,
/// zeros included. Then waits for theirs: recv_meta_local is recv_meta, counts[e] its column sums.
/// Blocks: one.
struct DispatchMeta {
  static constexpr KernelInfo kInfo{.name = "dispatch_meta"};

  struct Args {
    In<std::int32_t> indices;           // [T, k]
    Window<std::int32_t> recv_meta;     // [R, L]
    Window<std::int32_t> arrived;       // [R, 16]
    Out<std::int32_t> recv_meta_local;  // [R, L]
    Out<std::int32_t> counts;           // [L]
    std::int64_t rank = 0;
    std::int64_t moe_epoch = 1;
    std::int64_t num_tokens = 0;
    COHORT_OPERANDS(indices, recv_meta, arrived, recv_meta_local, counts, rank, moe_epoch,
                    num_tokens)
  };

  static std::int64_t blocks(const Args&) { return 1; }

  static cohort::Status validate(const Args& a) {
    COHORT_TRY_STATUS(detail::check_counters("dispatch_meta", a.arrived, a.rank));
    const std::int64_t experts = a.recv_meta.rows() * a.recv_meta.cols();
    if (experts <= kMaxExperts) return {};
    return cohort::fail(cohort::ErrorCode::kInvalidArgument,
                        "dispatch_meta: " + std::to_string(experts) +
                            " experts on all ranks, expected at most 512");
  }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t) {
    const std::int64_t ranks = a.recv_meta.rows();
    const std::int64_t local = a.recv_meta.cols();
    const std::int64_t active = active_tokens(a.num_tokens, a.indices.rows());
    std::array<std::int32_t, kMaxExperts> values = {};
    if (active > 0) {
      const auto ids = lane.load(a.indices.rows(0, active));
      for (std::int64_t t = 0; t < active; ++t) {
        for (std::int64_t j = 0; j < ids.cols; ++j) ++values[static_cast<std::size_t>(ids(t, j))];
      }
      const WorkItem work[] = {{Operation::kAdd, active * ids.cols}};
      lane.charge(work);
    }
    for (std::int64_t to = 0; to < ranks; ++to) {
      const Tile<const std::int32_t> row{values.data() + to * local, 1, local, local};
      lane.put_remote(to, a.recv_meta.rows(a.rank, 1), row);
    }
    detail::notify_all(lane, a.arrived, a.rank);
    detail::wait_for_all(lane, a.arrived, a.rank, a.moe_epoch);

    const auto received = lane.load(a.recv_meta);
    auto copy = lane.output(a.recv_meta_local);
    auto counts = lane.output(a.counts);
    for (std::int64_t e = 0; e < local; ++e) {
      std::int32_t sum = 0;
      for (std::int64_t source = 0; source < ranks; ++source) {
        copy(source, e) = received(source, e);
        sum += received(source, e);
      }
      counts(0, e) = sum;
    }
    const WorkItem work[] = {{Operation::kAdd, ranks * local}};
    lane.charge(work);
    lane.store(copy);
    lane.store(counts);
  }
};

/// Puts every active token into the windows of its experts' ranks, in order of token, then of j:
/// its row, [scale, weight, 0...] and [route, 0...]. A block notifies every other rank once, so an
/// epoch adds L. Blocks: block b takes the b-th expert of every rank.
struct DispatchPush {
  static constexpr KernelInfo kInfo{.name = "dispatch_push"};

  struct Args {
    In<std::int8_t> x_norm_i8;          // [T, D]
    In<float> x_norm_scale;             // [T, 1]
    In<std::int32_t> indices;           // [T, k], distinct within a token
    In<float> weights;                  // [T, k]
    Window<std::int8_t> recv_x;         // [L M, D]
    Window<float> recv_aux;             // [L M, 8]
    Window<std::int32_t> recv_route;    // [L M, 8]
    Window<std::int32_t> data_arrived;  // [R, 16]
    std::int64_t rank = 0;
    std::int64_t num_tokens = 0;
    COHORT_OPERANDS(x_norm_i8, x_norm_scale, indices, weights, recv_x, recv_aux, recv_route,
                    data_arrived, rank, num_tokens)
  };

  static std::int64_t blocks(const Args& a) { return a.recv_x.rows() / capacity_of(a); }

  static cohort::Status validate(const Args& a) {
    COHORT_TRY_STATUS(detail::check_counters("dispatch_push", a.data_arrived, a.rank));
    if (a.recv_x.rows() % capacity_of(a) == 0) return {};
    return cohort::fail(cohort::ErrorCode::kInvalidArgument,
                        "dispatch_push: recv_x has " + std::to_string(a.recv_x.rows()) +
                            " rows, expected a multiple of " + std::to_string(capacity_of(a)) +
                            ", the rows of an expert for these tokens and ranks");
  }

  /// Which rows go where depends on the routing table.
  static void region(const Args& a, std::int64_t block, const cohort::RegionSink& sink) {
    const std::int64_t first = block * capacity_of(a) + a.rank * a.x_norm_i8.rows();
    const std::int64_t tokens = a.x_norm_i8.rows();
    sink(a.x_norm_i8, cohort::Direction::kIn);
    sink(a.x_norm_scale, cohort::Direction::kIn);
    sink(a.indices, cohort::Direction::kIn);
    sink(a.weights, cohort::Direction::kIn);
    sink(a.recv_x.rows(first, tokens), cohort::Direction::kWindow);
    sink(a.recv_aux.rows(first, tokens), cohort::Direction::kWindow);
    sink(a.recv_route.rows(first, tokens), cohort::Direction::kWindow);
    sink(a.data_arrived.rows(a.rank, 1).cols(0, 1), cohort::Direction::kWindow);
  }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    const std::int64_t tokens = a.indices.rows();
    const std::int64_t active = active_tokens(a.num_tokens, tokens);
    const std::int64_t local = blocks(a);
    const std::int64_t first = block * capacity_of(a) + a.rank * tokens;
    std::array<std::int64_t, kMaxExperts> used = {};  // Rows, by rank.
    if (active > 0) {
      const auto ids = lane.load(a.indices.rows(0, active));
      const auto weights = lane.load(a.weights.rows(0, active));
      const auto scales = lane.load(a.x_norm_scale.rows(0, active));
      for (std::int64_t t = 0; t < active; ++t) {
        for (std::int64_t j = 0; j < ids.cols; ++j) {
          const std::int64_t expert = ids(t, j);
          if (expert % local != block) continue;
          const std::int64_t to = expert / local;
          const std::int64_t row = first + used[static_cast<std::size_t>(to)]++;
          const std::array<float, kAuxWords> aux = {scales(t, 0), weights(t, j)};
          const std::array<std::int32_t, kAuxWords> route = {
              static_cast<std::int32_t>(t * ids.cols + j)};
          const auto x = lane.load(a.x_norm_i8.rows(t, 1));
          lane.put_remote(to, a.recv_x.rows(row, 1), Tile<const std::int8_t>(x));
          lane.put_remote(to, a.recv_aux.rows(row, 1),
                          Tile<const float>{aux.data(), 1, kAuxWords, kAuxWords});
          lane.put_remote(to, a.recv_route.rows(row, 1),
                          Tile<const std::int32_t>{route.data(), 1, kAuxWords, kAuxWords});
        }
      }
    }
    detail::notify_all(lane, a.data_arrived, a.rank);
  }

 private:
  static std::int64_t capacity_of(const Args& a) {
    return recv_rows(a.x_norm_i8.rows(), a.data_arrived.rows());
  }
};

/// Returns once every other rank has pushed all its rows of this epoch. Blocks: one.
struct DispatchWait {
  static constexpr KernelInfo kInfo{.name = "dispatch_wait"};

  struct Args {
    Window<std::int32_t> data_arrived;  // [R, 16]
    std::int64_t rank = 0;
    std::int64_t moe_epoch = 1;
    std::int64_t local_experts = 0;  // L
    COHORT_OPERANDS(data_arrived, rank, moe_epoch, local_experts)
  };

  static std::int64_t blocks(const Args&) { return 1; }
  static cohort::Status validate(const Args& a) {
    return detail::check_counters("dispatch_wait", a.data_arrived, a.rank);
  }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t) {
    detail::wait_for_all(lane, a.data_arrived, a.rank, a.moe_epoch * a.local_experts);
  }
};

/// Closes the gaps between sources: row j of expert e is its j-th received one, by source, then in
/// the order in which it was pushed. Rows from the expert's count on are not written.
/// Blocks: block b is expert b.
struct DispatchGather {
  static constexpr KernelInfo kInfo{.name = "dispatch_gather"};

  struct Args {
    In<std::int32_t> recv_meta_local;    // [R, L]
    In<std::int8_t> recv_x;              // [L M, D]
    In<float> recv_aux;                  // [L M, 8]
    In<std::int32_t> recv_route;         // [L M, 8]
    Out<std::int8_t> recv_x_out;         // [L M, D]
    Out<float> recv_scale_out;           // [L M, 1]
    Out<float> recv_w_out;               // [L M, 1]
    Out<std::int32_t> recv_r_route_out;  // [L M, 1]
    std::int64_t tokens = 0;             // T
    COHORT_OPERANDS(recv_meta_local, recv_x, recv_aux, recv_route, recv_x_out, recv_scale_out,
                    recv_w_out, recv_r_route_out, tokens)
  };

  static std::int64_t blocks(const Args& a) { return a.recv_meta_local.cols(); }

  static void region(const Args& a, std::int64_t block, const cohort::RegionSink& sink) {
    const std::int64_t rows = a.recv_x.rows() / blocks(a);
    const std::int64_t first = block * rows;
    sink(a.recv_meta_local.cols(block, 1), cohort::Direction::kIn);
    sink(a.recv_x.rows(first, rows), cohort::Direction::kIn);
    sink(a.recv_aux.rows(first, rows), cohort::Direction::kIn);
    sink(a.recv_route.rows(first, rows), cohort::Direction::kIn);
    sink(a.recv_x_out.rows(first, rows), cohort::Direction::kOut);
    sink(a.recv_scale_out.rows(first, rows), cohort::Direction::kOut);
    sink(a.recv_w_out.rows(first, rows), cohort::Direction::kOut);
    sink(a.recv_r_route_out.rows(first, rows), cohort::Direction::kOut);
  }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    constexpr std::int64_t kRows = 8;  // At a time: a bound on the local memory.
    const std::int64_t first = block * (a.recv_x.rows() / blocks(a));
    std::int64_t to = first;
    for (std::int64_t source = 0; source < a.recv_meta_local.rows(); ++source) {
      const std::int64_t count = lane.get(a.recv_meta_local.rows(source, 1), block);
      const std::int64_t from = first + source * a.tokens;
      for (std::int64_t r = 0; r < count; r += kRows) {
        const std::int64_t rows = std::min(kRows, count - r);
        copy_rows(lane, a, from + r, to, rows);
        to += rows;
      }
    }
  }

 private:
  template <class L>
  static void copy_rows(L& lane, const Args& a, std::int64_t from, std::int64_t to,
                        std::int64_t rows) {
    {
      const auto x = lane.load(a.recv_x.rows(from, rows));
      auto out = lane.output(a.recv_x_out.rows(to, rows));
      detail::copy_tile<std::int8_t>(x, out);
      lane.charge(simd::fill_work(rows, x.cols));
      lane.store(out);
    }
    const auto aux = lane.load(a.recv_aux.rows(from, rows));
    const auto route = lane.load(a.recv_route.rows(from, rows));
    auto scale = lane.output(a.recv_scale_out.rows(to, rows));
    auto weight = lane.output(a.recv_w_out.rows(to, rows));
    auto route_out = lane.output(a.recv_r_route_out.rows(to, rows));
    for (std::int64_t r = 0; r < rows; ++r) {
      scale(r, 0) = aux(r, 0);
      weight(r, 0) = aux(r, 1);
      route_out(r, 0) = route(r, 0);
    }
    lane.charge(simd::fill_work(rows, 3));
    lane.store(scale);
    lane.store(weight);
    lane.store(route_out);
  }
};

/// Puts each result back to the rank that sent its token, into the row of its route.
/// Blocks: block b is expert b.
struct CombineScatter {
  static constexpr KernelInfo kInfo{.name = "combine_scatter"};

  struct Args {
    In<BFloat16> recv_y;                // [L M, D]
    In<std::int32_t> recv_meta_local;   // [R, L]
    In<std::int32_t> recv_r_route_out;  // [L M, 1]
    Window<BFloat16> routed_y_buf;      // [T k, D]
    COHORT_OPERANDS(recv_y, recv_meta_local, recv_r_route_out, routed_y_buf)
  };

  static std::int64_t blocks(const Args& a) { return a.recv_meta_local.cols(); }

  static void region(const Args& a, std::int64_t block, const cohort::RegionSink& sink) {
    const std::int64_t rows = a.recv_y.rows() / blocks(a);
    sink(a.recv_y.rows(block * rows, rows), cohort::Direction::kIn);
    sink(a.recv_meta_local.cols(block, 1), cohort::Direction::kIn);
    sink(a.recv_r_route_out.rows(block * rows, rows), cohort::Direction::kIn);
    sink(a.routed_y_buf, cohort::Direction::kWindow);
  }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    std::int64_t row = block * (a.recv_y.rows() / blocks(a));
    for (std::int64_t source = 0; source < a.recv_meta_local.rows(); ++source) {
      const std::int64_t count = lane.get(a.recv_meta_local.rows(source, 1), block);
      for (std::int64_t n = 0; n < count; ++n, ++row) {
        const std::int64_t route = lane.get(a.recv_r_route_out, row);
        const auto y = lane.load(a.recv_y.rows(row, 1));
        lane.put_remote(source, a.routed_y_buf.rows(route, 1), Tile<const BFloat16>(y));
      }
    }
  }
};

/// Tells every other rank that all results of this epoch are with it, and waits for theirs. Runs
/// after the whole of combine_scatter. Blocks: one.
struct CombineWait {
  static constexpr KernelInfo kInfo{.name = "combine_wait"};

  struct Args {
    Window<std::int32_t> combine_arrived;  // [R, 16]
    std::int64_t rank = 0;
    std::int64_t moe_epoch = 1;
    COHORT_OPERANDS(combine_arrived, rank, moe_epoch)
  };

  static std::int64_t blocks(const Args&) { return 1; }
  static cohort::Status validate(const Args& a) {
    return detail::check_counters("combine_wait", a.combine_arrived, a.rank);
  }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t) {
    detail::notify_all(lane, a.combine_arrived, a.rank);
    detail::wait_for_all(lane, a.combine_arrived, a.rank, a.moe_epoch);
  }
};

/// ffn_out[t] = bf16(((sh[t] + y[t k]) + y[t k + 1]) + ...) for t < N, else sh[t].
/// Blocks: block b is token b.
struct SharedRouted {
  static constexpr KernelInfo kInfo{.name = "shared_routed"};

  struct Args {
    In<BFloat16> sh;            // [T, D]
    In<BFloat16> routed_y_buf;  // [T k, D]
    Out<BFloat16> ffn_out;      // [T, D]
    std::int64_t num_tokens = 0;
    COHORT_OPERANDS(sh, routed_y_buf, ffn_out, num_tokens)
  };

  static std::int64_t blocks(const Args& a) { return a.sh.rows(); }

  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    constexpr std::int64_t kChunk = 512;
    const std::int64_t k = a.routed_y_buf.rows() / a.sh.rows();
    const bool active = block < active_tokens(a.num_tokens, a.sh.rows());
    for (std::int64_t d = 0; d < a.sh.cols(); d += kChunk) {
      const auto sh = lane.load(a.sh.rows(block, 1).cols(d, kChunk));
      auto out = lane.output(a.ffn_out.rows(block, 1).cols(d, kChunk));
      if (active) {
        const auto y = lane.load(a.routed_y_buf.rows(block * k, k).cols(d, kChunk));
        simd::add_rows(sh, y, out);
        lane.charge(simd::add_rows_work(k, kChunk));
      } else {
        detail::copy_tile<BFloat16>(sh, out);
        lane.charge(simd::fill_work(1, kChunk));
      }
      lane.store(out);
    }
  }
};

}  // namespace deepseek_v4
