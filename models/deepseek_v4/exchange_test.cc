// Ranks in threads that send tokens to the ranks of their experts and get results back, over
// windows that hold poison, for several epochs with ranks that fall behind.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "cohort/base/random.h"
#include "cohort/lane/contract.h"
#include "cohort/observe/compare.h"

#include "deepseek_v4/exchange_kernels.h"
#include "deepseek_v4/moe_reference.h"

namespace deepseek_v4 {
namespace {

using cohort::Graph;
using cohort::Handle;
using cohort::kernel_ref;
using cohort::LaneIdentity;
using cohort::Random;
using cohort::RemotePort;
using cohort::Task;
using cohort::TaskId;
using cohort::Tensor;
using cohort::ViewFields;
using reference::Vector;

constexpr std::int64_t kTokens = 8;
constexpr std::int64_t kHidden = 512;
constexpr std::int64_t kInner = 512;
constexpr std::int64_t kTopK = 3;
constexpr std::int64_t kLocal = 4;  // L.
constexpr std::int64_t kEpochs = 3;

// What one rank's tasks share with the others'.
struct Fabric {
  std::vector<const Graph*> graphs;
  std::atomic<bool> stuck = false;
};

class ThreadPort : public RemotePort {
 public:
  explicit ThreadPort(Fabric& fabric) : fabric_(fabric) {}

  void put(std::int64_t rank, const ViewFields& view,
           const cohort::Tile<const std::byte>& tile) override {
    const std::int64_t pitch = view.pitch * view.tensor->element_bytes();
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      std::memcpy(at(rank, view) + r * pitch, tile.row(r), static_cast<std::size_t>(tile.cols));
    }
  }
  void notify(std::int64_t rank, const ViewFields& counter) override {
    word(at(rank, counter)).fetch_add(1, std::memory_order_release);
  }
  void wait_at_least(const ViewFields& counter, std::int64_t value) override {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    auto* own = static_cast<std::byte*>(counter.data);
    while (word(own).load(std::memory_order_acquire) < value) {
      if (std::chrono::steady_clock::now() > limit) fabric_.stuck = true;
      if (fabric_.stuck) return;
      std::this_thread::yield();
    }
  }

