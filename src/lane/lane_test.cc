#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/graph/graph.h"
#include "cohort/lane/contract.h"
#include "cohort/lane/fuse.h"
#include "cohort/lane/kernel_ref.h"
#include "cohort/lane/plan.h"

namespace cohort {
namespace {

// y[r, c] = 2 x[r, c]; block b takes columns [16 b, 16 b + 16) of every row.
struct Double {
  static constexpr KernelInfo kInfo{.name = "double"};
  struct Args {
    In<float> x;   // [R, C]
    Out<float> y;  // [R, C]
    COHORT_OPERANDS(x, y)
  };
  static std::int64_t blocks(const Args& a) { return a.x.cols() / 16; }
  static Status validate(const Args& a) {
    if (a.x.cols() % 16 == 0) return {};
    return fail(ErrorCode::kInvalidArgument,
                "x has " + std::to_string(a.x.cols()) + " columns, expected a multiple of 16");
  }
  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    const auto x = lane.load(a.x.cols(16 * block, 16));
    auto y = lane.output(a.y.cols(16 * block, 16));
    for (std::int64_t r = 0; r < x.rows; ++r) {
      for (std::int64_t c = 0; c < x.cols; ++c) y(r, c) = 2 * x(r, c);
    }
    const WorkItem work[] = {{Operation::kMul, x.rows * x.cols}};
    lane.charge(work);
    lane.store(y);
  }
};

// z[r] = sum_c y[r, c] for the first `rows` rows; block b is row b.
struct RowSum {
  static constexpr KernelInfo kInfo{.name = "row_sum"};
  struct Args {
    In<float> y;   // [R, C]
    Out<float> z;  // [R, 1]
    std::int64_t rows = 0;
    COHORT_OPERANDS(y, z, rows)
  };
  static std::int64_t blocks(const Args& a) { return a.rows; }
  static std::int64_t capacity(const Args& a) { return a.y.rows(); }
  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    const auto y = lane.load(a.y.rows(block, 1));
    float sum = 0;
    for (std::int64_t c = 0; c < y.cols; ++c) sum += y(0, c);
    auto z = lane.output(a.z.rows(block, 1));
    z(0, 0) = sum;
    lane.store(z);
  }
};

struct ChainArgs {
  In<float> x;
  Out<float> y;
  Out<float> z;
  InOut<std::int32_t> sync_workspace;
  std::int64_t rows = 0;
  COHORT_OPERANDS(x, y, z, sync_workspace, rows)
};

KernelRef chain(FuseOptions options) {
  return fuse<ChainArgs>("chain", options)
      .phase<Double>([](const ChainArgs& a) {
        return Double::Args{a.x, a.y};
      })
      .barrier()
      .phase<RowSum>([](const ChainArgs& a) {
        return RowSum::Args{a.y, a.z, a.rows};
      });
}

class LaneTest : public testing::Test {
 protected:
  LaneTest() {
    x = graph.tensor<float>("x", {8, 64});
    y = graph.tensor<float>("y", {8, 64});
    z = graph.tensor<float>("z", {8, 1});
    ws = graph.tensor<std::int32_t>("ws", {64}, {.initial = 0});
    graph.poison_tensors();
    for (int i = 0; i < 8 * 64; ++i) x.host()[i] = static_cast<float>(i);
  }
  Graph graph{"test"};
  Handle<float> x, y, z;
  Handle<std::int32_t> ws;
};

TEST_F(LaneTest, BothLanesLeaveTheSameBytes) {
  const Submission s = graph.submit(kernel_ref<Double>(), Double::Args{x, y});
  ASSERT_TRUE(graph.validate()) << graph.validate().error().message;
  const ContractReport report = check_contract(graph.task(s.id));
  EXPECT_THAT(report.errors, testing::IsEmpty());
  EXPECT_EQ(report.blocks, 4);
  EXPECT_EQ(report.bytes_compared, 2 * 2 * 8 * 64 * 4);
  EXPECT_EQ(y.host()[77], 154.0f);
  const BlockFootprint& f = report.footprints[1];
  ASSERT_EQ(f.accesses.size(), 2u);
  EXPECT_EQ(f.accesses[0].kind, AccessKind::kLoad);
  EXPECT_EQ(f.accesses[1].access.region, Region::box(y.tensor->id, 64, 8, 64, 256));
  EXPECT_EQ(f.accesses[1].access.operand, 1);
  EXPECT_EQ(f.work[static_cast<std::size_t>(Operation::kMul)], 128);
  EXPECT_EQ(f.local_high_water, 2 * 8 * 16 * 4);
}

