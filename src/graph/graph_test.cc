#include "cohort/graph/graph.h"

#include <algorithm>
#include <limits>
#include <set>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/random.h"

namespace cohort {
namespace {

using testing::ElementsAre;

// A kernel that is only submitted, never run: the graph sees what it declares.
template <std::int64_t kBlocks>
struct Copy {
  struct Args {
    In<float> x;
    InOut<float> y;
    std::int64_t rows = 0;
    COHORT_OPERANDS(x, y, rows)
  };
  static KernelRef ref() {
    KernelBody body;
    body.info = {.name = "copy"};
    body.args_type = &args_type<Args>();
    body.blocks = [](const void* a) -> std::int64_t {
      return kBlocks >= 0 ? kBlocks : static_cast<const Args*>(a)->rows;
    };
    body.capacity = body.blocks;
    body.validate = [](const void* a) -> Status {
      if (static_cast<const Args*>(a)->rows != 13) return {};
      return fail(ErrorCode::kInvalidArgument, "rows is 13, expected a lucky number");
    };
    KernelRef kernel;
    kernel.name = "copy";
    kernel.args_type = body.args_type;
    kernel.phases.push_back({.body = body});
    return kernel;
  }
};
using CopyRows = Copy<-1>;

std::vector<std::string> texts_of(const Graph& graph) {
  std::vector<std::string> texts;
  for (const Edge& e : graph.edges()) {
    std::string text = std::to_string(e.from.value) + ">" + std::to_string(e.to.value) + " " +
                       std::string(name(e.hazard));
    if (e.hazard != Hazard::kExplicit) text += " " + graph.tensor_of(e.tensor).name;
    texts.push_back(text + (e.approximate ? " ?" : ""));
  }
  return texts;
}

std::string only_refusal(const Graph& graph, RefusalKind kind) {
  if (graph.refusals().size() != 1) return std::to_string(graph.refusals().size()) + " refusals";
  EXPECT_EQ(graph.refusals()[0].kind, kind);
  return graph.refusals()[0].message;
}

TEST(Graph, OrdersTasksByTheirData) {
  Graph g;
  const auto a = g.tensor<float>("a", {4, 8});
  const auto b = g.tensor<float>("b", {4, 8});
  g.dummy("write", {writes(a)});
  g.dummy("read", {reads(a)});
  g.dummy("read_again", {reads(a)});
  g.dummy("overwrite", {writes(a)});
  g.dummy("other", {writes(b)});
  g.dummy("both", {reads(a), reads(b)});
  EXPECT_THAT(texts_of(g), ElementsAre("0>1 RAW a", "0>2 RAW a", "0>3 WAW a", "1>3 WAR a",
                                       "2>3 WAR a", "3>5 RAW a", "4>5 RAW b"));
}

TEST(Graph, OrdersOnlyWhatOverlaps) {
  Graph g;
  const auto a = g.tensor<float>("a", {4, 8});
  const auto part = [&](std::int64_t row, std::int64_t rows, std::int64_t col, std::int64_t cols) {
    return a.rows(row, rows).cols(col, cols);
  };
  g.dummy("left", {writes(part(0, 4, 0, 4))});
  g.dummy("right", {writes(part(0, 4, 4, 4))});
  g.dummy("upper_left", {reads(part(0, 2, 0, 4))});
  g.dummy("row", {reads(part(3, 1, 0, 8))});
  g.dummy("nothing", {reads(part(0, 0, 0, 4))});
  EXPECT_THAT(texts_of(g), ElementsAre("0>2 RAW a", "0>3 RAW a", "1>3 RAW a"));
}

TEST(Graph, AWriteStandsForWhatItCovers) {
  Graph g;
  const auto a = g.tensor<float>("a", {4, 8});
  g.dummy("all", {writes(a)});
  g.dummy("half", {writes(a.rows(0, 2))});
  g.dummy("cover", {writes(a)});
  g.dummy("read", {reads(a)});
  EXPECT_THAT(texts_of(g), ElementsAre("0>1 WAW a", "0>2 WAW a", "1>2 WAW a", "2>3 RAW a"));
}

TEST(Graph, ManualTensorsMakeNoEdgesAndExplicitOnesAreMerged) {
  Graph g;
  const auto manual = g.tensor<float>("manual", {4}, {.manual_dep = true});
  const auto a = g.tensor<float>("a", {4});
  const TaskId first = g.dummy("first", {writes(manual), writes(a)}).id;
  g.dummy("second", {reads(manual)});
  g.dummy("third", {reads(manual), reads(a)}, {.deps = {first, first}});
  EXPECT_THAT(texts_of(g), ElementsAre("0>2 explicit", "0>2 RAW a"));
}

TEST(Graph, CanLeaveOutWriteAfterRead) {
  Graph g("g", {.track_write_after_read = false});
  const auto a = g.tensor<float>("a", {4});
  g.dummy("write", {writes(a)});
  g.dummy("read", {reads(a)});
  g.dummy("overwrite", {writes(a)});
  EXPECT_THAT(texts_of(g), ElementsAre("0>1 RAW a", "0>2 WAW a"));
}

TEST(Graph, HullsThatOverlapGiveAnApproximateEdge) {
  Graph g;
  const auto a = g.tensor<float>("a", {64});
  ViewFields every_third = a;  // Floats 0, 3, 6, ... against 1, 5, 9, ...: another matrix.
  every_third.row_count = 5;
  every_third.col_count = 1;
  every_third.pitch = 3;
  ViewFields every_fourth = every_third;
  every_fourth.data = a.host() + 1;
  every_fourth.pitch = 4;
  g.dummy("thirds", {{"a", Direction::kOut, every_third, DType::kFloat32}});
  g.dummy("fourths", {{"a", Direction::kIn, every_fourth, DType::kFloat32}});
  EXPECT_THAT(texts_of(g), ElementsAre("0>1 RAW a ?"));
}

// ---- Random graphs against sets of bytes -----------------------------------------------------

using Bytes = std::set<std::int64_t>;

struct Use {
  std::size_t task;
  std::size_t tensor;
  bool reads;
  bool writes;
  Bytes bytes;
  std::int64_t low = 0, high = 0;  // Of the hull.
};

Bytes bytes_of(const ViewFields& v) {
  Bytes bytes;
  const std::int64_t begin = static_cast<const std::byte*>(v.data) - v.tensor->data;
  for (std::int64_t r = 0; r < v.row_count; ++r) {
    for (std::int64_t i = 0; i < 4 * v.col_count; ++i) bytes.insert(begin + 4 * r * v.pitch + i);
  }
  return bytes;
}

bool meet(const Bytes& a, const Bytes& b) {
  return std::ranges::any_of(a, [&](std::int64_t byte) { return b.contains(byte); });
}

bool conflict(const Use& a, const Use& b) {
  return a.tensor == b.tensor && (a.writes || b.writes) && meet(a.bytes, b.bytes);
}

class RandomGraph {
 public:
  // With `strange` views some tasks see a tensor as a matrix of another width.
  RandomGraph(std::uint64_t seed, bool strange) : random_(seed, strange ? 1 : 0) {
    std::vector<Handle<float>> tensors;
    for (int t = 0; t < 2; ++t) {
      tensors.push_back(graph.tensor<float>("t" + std::to_string(t), {kRows, kCols}));
    }
    for (std::size_t task = 0; task < 30; ++task) {
      std::vector<DummyOperand> operands;
      for (std::size_t t = 0; t < 2; ++t) {
        if (below(3) == 0) continue;
        const ViewFields view =
            strange && below(3) == 0 ? strange_view(tensors[t]) : box(tensors[t]);
        const auto direction = static_cast<Direction>(below(3));
        operands.push_back({"o", direction, view, DType::kFloat32});
        operands.back().view.version = static_cast<std::uint32_t>(versions_[t]);
        if (direction == Direction::kInOut) ++versions_[t];
        Use use{task, t, direction != Direction::kOut, direction != Direction::kIn, bytes_of(view)};
        if (!use.bytes.empty()) {
          use.low = *use.bytes.begin();
          use.high = *use.bytes.rbegin();
        }
        uses.push_back(use);
      }
      graph.dummy("task", operands);
    }
  }