 private:
  std::byte* at(std::int64_t rank, const ViewFields& view) const {
    const Tensor* there =
        fabric_.graphs[static_cast<std::size_t>(rank)]->find_tensor(view.tensor->name);
    return there->data + (static_cast<std::byte*>(view.data) - view.tensor->data);
  }
  static std::atomic_ref<std::int32_t> word(std::byte* p) {
    return std::atomic_ref<std::int32_t>(*reinterpret_cast<std::int32_t*>(p));
  }
  Fabric& fabric_;
};

using Bytes = std::vector<std::byte>;

// One rank: its part of the layer between the routing table and ffn_out.
class Rank {
 public:
  Rank(std::int64_t index, std::int64_t ranks) : index_(index), ranks_(ranks) {
    const std::int64_t rows = kLocal * recv_rows(kTokens, ranks);
    const auto x = graph.tensor<std::int8_t>("x_norm_i8", {kTokens, kHidden});
    const auto x_scale = graph.tensor<float>("x_norm_scale", {kTokens, 1});
    const auto indices = graph.tensor<std::int32_t>("indices", {kTokens, kTopK});
    const auto weights = graph.tensor<float>("weights", {kTokens, kTopK});
    const auto sh = graph.tensor<BFloat16>("sh", {kTokens, kHidden});
    const auto w1 = graph.tensor<std::int8_t>("routed_w1", {kLocal, kInner, kHidden});
    const auto w3 = graph.tensor<std::int8_t>("routed_w3", {kLocal, kInner, kHidden});
    const auto w2 = graph.tensor<std::int8_t>("routed_w2", {kLocal, kHidden, kInner});
    const auto w1_scale = graph.tensor<float>("routed_w1_scale", {kLocal, kInner});
    const auto w3_scale = graph.tensor<float>("routed_w3_scale", {kLocal, kInner});
    const auto w2_scale = graph.tensor<float>("routed_w2_scale", {kLocal, kHidden});
    const auto recv_meta = graph.tensor<std::int32_t>("recv_meta", {ranks, kLocal});
    const auto recv_x = graph.tensor<std::int8_t>("recv_x", {rows, kHidden});
    const auto recv_aux = graph.tensor<float>("recv_aux", {rows, kAuxWords});
    const auto recv_route = graph.tensor<std::int32_t>("recv_route", {rows, kAuxWords});
    const auto routed_y = graph.tensor<BFloat16>("routed_y_buf", {kTokens * kTopK, kHidden});
    const auto arrived = counter("arrived");
    const auto data_arrived = counter("data_arrived");
    const auto combine_arrived = counter("combine_arrived");
    const auto meta_local = graph.tensor<std::int32_t>("recv_meta_local", {ranks, kLocal});
    const auto counts = graph.tensor<std::int32_t>("recv_count_out", {kLocal});
    const auto x_out = graph.tensor<std::int8_t>("recv_x_out", {rows, kHidden});
    const auto scale_out = graph.tensor<float>("recv_scale_out", {rows, 1});
    const auto w_out = graph.tensor<float>("recv_w_out", {rows, 1});
    const auto route_out = graph.tensor<std::int32_t>("recv_r_route_out", {rows, 1});
    const auto h = graph.tensor<float>("routed_h", {rows, kInner});
    const auto h_i8 = graph.tensor<std::int8_t>("routed_h_i8", {rows, kInner});
    const auto h_scale = graph.tensor<float>("routed_h_scale", {rows, 1});
    const auto y = graph.tensor<BFloat16>("recv_y", {rows, kHidden});
    const auto ffn_out = graph.tensor<BFloat16>("ffn_out", {kTokens, kHidden});

    const TaskId meta = graph
                            .submit(kernel_ref<DispatchMeta>(),
                                    DispatchMeta::Args{indices, recv_meta, arrived, meta_local,
                                                       counts, index, 1, kTokens})
                            .id;
    graph.submit(kernel_ref<DispatchPush>(),
                 DispatchPush::Args{x, x_scale, indices, weights, recv_x, recv_aux, recv_route,
                                    data_arrived, index, kTokens});
    const TaskId wait =
        graph.submit(kernel_ref<DispatchWait>(), DispatchWait::Args{data_arrived, index, 1, kLocal})
            .id;
    graph.submit(kernel_ref<DispatchGather>(),
                 DispatchGather::Args{meta_local, recv_x, recv_aux, recv_route, x_out, scale_out,
                                      w_out, route_out, kTokens},
                 {.deps = {meta, wait}});
    graph.submit(kernel_ref<RoutedGateUp>(), RoutedGateUp::Args{counts, x_out, scale_out, w1, w3,
                                                                w1_scale, w3_scale, h, 10.0f});
    graph.submit(kernel_ref<RoutedQuant>(), RoutedQuant::Args{counts, h, h_i8, h_scale});
    graph.submit(kernel_ref<RoutedDown>(),
                 RoutedDown::Args{counts, h_i8, h_scale, w_out, w2, w2_scale, y});
    const TaskId scatter = graph
                               .submit(kernel_ref<CombineScatter>(),
                                       CombineScatter::Args{y, meta_local, route_out, routed_y})
                               .id;
    const TaskId combine_wait =
        graph
            .submit(kernel_ref<CombineWait>(), CombineWait::Args{combine_arrived, index, 1},
                    {.deps = {scatter}})
            .id;
    graph.submit(kernel_ref<SharedRouted>(), SharedRouted::Args{sh, routed_y, ffn_out, kTokens},
                 {.deps = {combine_wait}});
    graph.poison_tensors();
    for (const auto& c : {arrived, data_arrived, combine_arrived}) {
      std::memset(c.host(), 0,
                  static_cast<std::size_t>(c.rows() * c.cols()) * sizeof(std::int32_t));
    }
    draw_weights();
  }

