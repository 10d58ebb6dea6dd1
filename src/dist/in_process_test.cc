#include "cohort/dist/in_process.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <tuple>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/random.h"
#include "cohort/lane/run_in_order.h"
#include "cohort/native/executor.h"

#include "test_kernels.h"

namespace cohort::dist {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kCols = 24;
constexpr milliseconds kLong =
    std::chrono::seconds(60);  // Ends a test that hangs; never a good one.

std::int32_t value(std::int64_t from, std::int64_t to, std::int64_t epoch, std::int64_t col) {
  return static_cast<std::int32_t>(((from * 16 + to) * 64 + epoch) * 64 + col);
}

// Ranks, the exchange's graph on each, and executors with `workers` workers; 0: run in order.
class Exchange {
 public:
  Exchange(std::int64_t ranks, int workers, Options options) : ranks_(ranks, std::move(options)) {
    for (std::int64_t r = 0; r < ranks; ++r) {
      Graph& graph = *graphs_.emplace_back(std::make_unique<Graph>(fmt::format("rank {}", r)));
      const auto rows = graph.tensor<std::int32_t>("rows", {ranks, kCols});
      const auto received = ranks_.window<std::int32_t>(graph, r, "received", {ranks, kCols});
      const auto arrived = ranks_.counters(graph, r, "arrived", ranks);
      const auto consumed = ranks_.counters(graph, r, "consumed", ranks);
      const auto out = graph.tensor<std::int32_t>("out", {ranks, kCols});
      graph.submit(kernel_ref<Send>(), Send::Args{rows, received, arrived, consumed, r, 0});
      graph.submit(kernel_ref<Receive>(), Receive::Args{received, arrived, consumed, out, r, 0});
      rows_.push_back(rows);
      out_.push_back(out);
      if (workers == 0) continue;
      executors_.push_back(std::make_unique<native::Executor>(native::ExecutorOptions{
          .workers = workers, .hang_after = kLong, .remote = &ranks_.port(r)}));
      prepared_.push_back(
          std::make_unique<native::PreparedGraph>(*executors_.back()->prepare(graph)));
    }
  }

  InProcess& ranks() { return ranks_; }
  const Graph& graph(std::int64_t rank) const { return *graphs_[at(rank)]; }

  // One rank's epochs, each checked against what every rank sends.
  Status run_rank(std::int64_t rank, std::int64_t first, std::int64_t epochs) {
    Graph& graph = *graphs_[at(rank)];
    for (std::int64_t epoch = first; epoch < first + epochs; ++epoch) {
      COHORT_TRY_STATUS(ranks_.begin_epoch(rank, epoch));
      COHORT_TRY_STATUS(graph.set_scalar("epoch", static_cast<double>(epoch)));
      fill(*out_[at(rank)].tensor, -1);
      for (std::int64_t to = 0; to < ranks_.ranks(); ++to) {
        for (std::int64_t c = 0; c < kCols; ++c) {
          rows_[at(rank)].host()[to * kCols + c] = value(rank, to, epoch, c);
        }
      }
      if (executors_.empty()) {
        run_in_order(graph, &ranks_.port(rank));
      } else {
        prepared_[at(rank)]->update();
        const native::RunResult result = executors_[at(rank)]->run(*prepared_[at(rank)]);
        if (result.status != native::RunStatus::kDone) {
          return fail(ErrorCode::kInvalidArgument, result.report.findings.at(0).cause);
        }
      }
      for (std::int64_t from = 0; from < ranks_.ranks(); ++from) {
        for (std::int64_t c = 0; c < kCols; ++c) {
          const std::int32_t found = out_[at(rank)].host()[from * kCols + c];
          EXPECT_EQ(found, value(from, rank, epoch, c))
              << "rank " << rank << " from " << from << " epoch " << epoch << " column " << c;
        }
      }
    }
    return {};
  }
  std::vector<Status> run(std::int64_t first, std::int64_t epochs) {
    return ranks_.run([&](std::int64_t rank) { return run_rank(rank, first, epochs); });
  }

 private:
  static std::size_t at(std::int64_t rank) { return static_cast<std::size_t>(rank); }