  Graph graph;
  std::vector<Use> uses;

 private:
  static constexpr std::int64_t kRows = 6;
  static constexpr std::int64_t kCols = 10;

  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_.next_below(static_cast<std::uint64_t>(n)));
  }
  ViewFields box(const Handle<float>& t) {
    const std::int64_t rows = below(kRows + 1);
    const std::int64_t cols = below(3) == 0 ? kCols : below(kCols + 1);
    return t.rows(below(kRows - rows + 1), rows).cols(below(kCols - cols + 1), cols);
  }
  ViewFields strange_view(const Handle<float>& t) {
    ViewFields v = t;
    v.pitch = 2 + below(6);
    v.col_count = 1 + below(v.pitch);
    const std::int64_t start = below(10);
    v.row_count = 1 + below((kRows * kCols - start) / v.pitch);
    v.data = t.host() + start;
    return v;
  }

  Random random_;
  std::size_t versions_[2] = {0, 0};
};

TEST(Graph, EdgesEqualAByteSetOraclesWhereTheyAreExact) {
  std::size_t edges = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const RandomGraph random(seed, false);
    ASSERT_TRUE(random.graph.validate()) << random.graph.validate().error().message;
    std::set<std::string> expected;
    std::vector<Use> live;
    for (std::size_t i = 0; i < random.uses.size();) {
      const std::size_t task = random.uses[i].task;
      std::size_t end = i;
      for (; end < random.uses.size() && random.uses[end].task == task; ++end) {
        const Use& use = random.uses[end];
        for (const Use& earlier : live) {
          if (!conflict(earlier, use)) continue;
          const char* hazard = !earlier.writes ? "WAR" : use.reads ? "RAW" : "WAW";
          expected.insert(std::to_string(earlier.task) + ">" + std::to_string(task) + " " + hazard +
                          " t" + std::to_string(use.tensor));
        }
      }
      for (; i < end; ++i) {
        const Use& use = random.uses[i];
        std::erase_if(live, [&](const Use& earlier) {
          return use.writes && earlier.tensor == use.tensor &&
                 std::ranges::includes(use.bytes, earlier.bytes);
        });
        live.push_back(use);
      }
    }
    const std::vector<std::string> texts = texts_of(random.graph);
    EXPECT_EQ(std::set<std::string>(texts.begin(), texts.end()), expected) << "seed " << seed;
    EXPECT_EQ(texts.size(), expected.size());
    edges += texts.size();
  }
  EXPECT_GT(edges, 10'000u);
}

