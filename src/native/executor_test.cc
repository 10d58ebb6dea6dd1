#include "cohort/native/executor.h"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/random.h"
#include "cohort/lane/run_in_order.h"

#include "test_kernels.h"

namespace cohort::native {
namespace {

using std::chrono::milliseconds;
using testing::Contains;
using testing::Field;

// Of every tensor but workspaces, which count arrivals only if lanes meet.
std::vector<std::vector<std::byte>> bytes_of(const Graph& graph) {
  std::vector<std::vector<std::byte>> all;
  for (const Tensor& t : graph.tensors()) {
    all.emplace_back();
    if (!t.initial) all.back().assign(t.memory().begin(), t.memory().end());
  }
  return all;
}

void restore(const Graph& graph, const std::vector<std::vector<std::byte>>& bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::copy(bytes[i].begin(), bytes[i].end(), graph.tensors()[i].data);
  }
}

// What the graph's tensors hold after its tasks ran one by one; the tensors end as they began.
std::vector<std::vector<std::byte>> expected_of(const Graph& graph) {
  const auto before = bytes_of(graph);
  run_in_order(graph);
  auto after = bytes_of(graph);
  restore(graph, before);
  return after;
}

// Runs the graph `times` times on `workers` workers, each from the same bytes.
void expect_runs_as_in_order(const Graph& graph, int workers, int times, Faults faults = {}) {
  ASSERT_TRUE(graph.validate()) << graph.validate().error().message;
  const auto before = bytes_of(graph);
  const auto expected = expected_of(graph);
  Executor executor({.workers = workers, .faults = std::move(faults)});
  Result<PreparedGraph> prepared = executor.prepare(graph);
  ASSERT_TRUE(prepared) << prepared.error().message;
  for (int i = 0; i < times; ++i) {
    restore(graph, before);
    const RunResult result = executor.run(*prepared);
    ASSERT_EQ(result.status, RunStatus::kDone) << to_text(result.report);
    const auto actual = bytes_of(graph);
    for (std::size_t t = 0; t < actual.size(); ++t) {
      ASSERT_TRUE(actual[t] == expected[t])
          << graph.tensors()[t].name << ", " << workers << " workers, run " << i;
    }
  }
}

constexpr int kWorkers[] = {1, 2, 3, 8, 64};

// A body that does what it is told by a pointer smuggled in as a scalar.
struct Call {
  static constexpr KernelInfo kInfo{.name = "call"};
  struct Args {
    InOut<std::int32_t> x;
    std::int64_t function = 0;  // const std::function<void(std::int64_t block)>*
    std::int64_t count = 1;
    COHORT_OPERANDS(x, function, count)
  };
  static std::int64_t blocks(const Args& a) { return a.count; }
  template <class L>
  static void run(L&, const Args& a, std::int64_t block) {
    (*reinterpret_cast<const std::function<void(std::int64_t)>*>(a.function))(block);
  }
};
using Function = std::function<void(std::int64_t)>;
std::int64_t as_scalar(const Function& function) {
  return reinterpret_cast<std::int64_t>(&function);
}

TEST(NativeExecutor, RunsAnEmptyGraphAndEmptyTasks) {
  for (const int workers : kWorkers) {
    Graph nothing;
    expect_runs_as_in_order(nothing, workers, 2);

    Graph graph;
    const auto x = graph.tensor<std::int32_t>("x", {4, 16});
    const Submission none = graph.submit(
        kernel_ref<MixRows>(), MixRows::Args{x.rows(0, 2), x.rows(0, 2), x.rows(2, 2), 0});
    graph.dummy("join", {}, {.deps = {none.id}});
    expect_runs_as_in_order(graph, workers, 2);
  }
}

TEST(NativeExecutor, RunsAProducerThatIsEmptyBeforeAConsumerThatIsNot) {
  for (const int workers : kWorkers) {
    Graph graph;
    const auto x = graph.tensor<std::int32_t>("x", {4, 16});
    const auto y = graph.tensor<std::int32_t>("y", {4, 16});
    const auto z = graph.tensor<std::int32_t>("z", {4, 16});
    const Submission a = graph.submit(kernel_ref<MixRows>(), MixRows::Args{x, x, y, 0});
    const Submission b =
        graph.submit(kernel_ref<MixRows>(), MixRows::Args{a.handle<std::int32_t>("z"), x, z, 4});
    graph.dummy("stand_in", {}, {.deps = {b.id}});
    expect_runs_as_in_order(graph, workers, 20);
  }
}

// Every task takes random boxes of a few shared tensors, so edges of all hazards arise, exact and
// approximate, and a task that starts early or twice changes bytes.
TEST(NativeExecutor, RunsRandomGraphsOfRandomViewsAsInOrder) {
  for (int seed = 0; seed < 60; ++seed) {
    Random random(static_cast<std::uint64_t>(seed), 1);
    Graph graph;
    constexpr std::int64_t kRows = 24;
    constexpr std::int64_t kCols = 40;
    std::vector<Handle<std::int32_t>> tensors;
    for (int t = 0; t < 4; ++t) {
      tensors.push_back(graph.tensor<std::int32_t>("t" + std::to_string(t), {kRows, kCols}));
      for (std::int64_t i = 0; i < kRows * kCols; ++i) {
        tensors.back().host()[i] = static_cast<std::int32_t>(random.next_below(1u << 31));
      }
    }
    const auto below = [&](std::int64_t n) {
      return static_cast<std::int64_t>(random.next_below(static_cast<std::uint64_t>(n)));
    };
    for (int i = 0; i < 60; ++i) {
      const std::int64_t rows = 1 + below(8);
      const std::int64_t cols = 1 + below(16);
      const auto box = [&](std::size_t t) {
        return tensors[t].rows(below(kRows - rows + 1), rows).cols(below(kCols - cols + 1), cols);
      };
      const auto z = static_cast<std::size_t>(below(4));
      const auto x = (z + 1 + static_cast<std::size_t>(below(3))) % 4;
      const auto y = (z + 1 + static_cast<std::size_t>(below(3))) % 4;
      const MixRows::Args args{box(x), box(y), box(z), below(rows + 1)};
      Launch launch;
      launch.sync_start = below(8) == 0;
      const Submission s = graph.submit(kernel_ref<MixRows>(), args, launch);
      tensors[z] = s.handle<std::int32_t>("z");
    }
    const int workers = kWorkers[seed % 5];
    expect_runs_as_in_order(graph, workers, workers == 64 ? 2 : 5);
    if (HasFatalFailure()) FAIL() << "seed " << seed;
  }
}

class FusedTest : public testing::TestWithParam<int> {};

TEST_P(FusedTest, RunsAnyNumberOfLanesUnderEveryBarrier) {
  const int workers = GetParam();
  for (const Barrier barrier : {Barrier::kSlot, Barrier::kCounter, Barrier::kHard}) {
    for (const std::int64_t lanes : {1, 2, 3, 5, 8, 16, 48, 64}) {
      Graph graph;
      const WeaveTensors t(graph, "", 32, 16 * 48);
      t.submit(graph, weave({.lanes = lanes, .barrier = barrier, .vector_cores = lanes}), 31,
               {.sync_start = true});
      expect_runs_as_in_order(graph, workers, 3);
      if (HasFatalFailure()) FAIL() << name(barrier) << ", " << lanes << " lanes";
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Workers, FusedTest, testing::ValuesIn(kWorkers));

TEST(NativeExecutor, CountsArrivalsInTheWorkspace) {
  for (const Barrier barrier : {Barrier::kSlot, Barrier::kCounter, Barrier::kHard}) {
    Graph graph;
    const WeaveTensors t(graph, "", 32, 16 * 8);
    t.submit(graph, weave({.lanes = 8, .barrier = barrier, .vector_cores = 8}), 32,
             {.sync_start = true});
    expect_runs_as_in_order(graph, 3, 1);
    const Result<RunResult> result = run(graph, {.workers = 3});
    ASSERT_TRUE(result);
    std::vector<std::int32_t> words(t.workspace.host(), t.workspace.host() + 64);
    std::vector<std::int32_t> expected(64);
    if (barrier == Barrier::kCounter) expected[0] = 16;
    if (barrier == Barrier::kSlot) {
      for (std::size_t lane = 0; lane < 8; ++lane) expected[8 * lane] = 2;
    }
    EXPECT_EQ(words, expected) << name(barrier);
  }
}

// Several cohorts that nothing orders, each with a long plain task beside it.
TEST_P(FusedTest, RunsIndependentCohortsBesideLongTasks) {
  const Function nap = [](std::int64_t) { std::this_thread::sleep_for(milliseconds(5)); };
  Graph graph;
  for (int i = 0; i < 4; ++i) {
    const std::string suffix = std::to_string(i);
    const WeaveTensors t(graph, suffix, 32, 16 * 8);
    const Submission fused = t.submit(
        graph, weave({.lanes = 5 + i, .barrier = i % 2 == 0 ? Barrier::kSlot : Barrier::kCounter}),
        32, {.sync_start = true});
    const auto own = graph.tensor<std::int32_t>("own" + suffix, {1});
    graph.submit(kernel_ref<Call>(), Call::Args{own, as_scalar(nap), 2});
    const auto out = graph.tensor<std::int32_t>("out" + suffix, {32, 16 * 8});
    graph.submit(kernel_ref<MixRows>(), MixRows::Args{t.c, t.a, out, 32}, {.deps = {fused.id}});
  }
  expect_runs_as_in_order(graph, GetParam(), 3);
}

TEST_P(FusedTest, DelaysChangeNothing) {
  std::atomic<std::uint64_t> calls{0};
  Faults faults;
  faults.before_phase = [&](const Task&, std::size_t, std::int64_t) {
    const std::uint64_t n = calls.fetch_add(1);
    const auto wait = std::chrono::microseconds(Random(7, n).next_below(60));
    if (n % 3 == 0) std::this_thread::sleep_for(wait);
  };
  for (const Barrier barrier : {Barrier::kSlot, Barrier::kCounter, Barrier::kHard}) {
    Graph graph;
    const WeaveTensors t(graph, "", 16, 16 * 8);
    const Submission fused =
        t.submit(graph, weave({.lanes = 8, .barrier = barrier, .vector_cores = 8}), 16,
                 {.sync_start = true});
    graph.submit(kernel_ref<MixRows>(), MixRows::Args{t.a, t.b, t.c, 16}, {.deps = {fused.id}});
    expect_runs_as_in_order(graph, GetParam(), 20, faults);
  }
}

TEST(NativeExecutor, TakesOverScalarsWithoutPreparingAgain) {
  for (const int workers : {1, 3}) {
    Graph graph;
    const WeaveTensors t(graph, "", 32, 16 * 8);
    t.submit(graph, weave({.lanes = 8}), 32, {.sync_start = true});
    graph.submit(kernel_ref<MixRows>(), MixRows::Args{t.a, t.b, t.c, 32});
    Executor executor({.workers = workers});
    Result<PreparedGraph> prepared = executor.prepare(graph);
    ASSERT_TRUE(prepared) << prepared.error().message;
    graph.poison_tensors();
    for (std::int64_t i = 0; i < t.x.rows() * t.x.cols(); ++i) t.x.host()[i] = 3;
    const auto before = bytes_of(graph);
    for (const int rows : {0, 1, 7, 32, 1}) {
      ASSERT_TRUE(graph.set_scalar("rows", rows));
      prepared->update();
      const auto expected = expected_of(graph);
      ASSERT_EQ(executor.run(*prepared).status, RunStatus::kDone);
      EXPECT_TRUE(bytes_of(graph) == expected) << rows << " rows";
      restore(graph, before);
    }
  }
}

TEST(NativeExecutor, RefusesAGraphThatIsWrong) {
  Graph graph;
  const auto x = graph.tensor<std::int32_t>("x", {4, 16});
  graph.submit(kernel_ref<MixRows>(), MixRows::Args{x, x, x, 4});
  const Result<RunResult> result = run(graph);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, graph.validate().error().message);
}

TEST(NativeExecutor, RecordsWhenTasksRan) {
  Graph graph;
  const auto x = graph.tensor<std::int32_t>("x", {1});
  const Function nap = [](std::int64_t) { std::this_thread::sleep_for(milliseconds(2)); };
  const Submission a = graph.submit(kernel_ref<Call>(), Call::Args{x, as_scalar(nap), 3});
  graph.submit(kernel_ref<Call>(), Call::Args{a.handle<std::int32_t>("x"), as_scalar(nap), 1});
  const Result<RunResult> result = run(graph, {.workers = 2, .record_times = true});
  ASSERT_TRUE(result);
  ASSERT_EQ(result->times.size(), 2u);
  EXPECT_GE((result->times[0].end - result->times[0].begin).value, 2'000'000);
  EXPECT_GE(result->times[1].begin, result->times[0].end);
  EXPECT_GE(result->elapsed, result->times[1].end);
}

// ---- Faults ----------------------------------------------------------------------------------

class DeadlockTest : public testing::TestWithParam<int> {
 protected:
  // Runs an 8-lane weave with these faults, then again without, on the same executor.
  RunResult run_faulty(KernelRef kernel, const Launch& launch, Faults faults,
                       std::int64_t rows = 32) {
    Graph graph;
    const WeaveTensors t(graph, "", 32, 16 * 8);
    t.submit(graph, kernel, rows, launch);
    EXPECT_TRUE(graph.validate()) << graph.validate().error().message;
    Executor executor({.workers = GetParam(),
                       .hang_after = std::chrono::minutes(1),
                       .faults = std::move(faults)});
    Result<PreparedGraph> prepared = executor.prepare(graph);
    RunResult result = executor.run(*prepared);
    EXPECT_EQ(executor.run(*prepared).status, result.status) << "the second run";
    Graph healthy;
    const auto x = healthy.tensor<std::int32_t>("x", {4, 16});
    const auto y = healthy.tensor<std::int32_t>("y", {4, 16});
    healthy.submit(kernel_ref<MixRows>(), MixRows::Args{x, x, y, 4});
    Result<PreparedGraph> next = executor.prepare(healthy);
    EXPECT_EQ(executor.run(*next).status, RunStatus::kDone) << "a graph after the deadlock";
    return result;
  }

  static std::string text(const RunResult& result) {
    std::string all = result.report.findings.at(0).cause + "\n";
    for (const Evidence& e : result.report.findings.at(0).evidence)
      all += e.label + ": " + e.text + "\n";
    return all + result.report.findings.at(0).advice;
  }
};

TEST_P(DeadlockTest, NamesALaneThatDoesNotArrive) {
  Faults faults;
  faults.skip_arrival = [](const Task&, std::size_t meeting, std::int64_t lane) {
    return meeting == 1 && lane == 3;
  };
  for (const Barrier barrier : {Barrier::kSlot, Barrier::kCounter, Barrier::kHard}) {
    const RunResult result = run_faulty(weave({.lanes = 8, .barrier = barrier, .vector_cores = 8}),
                                        {.sync_start = true}, faults);
    ASSERT_EQ(result.status, RunStatus::kDeadlock) << name(barrier);
    EXPECT_EQ(text(result),
              "lanes 0-7 of task #0 \"weave\" wait and can't be released\n"
              "barrier 1: lanes 0-7 wait at the " +
                  std::string(name(barrier)) +
                  " barrier after \"sum_across\", which needs 8 arrivals\n"
                  "missing arrival at barrier 1: lane 3 waits without having arrived\n"
                  "make every participant reach the barrier, also with nothing to do");
  }
}

TEST_P(DeadlockTest, NamesALaneThatLeavesEarly) {
  Faults faults;
  faults.skip_arrival = [](const Task&, std::size_t, std::int64_t lane) { return lane == 6; };
  faults.skip_wait = faults.skip_arrival;
  // Without rows no lane reads what another wrote: the missing barrier isn't a race as well.
  const RunResult result = run_faulty(weave({.lanes = 8}), {.sync_start = true}, faults, 0);
  ASSERT_EQ(result.status, RunStatus::kDeadlock);
  EXPECT_EQ(text(result),
            "lanes 0-5, 7 of task #0 \"weave\" wait and can't be released\n"
            "barrier 0: lanes 0-5, 7 wait at the counter barrier after \"sum_down\", which needs 8 "
            "arrivals\n"
            "missing arrival at barrier 0: lane 6 finished without having arrived\n"
            "make every participant reach the barrier, also with nothing to do");
}

TEST_P(DeadlockTest, NamesTheCoresThatAHardBarrierMisses) {
  const RunResult result =
      run_faulty(weave({.barrier = Barrier::kHard}), {.sync_start = true, .lanes = 8}, {});
  ASSERT_EQ(result.status, RunStatus::kDeadlock);
  EXPECT_EQ(text(result),
            "lanes 0-7 of task #0 \"weave\" wait and can't be released\n"
            "barrier 0: lanes 0-7 wait at the hard barrier after \"sum_down\", which needs 48 "
            "arrivals\n"
            "missing arrival at barrier 0: cores 8-47 have no lane\n"
            "launch 48 lanes, or use a slot or counter barrier");
}
INSTANTIATE_TEST_SUITE_P(Workers, DeadlockTest, testing::ValuesIn(kWorkers));

TEST(NativeExecutor, ReportsABodyThatThrows) {
  const Function bad = [](std::int64_t block) {
    if (block == 2) throw std::runtime_error("no more paper");
  };
  for (const int workers : kWorkers) {
    for (const bool cohort : {false, true}) {
      Graph graph;
      const auto x = graph.tensor<std::int32_t>("own", {1});
      const Submission a = graph.submit(kernel_ref<Call>(), Call::Args{x, as_scalar(bad), 4},
                                        {.sync_start = cohort});
      const WeaveTensors t(graph, "", 32, 16 * 8);
      t.submit(graph, weave({}), 32, {.sync_start = true});
      graph.submit(kernel_ref<Call>(), Call::Args{a.handle<std::int32_t>("x"), as_scalar(bad), 1});
      Executor executor({.workers = workers});
      Result<PreparedGraph> prepared = executor.prepare(graph);
      for (int i = 0; i < 3; ++i) {
        const RunResult result = executor.run(*prepared);
        ASSERT_EQ(result.status, RunStatus::kFailed);
        EXPECT_EQ(result.report.findings.at(0).cause, "block 2 of task #0 threw: no more paper");
      }
    }
  }
}

[[noreturn]] void throw_check(const std::string& message) { throw std::logic_error(message); }

TEST(NativeExecutor, GivesUpOnABodyThatNeverEnds) {
  std::atomic<bool> may_end{false};
  const Function stuck = [&](std::int64_t block) {
    while (block == 1 && !may_end) std::this_thread::sleep_for(milliseconds(1));
  };
  Graph graph;
  const auto x = graph.tensor<std::int32_t>("x", {1});
  graph.submit(kernel_ref<Call>(), Call::Args{x, as_scalar(stuck), 2});
  const CheckHandler before = set_check_handler(throw_check);
  {
    Executor executor({.workers = 2, .hang_after = milliseconds(200)});
    Result<PreparedGraph> prepared = executor.prepare(graph);
    const RunResult result = executor.run(*prepared);
    EXPECT_EQ(result.status, RunStatus::kHung);
    const Finding& finding = result.report.findings.at(0);
    EXPECT_EQ(finding.cause, "nothing changed for 200 ms");
    EXPECT_THAT(finding.evidence,
                Contains(Field(&Evidence::text, "was last given block 1 of task #0")));
    EXPECT_THROW(executor.run(*prepared), std::logic_error);
    may_end = true;
  }
  set_check_handler(before);
}

#if defined(__SANITIZE_THREAD__)
#define COHORT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define COHORT_TSAN 1
#endif
#endif
#ifdef COHORT_TSAN

// A kernel without its barriers is a data race for ThreadSanitizer: switching between lanes of one
// worker must not hide it.
class RaceDeathTest : public testing::TestWithParam<int> {};

TEST_P(RaceDeathTest, AMissingBarrierIsReported) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Faults faults;
  faults.skip_arrival = [](const Task&, std::size_t, std::int64_t) { return true; };
  faults.skip_wait = faults.skip_arrival;
  const auto run_without_barriers = [&] {
    Graph graph;
    const WeaveTensors t(graph, "", 32, 16 * 8);
    t.submit(graph, weave({.lanes = 2}), 32, {.sync_start = true});
    static_cast<void>(run(graph, {.workers = GetParam(), .faults = faults}));
    std::exit(0);  // ThreadSanitizer makes it 66 if it has reported anything.
  };
  EXPECT_EXIT(run_without_barriers(), testing::ExitedWithCode(66), "data race");
}
INSTANTIATE_TEST_SUITE_P(Workers, RaceDeathTest, testing::Values(1, 2));

#endif

}  // namespace
}  // namespace cohort::native