  InProcess ranks_;
  std::vector<std::unique_ptr<Graph>> graphs_;
  std::vector<Handle<std::int32_t>> rows_;
  std::vector<Handle<std::int32_t>> out_;
  std::vector<std::unique_ptr<native::Executor>> executors_;
  std::vector<std::unique_ptr<native::PreparedGraph>> prepared_;
};

void expect_all_succeed(const std::vector<Status>& statuses) {
  for (const Status& status : statuses) {
    EXPECT_TRUE(status.has_value()) << (status ? "" : status.error().message);
  }
}

Options patient() { return {.give_up_after = kLong}; }

class RanksAndWorkers : public testing::TestWithParam<std::tuple<std::int64_t, int>> {};

TEST_P(RanksAndWorkers, ExchangeOverManyEpochs) {
  const auto [ranks, workers] = GetParam();
  Exchange exchange(ranks, workers, patient());
  expect_all_succeed(exchange.run(1, 5));
  expect_all_succeed(exchange.run(6, 1));  // Counters go on counting from run to run.
}

TEST_P(RanksAndWorkers, ExchangeWithSkew) {
  const auto [ranks, workers] = GetParam();
  Options options = patient();
  options.fault = [n = ranks](const Operation& op) {
    if (op.rank == n - 1) std::this_thread::sleep_for(std::chrono::microseconds(300));
    return Fault::kNone;
  };
  Exchange exchange(ranks, workers, options);
  expect_all_succeed(exchange.run(1, 4));
}

INSTANTIATE_TEST_SUITE_P(All, RanksAndWorkers,
                         testing::Combine(testing::Values(1, 2, 4, 8), testing::Values(0, 1, 2)));

TEST(InProcess, CountersHaveLinesOfTheirOwnAndWindowsArePoisoned) {
  InProcess ranks(2);
  Graph graph;
  const auto counters = ranks.counters(graph, 0, "arrived", 3);
  const auto window = ranks.window<float>(graph, 0, "data", {1, 2});
  EXPECT_EQ(counters.tensor->shape, (Shape{3, 16}));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(counters.host()) % kLineBytes, 0u);
  for (int i = 0; i < 48; ++i) EXPECT_EQ(counters.host()[i], 0);
  std::uint32_t bits = 0;
  std::memcpy(&bits, window.host() + 1, sizeof bits);
  EXPECT_EQ(bits, 0x7FC0DEADu);
}

TEST(InProcess, AnotherGraphOfARankSharesItsWindows) {
  InProcess ranks(1);
  Graph first;
  Graph second;
  EXPECT_EQ(ranks.window<float>(first, 0, "data", {4}).host(),
            ranks.window<float>(second, 0, "data", {4}).host());
}

TEST(InProcess, RefusesWindowsThatDiffer) {
  InProcess ranks(2);
  Graph a;
  Graph b;
  ranks.window<float>(a, 0, "data", {4, 8});
  ranks.window<float>(b, 1, "data", {4, 9});
  ranks.counters(b, 1, "arrived", 2);
  bool has_run = false;
  const std::vector<Status> statuses = ranks.run([&](std::int64_t) {
    has_run = true;
    return Status();
  });
  EXPECT_FALSE(has_run);
  EXPECT_EQ(statuses.at(0).error().message,
            "'data' is window F32 [4, 9] on rank 1, but was made as window F32 [4, 8]: give "
            "every rank the same\n"
            "'arrived' (counters I32 [2, 16]) is missing on rank 0: make it on every rank");
}

TEST(InProcess, RefusesASkippedEpochAndWindowsOfAnEarlierSession) {
  Exchange exchange(2, 1, patient());
  expect_all_succeed(exchange.run(1, 2));
  EXPECT_EQ(exchange.run(1, 1).at(1).error().message,
            "rank 1 can't begin epoch 1: its windows hold epoch 2; go on with epoch 3, or reset() "
            "the ranks and begin with 1");
  EXPECT_THAT(exchange.run(3, 1).at(0).error().message,
              HasSubstr("reset() the ranks before they run again"));
  exchange.ranks().reset();
  expect_all_succeed(exchange.run(1, 2));
  EXPECT_THAT(exchange.ranks().begin_epoch(1, 4).error().message,
              HasSubstr("rank 1 can't begin epoch 4: its windows hold epoch 2"));
}

