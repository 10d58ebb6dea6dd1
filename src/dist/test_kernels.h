#pragma once

#include <cstdint>

#include "cohort/graph/operand.h"
#include "cohort/lane/kernel_ref.h"

// An all-to-all exchange: every rank has a row for every rank.
namespace cohort::dist {

// Block b sends row b to rank b, once b has read what the epoch before put there.
struct Send {
  static constexpr KernelInfo kInfo{.name = "send"};
  struct Args {
    In<std::int32_t> rows;          // [R, C]
    Window<std::int32_t> received;  // [R, C]
    Window<std::int32_t> arrived;   // [R, 16]
    Window<std::int32_t> consumed;  // [R, 16]
    std::int64_t rank = 0;
    std::int64_t epoch = 0;
    COHORT_OPERANDS(rows, received, arrived, consumed, rank, epoch)
  };
  static std::int64_t blocks(const Args& a) { return a.rows.rows(); }
  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    lane.wait_at_least(a.consumed.rows(block, 1), a.epoch - 1);
    const auto row = lane.load(a.rows.rows(block, 1));
    lane.put_remote(block, a.received.rows(a.rank, 1), row);
    lane.notify(block, a.arrived.rows(a.rank, 1));
  }
};

// out = received, once all of it has arrived. Block b is rank b's row.
struct Receive {
  static constexpr KernelInfo kInfo{.name = "receive"};
  struct Args {
    Window<std::int32_t> received;  // [R, C]
    Window<std::int32_t> arrived;   // [R, 16]
    Window<std::int32_t> consumed;  // [R, 16]
    Out<std::int32_t> out;          // [R, C]
    std::int64_t rank = 0;
    std::int64_t epoch = 0;
    COHORT_OPERANDS(received, arrived, consumed, out, rank, epoch)
  };
  static std::int64_t blocks(const Args& a) { return a.out.rows(); }
  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    lane.wait_at_least(a.arrived.rows(block, 1), a.epoch);
    const auto from = lane.load(a.received.rows(block, 1));
    auto to = lane.output(a.out.rows(block, 1));
    for (std::int64_t c = 0; c < from.cols; ++c) to(0, c) = from(0, c);
    lane.store(to);
    lane.notify(block, a.consumed.rows(a.rank, 1));
  }
};

}  // namespace cohort::dist