TEST_F(LaneTest, LanesOfAFusedKernelAreTheLargestPhaseUpToTheCap) {
  const Submission s = graph.submit(chain({.lanes = 8}), ChainArgs{x, y, z, ws, 3});
  EXPECT_EQ(graph.task(s.id).bound.lanes, 8);
  EXPECT_EQ(graph.task(s.id).bound.phases[1].blocks, 3);
  const Submission t = graph.submit(
      chain({.lanes = 3}), ChainArgs{x, y, z, s.handle<std::int32_t>("sync_workspace"), 3});
  EXPECT_EQ(graph.task(t.id).bound.lanes, 3);
}

TEST_F(LaneTest, PublishAndAcquireAreDerivedInLines) {
  const Submission s = graph.submit(chain({.lanes = 8}), ChainArgs{x, y, z, ws, 2});
  ASSERT_TRUE(graph.validate()) << graph.validate().error().message;
  const auto plan = plan_fusion(graph.task(s.id).bound);
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_EQ(plan->repartitions.size(), 1u);
  EXPECT_EQ(plan->repartitions[0].tensor->name, "y");
  for (std::size_t lane = 0; lane < 8; ++lane) {
    // Block b of Double writes one line in each of 8 rows; rows 0 and 1 of 4 lines are summed.
    EXPECT_EQ(plan->barriers[0][lane].publish_lines(), lane < 4 ? 8 : 0) << lane;
    EXPECT_EQ(plan->barriers[0][lane].acquire_lines(), lane < 2 ? 4 : 0) << lane;
  }
  // z: eight lanes write 4 bytes each of one line.
  ASSERT_EQ(plan->shared_lines.size(), 1u);
  EXPECT_EQ(plan->shared_lines[0].tensor->name, "z");
}

// Block b writes element b of every row: lanes share lines of y, and RowSum reads them.
struct Scatter {
  static constexpr KernelInfo kInfo{.name = "scatter"};
  struct Args {
    In<float> x;
    Out<float> y;
    COHORT_OPERANDS(x, y)
  };
  static std::int64_t blocks(const Args&) { return 8; }
  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    lane.put(a.y, block, lane.get(a.x, block));
  }
};

TEST_F(LaneTest, FalseSharingIsRefusedByName) {
  const KernelRef kernel = fuse<ChainArgs>("scattered", {.lanes = 8})
                               .phase<Scatter>([](const ChainArgs& a) {
                                 return Scatter::Args{a.x, a.y};
                               })
                               .barrier()
                               .phase<RowSum>([](const ChainArgs& a) {
                                 return RowSum::Args{a.y, a.z, a.rows};
                               });
  graph.submit(kernel, ChainArgs{x, y, z, ws, 8});
  ASSERT_EQ(graph.refusals().size(), 1u);
  EXPECT_EQ(graph.refusals()[0].kind, RefusalKind::kFusion);
  EXPECT_EQ(
      graph.refusals()[0].message,
      "task #0 \"scattered\": false-sharing: in phase 0 \"scatter\", line 0 of tensor y (bytes "
      "[0, 64)) is written by lanes 0, 1, 2, 3, 4, 5, 6, 7, and one of them writes it through "
      "the data cache, whose write-back is the whole line; give each lane whole lines");
}

TEST_F(LaneTest, OneLaneNeedsNoMaintenance) {
  const Submission s = graph.submit(chain({.lanes = 1}), ChainArgs{x, y, z, ws, 8});
  const auto plan = plan_fusion(graph.task(s.id).bound);
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->repartitions.empty());
  EXPECT_EQ(plan->barriers[0][0].publish_lines(), 0);
}

}  // namespace
}  // namespace cohort