// Every operation of the exchange in turn is where rank 2 stops.
TEST(InProcess, ARankThatStopsAtAnyStageStopsTheOthers) {
  for (const int workers : {0, 2}) {
    const int operations = 2 * 4 * 5;  // Of a rank in two epochs: blocks x (3 + 2).
    for (int stop_at = 0; stop_at < operations; ++stop_at) {
      std::atomic<int> count = 0;
      Options options = patient();
      options.fault = [&](const Operation& op) {
        return op.rank == 2 && count++ == stop_at ? Fault::kStop : Fault::kNone;
      };
      Exchange exchange(4, workers, options);
      const auto start = std::chrono::steady_clock::now();
      const std::vector<Status> statuses = exchange.run(1, 2);
      EXPECT_LT(std::chrono::steady_clock::now() - start, kLong / 2);
      EXPECT_THAT(exchange.ranks().stopped_because(),
                  AllOf(HasSubstr("rank 2 stopped: "), HasSubstr("a fault at the ")));
      ASSERT_FALSE(statuses.at(2).has_value());
      // A rank that needed nothing more of rank 2 may have ended well.
      for (const std::int64_t r : {0, 1, 3}) {
        const Status& status = statuses.at(static_cast<std::size_t>(r));
        if (status) continue;
        EXPECT_THAT(status.error().message, HasSubstr("rank 2 stopped: a fault at"));
      }
      if (stop_at == 0) {
        EXPECT_FALSE(statuses.at(0).has_value());
      }
    }
  }
}

TEST(InProcess, ALostNotifyIsNamedByWhoWaitsForIt) {
  Options options{.give_up_after = milliseconds(200)};
  options.fault = [](const Operation& op) {
    const bool is_it = op.kind == OperationKind::kNotify && op.window == "arrived";
    return is_it && op.rank == 1 && op.peer == 0 ? Fault::kLose : Fault::kNone;
  };
  // In the last epoch nobody waits for rank 0.
  Exchange once(2, 1, options);
  const std::vector<Status> statuses = once.run(1, 1);
  EXPECT_THAT(statuses.at(0).error().message,
              HasSubstr("waited 200 ms in epoch 1: row 1 of 'arrived' is 0, where at least 1 was "
                        "expected; rank 1 in epoch 1 did "));
  if (!statuses.at(1)) {  // It came so late that rank 0 had given up.
    EXPECT_THAT(statuses.at(1).error().message, HasSubstr("rank 0 stopped: "));
  }
  // Else rank 1 comes to wait for rank 0, and either may be the first whose patience ends: both
  // messages lead to the row that lacks a notify.
  Exchange twice(2, 1, options);
  const std::vector<Status> both = twice.run(1, 2);
  EXPECT_FALSE(both.at(0).has_value());
  EXPECT_FALSE(both.at(1).has_value());
  EXPECT_THAT(twice.ranks().stopped_because(), HasSubstr("row 1 of 'arrived'"));
  EXPECT_THAT(both.at(1).error().message, HasSubstr("row 1 of 'arrived'"));
}

TEST(InProcess, ARankThatFailsOutsideItsGraphStopsTheOthers) {
  Exchange exchange(3, 1, patient());
  const std::vector<Status> statuses = exchange.ranks().run([&](std::int64_t rank) -> Status {
    if (rank == 1) throw std::runtime_error("no weights");
    return exchange.run_rank(rank, 1, 1);
  });
  EXPECT_EQ(statuses.at(1).error().message, "no weights");
  for (const std::size_t r : {0, 2}) {
    EXPECT_THAT(statuses.at(r).error().message, HasSubstr("rank 1 stopped: no weights"));
  }
}