TEST(Graph, AnyConflictIsOrderedAndOnlyHullsAreApproximate) {
  std::size_t approximate = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const RandomGraph random(seed, true);
    const std::size_t tasks = random.graph.tasks().size();
    std::vector<std::vector<bool>> before(tasks, std::vector<bool>(tasks));
    for (const Edge& e : random.graph.edges()) {  // By consumer: paths to e.from are known.
      before[e.from.value][e.to.value] = true;
      for (std::size_t t = 0; t < tasks; ++t) {
        if (before[t][e.from.value]) before[t][e.to.value] = true;
      }
    }
    std::set<std::tuple<std::size_t, std::size_t, std::size_t>> conflicts;
    std::set<std::tuple<std::size_t, std::size_t, std::size_t>> hulls;
    for (const Use& a : random.uses) {
      for (const Use& b : random.uses) {
        if (a.task >= b.task || a.tensor != b.tensor || !(a.writes || b.writes)) continue;
        if (a.bytes.empty() || b.bytes.empty()) continue;
        if (a.low <= b.high && b.low <= a.high) hulls.insert({a.task, b.task, a.tensor});
        if (!conflict(a, b)) continue;
        conflicts.insert({a.task, b.task, a.tensor});
        EXPECT_TRUE(before[a.task][b.task]) << "seed " << seed << ": " << a.task << ">" << b.task;
      }
    }
    for (const Edge& e : random.graph.edges()) {
      const std::tuple<std::size_t, std::size_t, std::size_t> key(e.from.value, e.to.value,
                                                                  e.tensor.value);
      EXPECT_TRUE((e.approximate ? hulls : conflicts).contains(key)) << "seed " << seed;
      approximate += e.approximate ? 1 : 0;
    }
  }
  EXPECT_GT(approximate, 1'000u);
}