  /// Of one epoch: activations, and `experts` [tokens, k].
  void draw(std::int64_t epoch, const std::vector<std::int32_t>& experts) {
    const auto stream = static_cast<std::uint64_t>(100 * epoch + index_);
    const Random random(31, stream);
    const auto x = *graph.find<std::int8_t>("x_norm_i8");
    const auto sh = *graph.find<BFloat16>("sh");
    for (std::int64_t i = 0; i < kTokens * kHidden; ++i) {
      const auto n = static_cast<std::uint64_t>(i);
      x.host()[i] = static_cast<std::int8_t>(static_cast<int>(random.below(2 * n, 255)) - 127);
      sh.host()[i] = BFloat16(static_cast<float>(random.uniform(2 * n + 1) - 0.5));
    }
    std::ranges::copy(experts, graph.find<std::int32_t>("indices")->host());
    const Random small(32, stream);
    for (std::int64_t t = 0; t < kTokens; ++t) {
      graph.find<float>("x_norm_scale")->host()[t] = 0.01f + 0.001f * static_cast<float>(t);
      for (std::int64_t j = 0; j < kTopK; ++j) {
        const auto n = static_cast<std::uint64_t>(t * kTopK + j);
        graph.find<float>("weights")->host()[n] = static_cast<float>(0.1 + small.uniform(n));
      }
    }
    for (const char* name : {"recv_meta_local", "recv_count_out", "recv_x_out", "recv_scale_out",
                             "recv_w_out", "recv_r_route_out", "routed_h", "routed_h_i8",
                             "routed_h_scale", "recv_y", "ffn_out", "routed_y_buf"}) {
      cohort::poison(*graph.find_tensor(name));
    }
  }

  /// Runs the tasks in order on this thread; a rank that lags sleeps before some of them.
  void run(RemotePort& port, std::int64_t num_tokens, std::int64_t epoch, bool skewed) {
    ASSERT_TRUE(graph.set_scalar("num_tokens", static_cast<double>(num_tokens)));
    ASSERT_TRUE(graph.set_scalar("moe_epoch", static_cast<double>(epoch)));
    Random random(33, static_cast<std::uint64_t>(100 * epoch + index_));
    for (const Task& task : graph.tasks()) {
      if (skewed && random.next_below(4) == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(random.next_below(2000)));
      }
      const cohort::BoundPhase& phase = task.bound.phases[0];
      for (std::int64_t b = 0; b < phase.blocks; ++b) {
        cohort::DirectLane lane({.index = b, .lanes = phase.blocks, .physical = b}, &port);
        phase.body.direct(lane, phase.args.get(), b);
      }
    }
  }

  /// The bytes of everything that only this rank writes, and of routed_y_buf.
  std::map<std::string, Bytes> snapshot() const {
    std::map<std::string, Bytes> bytes;
    for (const Tensor& t : graph.tensors()) {
      if (t.name == "recv_x" || t.name == "recv_aux" || t.name == "recv_route") continue;
      if (t.name == "recv_meta" || t.name.ends_with("arrived") || t.name.starts_with("routed_w")) {
        continue;
      }
      bytes[t.name] = {t.memory().begin(), t.memory().end()};
    }
    return bytes;
  }

  Vector weights_of(const char* name, std::int64_t expert) const {
    const Tensor& t = *graph.find_tensor(name);
    const auto size = static_cast<std::size_t>(t.bytes() / kLocal);
    return cohort::observe::to_doubles(
        t.memory().subspan(static_cast<std::size_t>(expert) * size, size), t.dtype);
  }

  Graph graph;

 private:
  Handle<std::int32_t> counter(std::string name) {
    return graph.tensor<std::int32_t>(std::move(name), {ranks_, kCounterWords});
  }
  void draw_weights() {
    const auto rank = static_cast<std::uint64_t>(index_);
    for (const char* name : {"routed_w1", "routed_w3", "routed_w2"}) {
      const auto w = *graph.find<std::int8_t>(name);
      const Random random(34, 10 * rank + static_cast<std::uint64_t>(name[8]));
      for (std::int64_t i = 0; i < w.rows() * w.cols(); ++i) {
        const auto value = random.below(static_cast<std::uint64_t>(i), 255);
        w.host()[i] = static_cast<std::int8_t>(static_cast<int>(value) - 127);
      }
    }
    for (const char* name : {"routed_w1_scale", "routed_w3_scale", "routed_w2_scale"}) {
      const auto w = *graph.find<float>(name);
      for (std::int64_t i = 0; i < w.rows() * w.cols(); ++i) {
        w.host()[i] = 0.001f + 1e-5f * static_cast<float>(i % 100);
      }
    }
  }

  std::int64_t index_;
  std::int64_t ranks_;
};

