// Two ranks, a thread each, exchange what dispatch and combine move for 8 tokens of 6 experts each:
// 24 rows to either rank, of 4096 int8 there and 4096 bfloat16 back. The peer copies the same rows
// between the same threads and meets at a std::barrier after each half.
#include <barrier>
#include <cstring>
#include <vector>

#include <benchmark/benchmark.h>

#include "cohort/dist/in_process.h"

namespace cohort::dist {
namespace {

constexpr std::int64_t kRanks = 2;
constexpr std::int64_t kRows = 24;
constexpr std::int64_t kThere = 4096;
constexpr std::int64_t kBack = 8192;

struct Setup {
  InProcess ranks{kRanks, {.give_up_after = std::chrono::minutes(1)}};
  Graph graphs[kRanks] = {Graph("rank 0"), Graph("rank 1")};
  Handle<std::int8_t> there[kRanks];
  Handle<std::int8_t> back[kRanks];
  Handle<std::int32_t> dispatched[kRanks];
  Handle<std::int32_t> combined[kRanks];
  std::int64_t epochs[kRanks] = {};

  Setup() {
    for (std::int64_t r = 0; r < kRanks; ++r) {
      there[r] = ranks.window<std::int8_t>(graphs[r], r, "there", {kRanks * kRows, kThere});
      back[r] = ranks.window<std::int8_t>(graphs[r], r, "back", {kRanks * kRows, kBack});
      dispatched[r] = ranks.counters(graphs[r], r, "dispatched", kRanks);
      combined[r] = ranks.counters(graphs[r], r, "combined", kRanks);
    }
  }
};

// So that both send from rows they have just read, as a kernel does.
std::vector<std::int8_t> rows_of(std::int64_t bytes) {
  return std::vector<std::int8_t>(static_cast<std::size_t>(kRows * bytes), 1);
}

void ports(benchmark::State& state) {
  static Setup setup;
  const std::int64_t rank = state.thread_index();
  DirectLane lane({}, &setup.ranks.port(rank));
  const std::vector<std::int8_t> near = rows_of(kThere);
  const std::vector<std::int8_t> far = rows_of(kBack);
  const auto send = [&](const std::vector<std::int8_t>& rows, const Window<std::int8_t>& window,
                        const Window<std::int32_t>& counters) {
    const std::int64_t bytes = window.cols();
    for (std::int64_t to = 0; to < kRanks; ++to) {
      for (std::int64_t r = 0; r < kRows; ++r) {
        lane.put_remote(to, window.rows(rank * kRows + r, 1),
                        Tile<const std::int8_t>{rows.data() + r * bytes, 1, bytes, bytes});
      }
      lane.notify(to, counters.rows(rank, 1));
    }
    for (std::int64_t from = 0; from < kRanks; ++from) {
      lane.wait_at_least(counters.rows(from, 1), setup.epochs[rank]);
    }
  };
  for (auto _ : state) {
    ++setup.epochs[rank];
    send(near, setup.there[rank], setup.dispatched[rank]);
    send(far, setup.back[rank], setup.combined[rank]);
  }
}
BENCHMARK(ports)->Threads(kRanks)->UseRealTime()->Unit(benchmark::kMicrosecond);

void copies_and_barriers(benchmark::State& state) {
  static Setup setup;
  static std::barrier<> barrier(kRanks);
  const std::int64_t rank = state.thread_index();
  const std::vector<std::int8_t> near = rows_of(kThere);
  const std::vector<std::int8_t> far = rows_of(kBack);
  const auto send = [&](const std::vector<std::int8_t>& rows, const Handle<std::int8_t>* windows) {
    for (std::int64_t to = 0; to < kRanks; ++to) {
      const std::int64_t bytes = windows[to].cols();
      for (std::int64_t r = 0; r < kRows; ++r) {
        std::memcpy(windows[to].host() + (rank * kRows + r) * bytes, rows.data() + r * bytes,
                    static_cast<std::size_t>(bytes));
      }
    }
    barrier.arrive_and_wait();
  };
  for (auto _ : state) {
    send(near, setup.there);
    send(far, setup.back);
  }
}
BENCHMARK(copies_and_barriers)->Threads(kRanks)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace cohort::dist