// ---- Versions --------------------------------------------------------------------------------

TEST(Graph, AConsumedHandleIsRefusedWithBothPlaces) {
  Graph g("g");
  const auto x = g.tensor<float>("x", {4});
  const auto y = g.tensor<float>("ws", {4});
  const Submission first = g.submit(CopyRows::ref(), CopyRows::Args{x, y, 1});
  g.submit(CopyRows::ref(), CopyRows::Args{x, y, 1});
  EXPECT_EQ(
      only_refusal(g, RefusalKind::kInoutReuse),
      "tensor \"ws\" was consumed by task #0 \"copy\" (operand 1, y) and is used again by task "
      "#1 \"copy\" (operand 1, y): use the handle that the first submission returned");

  Graph h("h");
  const auto a = h.tensor<float>("x", {4});
  Handle<float> b = h.tensor<float>("ws", {4});
  for (int i = 0; i < 5; ++i) {
    b = h.submit(CopyRows::ref(), CopyRows::Args{a, b, 1}).handle<float>("y");
    EXPECT_EQ(b.version, static_cast<std::uint32_t>(i + 1));
  }
  EXPECT_TRUE(h.validate());
  EXPECT_EQ(h.find<float>("ws")->version, 5u);
  EXPECT_EQ(first.handle<float>("y").version, 1u);
}

// ---- Refusals --------------------------------------------------------------------------------

TEST(Graph, RefusesMoreTensorsThanATaskCanHave) {
  Graph g;
  std::vector<DummyOperand> operands;
  for (int i = 0; i < 33; ++i) {
    operands.push_back(reads(g.tensor<float>("t" + std::to_string(i), {1})));
  }
  g.dummy("wide", operands);
  EXPECT_EQ(only_refusal(g, RefusalKind::kLimit),
            "task #0 \"wide\": 33 tensors, a task can have 32");
  operands.pop_back();
  Graph h;
  for (std::size_t i = 0; i < 32; ++i) operands[i] = reads(h.tensor<float>(std::to_string(i), {1}));
  h.dummy("wide", operands);
  EXPECT_TRUE(h.validate());
}

struct ManyScalars {
  In<float> x;
  std::int64_t a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0, i = 0, j = 0, k = 0, l = 0,
               m = 0, n = 0, o = 0, p = 0, q = 0;
  COHORT_OPERANDS(x, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q)
};

TEST(Graph, RefusesMoreScalarsThanATaskCanHave) {
  Graph g;
  const auto x = g.tensor<float>("x", {1});
  KernelRef kernel = CopyRows::ref();
  kernel.args_type = &args_type<ManyScalars>();
  ManyScalars many;
  many.x = x;
  g.submit(kernel, many);
  EXPECT_EQ(only_refusal(g, RefusalKind::kLimit),
            "task #0 \"copy\": 17 scalars, a task can have 16");
}