template <class T>
T element(const Bytes& bytes, std::int64_t i) {
  T value;
  std::memcpy(&value, bytes.data() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
  return value;
}
bool same_row(const Bytes& a, std::int64_t row_a, const Bytes& b, std::int64_t row_b,
              std::int64_t bytes) {
  return std::memcmp(a.data() + row_a * bytes, b.data() + row_b * bytes,
                     static_cast<std::size_t>(bytes)) == 0;
}
template <class T>
bool is_poison(const Bytes& bytes, std::int64_t first, std::int64_t count) {
  const std::uint64_t pattern = cohort::poison_pattern(cohort::kDTypeOf<T>);
  for (std::int64_t i = first; i < first + count; ++i) {
    if (std::memcmp(bytes.data() + static_cast<std::size_t>(i) * sizeof(T), &pattern, sizeof(T)) !=
        0) {
      return false;
    }
  }
  return true;
}

enum class Routing { kRandom, kBalanced, kAllToRankZero };

// k distinct experts a token.
std::vector<std::int32_t> experts_of(Routing routing, std::int64_t ranks, std::int64_t rank,
                                     std::int64_t epoch) {
  const std::int64_t experts = routing == Routing::kAllToRankZero ? kLocal : ranks * kLocal;
  Random random(35, static_cast<std::uint64_t>(100 * epoch + rank));
  std::vector<std::int32_t> ids;
  for (std::int64_t t = 0; t < kTokens; ++t) {
    for (std::int64_t j = 0; j < kTopK;) {
      auto id = static_cast<std::int32_t>(random.next_below(static_cast<std::uint64_t>(experts)));
      if (routing == Routing::kBalanced) {
        id = static_cast<std::int32_t>(((rank * kTokens + t) * kTopK + j) % experts);
      }
      if (std::find(ids.end() - j, ids.end(), id) != ids.end()) continue;
      ids.push_back(id);
      ++j;
    }
  }
  return ids;
}

struct Case {
  std::int64_t ranks;
  Routing routing;
};

// All snapshots of one run: [epoch][rank].
struct World {
  World(const Case& c) : ranks(c.ranks) {
    for (std::int64_t r = 0; r < ranks; ++r) rank.push_back(std::make_unique<Rank>(r, ranks));
    for (const auto& r : rank) fabric.graphs.push_back(&r->graph);
    snapshots.resize(kEpochs, std::vector<std::map<std::string, Bytes>>(rank.size()));
    std::vector<std::thread> threads;
    for (std::int64_t r = 0; r < ranks; ++r) {
      threads.emplace_back([this, r, routing = c.routing] {
        ThreadPort port(fabric);
        Rank& own = *rank[static_cast<std::size_t>(r)];
        for (std::int64_t epoch = 1; epoch <= kEpochs && !fabric.stuck; ++epoch) {
          own.draw(epoch, experts_of(routing, ranks, r, epoch));
          own.run(port, tokens(r, epoch), epoch, true);
          snapshots[static_cast<std::size_t>(epoch - 1)][static_cast<std::size_t>(r)] =
              own.snapshot();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // Uneven, 0 and all among them, another in each epoch.
  static std::int64_t tokens(std::int64_t rank, std::int64_t epoch) {
    constexpr std::int64_t kActive[] = {kTokens, 0, 3, 5, 1};
    return kActive[(rank + epoch - 1) % 5];
  }

  std::int64_t ranks;
  Fabric fabric;
  std::vector<std::unique_ptr<Rank>> rank;
  std::vector<std::vector<std::map<std::string, Bytes>>> snapshots;
};

// A row that an expert received: where it came from.
struct Origin {
  std::int64_t rank;
  std::int64_t token;
  std::int64_t choice;
};

void check_epoch(const World& world, std::int64_t epoch) {
  const auto& at = world.snapshots[static_cast<std::size_t>(epoch - 1)];
  const std::int64_t capacity = recv_rows(kTokens, world.ranks);
  for (std::int64_t g = 0; g < world.ranks * kLocal; ++g) {
    SCOPED_TRACE("expert " + std::to_string(g));
    const std::int64_t local = g % kLocal;
    const auto& owner = *world.rank[static_cast<std::size_t>(g / kLocal)];
    const auto& there = at[static_cast<std::size_t>(g / kLocal)];
    std::vector<Origin> rows;
    for (std::int64_t r = 0; r < world.ranks; ++r) {
      const std::size_t before = rows.size();
      const Bytes& ids = at[static_cast<std::size_t>(r)].at("indices");
      for (std::int64_t i = 0; i < World::tokens(r, epoch) * kTopK; ++i) {
        if (element<std::int32_t>(ids, i) == g) rows.push_back({r, i / kTopK, i % kTopK});
      }
      EXPECT_EQ(element<std::int32_t>(there.at("recv_meta_local"), r * kLocal + local),
                static_cast<std::int32_t>(rows.size() - before));
    }
    const auto count = static_cast<std::int64_t>(rows.size());
    ASSERT_EQ(element<std::int32_t>(there.at("recv_count_out"), local), count);

    const std::int64_t first = local * capacity;
    Vector x, scale, weight, y;
    for (std::int64_t j = 0; j < count; ++j) {
      const Origin& o = rows[static_cast<std::size_t>(j)];
      const auto& home = at[static_cast<std::size_t>(o.rank)];
      const std::int64_t route = o.token * kTopK + o.choice;
      EXPECT_TRUE(
          same_row(there.at("recv_x_out"), first + j, home.at("x_norm_i8"), o.token, kHidden));
      EXPECT_TRUE(
          same_row(there.at("recv_scale_out"), first + j, home.at("x_norm_scale"), o.token, 4));
      EXPECT_TRUE(same_row(there.at("recv_w_out"), first + j, home.at("weights"), route, 4));
      EXPECT_EQ(element<std::int32_t>(there.at("recv_r_route_out"), first + j), route);
      EXPECT_TRUE(
          same_row(home.at("routed_y_buf"), route, there.at("recv_y"), first + j, 2 * kHidden));
      for (std::int64_t d = 0; d < kHidden; ++d) {
        x.push_back(element<std::int8_t>(home.at("x_norm_i8"), o.token * kHidden + d));
        y.push_back(
            static_cast<float>(element<BFloat16>(home.at("routed_y_buf"), route * kHidden + d)));
      }
      scale.push_back(element<float>(home.at("x_norm_scale"), o.token));
      weight.push_back(element<float>(home.at("weights"), route));
    }
    const std::int64_t rest = capacity - count;
    EXPECT_TRUE(
        is_poison<std::int8_t>(there.at("recv_x_out"), (first + count) * kHidden, rest * kHidden));
    EXPECT_TRUE(is_poison<float>(there.at("recv_scale_out"), first + count, rest));
    EXPECT_TRUE(is_poison<float>(there.at("recv_w_out"), first + count, rest));
    EXPECT_TRUE(is_poison<std::int32_t>(there.at("recv_r_route_out"), first + count, rest));
    if (count == 0) continue;

    // From the token's own row to its routed result, through no value of the run between.
    const reference::QuantisedRows h = reference::quantise_rows(
        reference::gate_up(x, scale, owner.weights_of("routed_w1", local),
                           owner.weights_of("routed_w1_scale", local),
                           owner.weights_of("routed_w3", local),
                           owner.weights_of("routed_w3_scale", local), 10.0),
        kInner);
    Vector row_scale = h.scale;
    for (std::size_t j = 0; j < row_scale.size(); ++j) row_scale[j] *= weight[j];
    const Vector expected =
        reference::down(h.values, row_scale, owner.weights_of("routed_w2", local),
                        owner.weights_of("routed_w2_scale", local));
    const auto c = cohort::observe::compare_relative(y, expected, 2e-3, 0.01, 1e9, 2);
    EXPECT_TRUE(c.pass) << c.bad << " of " << c.compared << ", worst " << c.actual << " for "
                        << c.expected;
  }

  for (std::int64_t r = 0; r < world.ranks; ++r) {
    SCOPED_TRACE("rank " + std::to_string(r));
    const auto& home = at[static_cast<std::size_t>(r)];
    const std::int64_t active = World::tokens(r, epoch);
    const auto doubles = [&](const char* name, std::int64_t elements) {
      return cohort::observe::to_doubles(
          std::span(home.at(name)).first(static_cast<std::size_t>(2 * elements)),
          cohort::DType::kBFloat16);
    };
    const Vector expected =
        reference::shared_routed(doubles("sh", active * kHidden),
                                 doubles("routed_y_buf", active * kTopK * kHidden), kHidden, kTopK);
    const auto c =
        cohort::observe::compare_bfloat16(doubles("ffn_out", active * kHidden), expected, 1, 0.001);
    EXPECT_TRUE(c.pass) << c.bad << " of " << c.compared;
    for (std::int64_t t = active; t < kTokens; ++t) {
      EXPECT_TRUE(same_row(home.at("ffn_out"), t, home.at("sh"), t, 2 * kHidden)) << t;
    }
    EXPECT_TRUE(is_poison<BFloat16>(home.at("routed_y_buf"), active * kTopK * kHidden,
                                    (kTokens - active) * kTopK * kHidden));
  }
}

class Exchange : public testing::TestWithParam<Case> {};

TEST_P(Exchange, EveryRouteGoesToItsExpertAndBack) {
  const World world(GetParam());
  ASSERT_FALSE(world.fabric.stuck) << "a rank waited for longer than 20 s";
  for (std::int64_t epoch = 1; epoch <= kEpochs; ++epoch) {
    SCOPED_TRACE("epoch " + std::to_string(epoch));
    check_epoch(world, epoch);
    if (testing::Test::HasFailure()) return;
  }
  // Every source adds L, or 1, an epoch, each in its own line; a rank adds nothing to itself.
  for (std::int64_t r = 0; r < world.ranks; ++r) {
    const auto& graph = world.rank[static_cast<std::size_t>(r)]->graph;
    for (const auto& [name, per_epoch] :
         {std::pair("arrived", 1), std::pair("data_arrived", int{kLocal}),
          std::pair("combine_arrived", 1)}) {
      const auto counters = graph.find<std::int32_t>(name);
      for (std::int64_t i = 0; i < world.ranks * kCounterWords; ++i) {
        const bool used = i % kCounterWords == 0 && i / kCounterWords != r;
        EXPECT_EQ(counters->host()[i], used ? kEpochs * per_epoch : 0) << name << " " << i;
      }
    }
  }
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  constexpr const char* kNames[] = {"random", "balanced", "all_to_rank_0"};
  return "R" + std::to_string(info.param.ranks) + "_" +
         kNames[static_cast<int>(info.param.routing)];
}

INSTANTIATE_TEST_SUITE_P(Ranks, Exchange,
                         testing::Values(Case{1, Routing::kRandom}, Case{2, Routing::kRandom},
                                         Case{2, Routing::kBalanced},
                                         Case{2, Routing::kAllToRankZero},
                                         Case{4, Routing::kRandom}, Case{8, Routing::kBalanced},
                                         Case{8, Routing::kAllToRankZero}),
                         case_name);

// On the other lane: the same blocks over the state that a run has left, in which every wait is
// over, keep the contract of tiles and stay inside the regions that they declare.
TEST(ExchangeContract, HoldsOnTheModelledLane) {
  const World world({2, Routing::kRandom});
  ASSERT_FALSE(world.fabric.stuck);
  for (const Task& task : world.rank[1]->graph.tasks()) {
    cohort::FootprintRecorder recorder(cohort::FootprintRecorder::Mode::kLive);
    const cohort::BoundPhase& phase = task.bound.phases[0];
    for (std::int64_t b = 0; b < phase.blocks; ++b) {
      const auto footprint = recorder.run(phase, b, {.index = b, .lanes = phase.blocks});
      for (const cohort::Violation& v : footprint.violations) ADD_FAILURE() << v.text;
      EXPECT_LE(footprint.local_high_water, 176 * 1024) << task.name;
    }
    EXPECT_TRUE(world.rank[1]->snapshot() == world.snapshots[kEpochs - 1][1])
        << task.name << " leaves other bytes on ModelledLane";
  }
}

TEST(ExchangeContract, ArgumentsThatCannotWorkAreRefused) {
  const auto refusal = [](std::int64_t rank, std::int64_t words) {
    Graph graph;
    const auto counters = graph.tensor<std::int32_t>("combine_arrived", {2, words});
    graph.submit(kernel_ref<CombineWait>(), CombineWait::Args{counters, rank, 1});
    const auto status = graph.validate();
    return status ? std::string() : status.error().message;
  };
  EXPECT_EQ(refusal(1, kCounterWords), "");
  EXPECT_NE(refusal(2, kCounterWords).find("combine_wait: rank is 2, expected 0 to 1"),
            std::string::npos);
  EXPECT_NE(refusal(0, 1).find("counters have 1 columns, expected 16"), std::string::npos);
}

}  // namespace
}  // namespace deepseek_v4