// Random ranks, workers, epochs and one random fault: each run is right, or says which rank and
// why.
TEST(InProcess, RandomRunsNeverHang) {
  int stopped = 0;
  int lost = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    Random random(seed, 7);
    const auto ranks = static_cast<std::int64_t>(1 + random.next_below(4));
    const auto workers = static_cast<int>(random.next_below(3));
    const auto epochs = static_cast<std::int64_t>(1 + random.next_below(3));
    const auto faulty =
        static_cast<std::int64_t>(random.next_below(static_cast<std::uint64_t>(ranks)));
    const int fault_at = static_cast<int>(random.next_below(30));
    const Fault kind = seed % 20 == 0 ? Fault::kLose : seed % 2 == 0 ? Fault::kStop : Fault::kNone;
    std::atomic<int> count = 0;
    std::atomic<bool> has_fault = false;
    Options options{.give_up_after = kind == Fault::kLose ? milliseconds(50) : kLong};
    options.fault = [&](const Operation& op) {
      if (op.rank != faulty || (kind == Fault::kLose && op.kind != OperationKind::kNotify)) {
        return Fault::kNone;
      }
      if (count++ != fault_at || kind == Fault::kNone) return Fault::kNone;
      has_fault = true;
      return kind;
    };
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Exchange exchange(ranks, workers, options);
    const std::vector<Status> statuses = exchange.run(1, epochs);
    if (!has_fault) {
      if (kind != Fault::kLose) expect_all_succeed(statuses);
    } else if (kind == Fault::kStop) {
      ++stopped;
      EXPECT_THAT(exchange.ranks().stopped_because(),
                  HasSubstr(fmt::format("rank {} stopped: ", faulty)));
    } else if (const std::string why = exchange.ranks().stopped_because(); !why.empty()) {
      ++lost;
      EXPECT_THAT(why, AllOf(HasSubstr("waited 50 ms in epoch "), HasSubstr("was expected")));
    }  // Nobody waits for what is lost in the last epoch's `consumed`.
  }
  EXPECT_GE(stopped, 100);
  EXPECT_GE(lost, 5);
}

TEST(InProcess, RefusesWrongOperations) {
  const auto error_of = [](const auto& operation) -> std::string {
    Exchange exchange(2, 0, patient());
    const auto tensor = [&](const char* name) {
      return *exchange.graph(0).find<std::int32_t>(name);
    };
    try {
      operation(exchange.ranks().port(0), tensor);
    } catch (const RemoteError& e) {
      return e.what();
    }
    return "";
  };
  const std::int32_t words[kCols] = {};
  const Tile<const std::byte> row{reinterpret_cast<const std::byte*>(words), 1, 4 * kCols,
                                  4 * kCols};
  EXPECT_EQ(error_of([&](RemotePort& port, auto t) { port.put(2, t("received").rows(0, 1), row); }),
            "put to rank 2, where there are 2 ranks");
  EXPECT_EQ(
      error_of([&](RemotePort& port, auto t) { port.put(1, t("rows").rows(0, 1), row); }),
      "put on tensor 'rows', which is no window of rank 0: make it with window() or counters()");
  EXPECT_EQ(error_of([&](RemotePort& port, auto t) { port.put(1, t("received"), row); }),
            "put of a tile of 1 rows of 96 bytes into 2 rows of 96 bytes of 'received'");
  EXPECT_EQ(error_of([&](RemotePort& port, auto t) { port.put(1, t("arrived").rows(1, 1), row); }),
            "put on 'arrived', which is counters I32 [2, 16]: counters only count notifies");
  EXPECT_EQ(error_of([&](RemotePort& port, auto t) { port.notify(1, t("received")); }),
            "notify on 'received', which is window I32 [2, 24]: notify and wait are for counters");
  EXPECT_EQ(error_of([&](RemotePort& port, auto t) { port.notify(1, t("arrived").cols(3, 1)); }),
            "notify on word 3 of row 0 of 'arrived': word 0 counts");
}

TEST(InProcess, PutsABoxOfAWindow) {
  Exchange exchange(2, 0, patient());
  const auto near = *exchange.graph(0).find<std::int32_t>("received");
  const auto far = *exchange.graph(1).find<std::int32_t>("received");
  const std::int32_t words[] = {1, 2, 9, 3, 4, 9};
  exchange.ranks().port(0).put(1, near.cols(5, 2),
                               {reinterpret_cast<const std::byte*>(words), 2, 8, 12});
  for (int i = 0; i < 2 * kCols; ++i) {
    const std::int32_t expected = i == 5           ? 1
                                  : i == 6         ? 2
                                  : i == kCols + 5 ? 3
                                  : i == kCols + 6 ? 4
                                                   : 0x5A5A5A5A;
    EXPECT_EQ(far.host()[i], expected) << i;
    EXPECT_EQ(near.host()[i], 0x5A5A5A5A) << i;
  }
}

}  // namespace
}  // namespace cohort::dist