TEST(Graph, RefusesWhatIsNotOfThisGraph) {
  Graph other("other");
  const auto foreign = other.tensor<float>("theirs", {4});
  Graph g("g");
  const auto mine = g.tensor<float>("mine", {4});
  g.dummy("task", {reads(foreign), writes(mine)});
  EXPECT_EQ(only_refusal(g, RefusalKind::kForeign),
            "task #0 \"task\": operand 0, theirs: tensor \"theirs\" belongs to another graph");

  Graph h("h");
  h.dummy("early", {}, {.deps = {TaskId{3}}});
  EXPECT_EQ(only_refusal(h, RefusalKind::kForeign),
            "task #0 \"early\": depends on task #3, which isn't an earlier task");
  Graph self("self");
  self.dummy("self", {}, {.deps = {TaskId{0}}});
  EXPECT_EQ(only_refusal(self, RefusalKind::kForeign),
            "task #0 \"self\": depends on task #0, which isn't an earlier task");
}

TEST(Graph, RefusesOperandsThatOverlap) {
  Graph g;
  const auto x = g.tensor<float>("x", {4, 8});
  const auto submit = [&](const In<float>& in, const InOut<float>& out) {
    g.submit(CopyRows::ref(), CopyRows::Args{in, out, 1});
  };
  submit(x.rows(0, 2), x.rows(1, 2));
  EXPECT_EQ(
      only_refusal(g, RefusalKind::kAlias),
      "task #0 \"copy\": operand 0, x and operand 1, y overlap in tensor \"x\" and one of them "
      "writes");
  Graph h;
  const auto y = h.tensor<float>("y", {4, 8});
  h.submit(CopyRows::ref(), CopyRows::Args{y.rows(0, 2), y.rows(2, 2), 1});
  h.dummy("reads_twice", {reads(h.find<float>("y").value()), reads(h.find<float>("y").value())});
  EXPECT_TRUE(h.validate());
}

TEST(Graph, RefusesOperandsWithoutATensorAndArgumentsOfAnotherKernel) {
  Graph g;
  const auto x = g.tensor<float>("x", {4});
  g.submit(CopyRows::ref(), CopyRows::Args{x, {}, 1});
  EXPECT_EQ(only_refusal(g, RefusalKind::kAbi), "task #0 \"copy\": operand 1, y has no tensor");
  Graph h;
  ManyScalars many;
  many.x = h.tensor<float>("a", {4});
  h.submit(CopyRows::ref(), many);
  EXPECT_EQ(only_refusal(h, RefusalKind::kAbi),
            "task #0 \"copy\": its arguments aren't of the kernel's Args type");
}

TEST(Graph, RefusesWhatTheKernelRefuses) {
  Graph g;
  const auto x = g.tensor<float>("x", {4});
  const auto y = g.tensor<float>("y", {4});
  g.submit(CopyRows::ref(), CopyRows::Args{x, y, 13});
  EXPECT_EQ(only_refusal(g, RefusalKind::kShape),
            "task #0 \"copy\": rows is 13, expected a lucky number");
}

struct FusedArgs {
  In<float> x;
  InOut<float> y;
  InOut<std::int32_t> ws;
  std::int64_t rows = 0;
  COHORT_OPERANDS(x, y, ws, rows)
};

TEST(Graph, RefusesAWorkspaceThatIsTooSmall) {
  KernelRef kernel = Copy<24>::ref();
  kernel.name = "fused";
  kernel.lane_cap = 16;
  kernel.phases.push_back(kernel.phases[0]);
  kernel.meetings.push_back({});
  kernel.args_type = &args_type<FusedArgs>();
  const auto project = [](const void*) -> std::shared_ptr<const void> {
    return std::make_shared<Copy<24>::Args>();
  };
  for (Phase& phase : kernel.phases) phase.project = project;
  const struct {
    Barrier barrier;
    std::int64_t words;
    const char* refusal;
  } kCases[] = {
      {Barrier::kSlot, 127,
       "task #0 \"fused\": a slot barrier of 16 participants needs 128 I32 words of workspace, "
       "tensor "
       "\"ws\" has 127: word 127 is the first outside; the largest phase has 24 blocks"},
      {Barrier::kCounter, 15,
       "task #0 \"fused\": a counter barrier of 16 participants needs 16 I32 words of workspace, "
       "tensor \"ws\" has 15: word 15 is the first outside; the largest phase has 24 blocks"},
      {Barrier::kSlot, 128, nullptr},
      {Barrier::kCounter, 16, nullptr},
      {Barrier::kHard, 0, nullptr},
  };
  for (const auto& c : kCases) {
    kernel.barrier = c.barrier;
    kernel.vector_cores = 48;
    Graph g;
    const auto x = g.tensor<float>("x", {4});
    const auto y = g.tensor<float>("y", {4});
    const auto ws = g.tensor<std::int32_t>("ws", {c.words});
    g.submit(kernel, FusedArgs{x, y, ws, 1});
    if (c.refusal == nullptr) {
      EXPECT_TRUE(g.validate()) << g.validate().error().message;
    } else {
      EXPECT_EQ(only_refusal(g, RefusalKind::kLayout), c.refusal);
    }
  }
}

TEST(Graph, ValidateJoinsEveryRefusal) {
  Graph g("mine");
  const auto x = g.tensor<float>("x", {4});
  g.submit(CopyRows::ref(), CopyRows::Args{x, {}, 1});
  g.dummy("late", {}, {.deps = {TaskId{9}}});
  const Status status = g.validate();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message,
            "graph \"mine\" can't be run:\n  task #0 \"copy\": operand 1, y has no tensor\n"
            "  task #1 \"late\": depends on task #9, which isn't an earlier task");
}

// ---- Scalars, lookups and pictures -----------------------------------------------------------

TEST(Graph, SetScalarBindsEveryTaskThatHasOneOrNone) {
  Graph g("g");
  const auto x = g.tensor<float>("x", {4});
  const auto y = g.tensor<float>("y", {4});
  const auto z = g.tensor<float>("z", {4});
  g.submit(CopyRows::ref(), CopyRows::Args{x, y, 0});
  g.submit(CopyRows::ref(), CopyRows::Args{x, z, 2});
  EXPECT_EQ(g.tasks()[0].bound.lanes, 0);
  const auto edges = g.edges();
  ASSERT_TRUE(g.set_scalar("rows", 5));
  for (const Task& task : g.tasks()) {
    EXPECT_EQ(task.bound.lanes, 5);
    EXPECT_EQ(static_cast<const CopyRows::Args*>(task.args.get())->rows, 5);
  }
  EXPECT_EQ(g.edges(), edges);

  EXPECT_EQ(g.set_scalar("row", 1).error().message, "no task of graph \"g\" has a scalar \"row\"");
  EXPECT_EQ(g.set_scalar("rows", 0.5).error().message,
            "task #0 \"copy\": operand 2, rows of type I64 can't hold 0.500000");
  EXPECT_FALSE(g.set_scalar("rows", 1e30));
  EXPECT_FALSE(g.set_scalar("rows", std::numeric_limits<double>::quiet_NaN()));
  EXPECT_EQ(g.set_scalar("rows", 13).error().message, "rows is 13, expected a lucky number");
  for (const Task& task : g.tasks()) EXPECT_EQ(task.bound.lanes, 5) << "changed by a failed call";
}

TEST(Graph, FindsTensorsByNameAndType) {
  Graph g("g");
  const auto weights = g.tensor<float>("weights", {2, 3, 4});
  EXPECT_EQ(g.find<float>("weights")->rows(), 2);
  EXPECT_EQ(g.find<float>("weights")->cols(), 12);
  EXPECT_EQ(g.find_tensor("weights"), weights.tensor);
  EXPECT_EQ(g.find<float>("weihts").error().message,
            "graph \"g\" has no tensor \"weihts\", did you mean 'weights'?");
  EXPECT_EQ(g.find<std::int32_t>("weights").error().message,
            "tensor \"weights\" of graph \"g\" is F32, not I32");
}

TEST(Graph, TensorsAreZeroOrPoisonAndApart) {
  Graph g;
  float outside[4] = {1, 2, 3, 4};
  const auto a = g.tensor<float>("a", {3});
  const auto b = g.tensor<std::int32_t>("b", {2}, {.initial = 7});
  const auto c = g.tensor<float>("c", {4}, {.external = reinterpret_cast<std::byte*>(outside)});
  EXPECT_EQ(a.host()[2], 0.0f);
  EXPECT_EQ(b.host()[1], 7);
  EXPECT_EQ(c.host(), outside);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.host()) % kTensorAlignment, 0u);
  EXPECT_GE(b.tensor->address, a.tensor->address + a.tensor->bytes());
  g.poison_tensors();
  EXPECT_NE(a.host()[2], a.host()[2]) << "poison isn't a NaN";
  EXPECT_EQ(b.host()[1], 7);
  EXPECT_EQ(c.host()[3], 4.0f);
}

[[noreturn]] void throw_check(const std::string& message) { throw std::logic_error(message); }

TEST(Graph, ChecksItsCallers) {
  Graph g("g");
  const auto x = g.tensor<float>("x", {4});
  const CheckHandler before = set_check_handler(throw_check);
  EXPECT_THROW(g.tensor<float>("x", {4}), std::logic_error);
  EXPECT_THROW(static_cast<void>(x.rows(0, 2)), std::logic_error);
  const Submission s = g.dummy("d", {reads(x)});
  EXPECT_THROW(static_cast<void>(s.handle<float>("x")), std::logic_error);
  set_check_handler(before);
}

TEST(Graph, CanBeSubmittedAgainWithChanges) {
  Graph g("g");
  const auto x = g.tensor<float>("x", {4, 4});
  const auto y = g.tensor<float>("y", {4, 4});
  x.host()[5] = 7;
  const Submission a = g.submit(CopyRows::ref(), CopyRows::Args{x.rows(1, 2), y.rows(0, 2), 2});
  g.dummy("join", {reads(a.handle<float>("y").rows(1, 3))}, {.deps = {a.id}});
  const Graph same = g.rewritten({});
  EXPECT_EQ(same.to_dot(), g.to_dot());
  EXPECT_EQ(same.edges(), g.edges());
  EXPECT_EQ(same.find<float>("x")->host()[5], 7);
  EXPECT_NE(same.find<float>("x")->host(), x.host());
  EXPECT_EQ(same.task(a.id).operands[0].region, g.task(a.id).operands[0].region);
  EXPECT_EQ(same.tasks()[1].operands[0].region, g.tasks()[1].operands[0].region);

  GraphEdit edit;
  edit.tensor = [](const Tensor& t, TensorOptions& options) { options.manual_dep = t.name == "y"; };
  edit.task = [](TaskDraft& task) {
    if (task.name == "join") task.launch.deps.clear();
    if (task.name == "copy") task.launch.sync_start = true;
  };
  const Graph other = g.rewritten(edit);
  EXPECT_TRUE(other.edges().empty());
  EXPECT_TRUE(other.task(a.id).launch.sync_start);
}

TEST(Graph, DrawsItself) {
  Graph g("picture");
  const auto x = g.tensor<float>("x", {4});
  const auto y = g.tensor<float>("y", {4});
  const TaskId a = g.submit(CopyRows::ref(), CopyRows::Args{x, y, 3}, {.sync_start = true}).id;
  g.dummy("join", {reads(g.find<float>("y").value())}, {.deps = {a}});
  EXPECT_EQ(g.to_dot(),
            "digraph \"picture\" {\n  rankdir=TB;\n  node [shape=box];\n"
            "  t0 [label=\"copy\\n3 blocks\\nsync_start\"];\n"
            "  t1 [label=\"join\\ndummy\", style=dashed];\n"
            "  t0 -> t1 [label=\"explicit\", style=bold];\n"
            "  t0 -> t1 [label=\"RAW y\"];\n}\n");
}

}  // namespace
}  // namespace cohort
