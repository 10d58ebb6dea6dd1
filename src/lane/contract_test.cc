// Each way to break the contract between kernels and lanes, and what is said about it.
#include "cohort/lane/contract.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/lane/kernel_ref.h"

namespace cohort {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

enum class Breach {
  kNone,
  kStoreOverLoadedTile,
  kPutOverLoadedTile,
  kPartlyWritten,
  kPartlyWrittenIntegers,
  kNeverStored,
  kStoredTwice,
  kStoresALoadedTile,
  kChangedAfterStore,
  kTooMuchLocalMemory,
  kReadsOutFirst,
  kReadsOutAfterWriting,
  kUpdateTwice,
};

// Does its work on block 1 of two in the way `Way` says, and rightly on block 0.
template <Breach kWay>
struct Careless {
  static constexpr KernelInfo kInfo{.name = "careless"};
  struct Args {
    In<float> x;          // [2, 16]
    Out<float> y;         // [2, 16]
    InOut<float> z;       // [2, 16]
    Out<std::int32_t> n;  // [2, 16]
    InOut<float> big;     // [2, 30000]
    COHORT_OPERANDS(x, y, z, n, big)
  };
  static std::int64_t blocks(const Args&) { return 2; }
  template <class L>
  static void run(L& lane, const Args& a, std::int64_t b) {
    const Breach way = b == 1 ? kWay : Breach::kNone;
    const Out<float> y_row = a.y.rows(b, 1);
    const InOut<float> z_row = a.z.rows(b, 1);
    if (way == Breach::kReadsOutFirst) {
      const InOut<float> y_again(y_row);
      auto y = lane.update(y_again);
      for (std::int64_t c = 0; c < 16; ++c) y(0, c) = 1;
      lane.store(y);
      return;
    }
    {
      const auto x = lane.load(a.x.rows(b, 1));
      auto y = lane.output(y_row);
      const std::int64_t end = way == Breach::kPartlyWritten ? 13 : 16;
      for (std::int64_t c = 0; c < end; ++c) y(0, c) = x(0, c) + 1;
      if (way != Breach::kNeverStored) lane.store(y);
      if (way == Breach::kStoredTwice) lane.store(y);
      if (way == Breach::kChangedAfterStore) y(0, 3) = -1;
    }
    if (way == Breach::kReadsOutAfterWriting) {
      const InOut<float> y_again(y_row);
      auto y = lane.update(y_again);
      y(0, 0) += 1;
      lane.store(y);
    }
    {
      auto n = lane.output(a.n.rows(b, 1));
      const std::int64_t end = way == Breach::kPartlyWrittenIntegers ? 15 : 16;
      for (std::int64_t c = 0; c < end; ++c) n(0, c) = static_cast<std::int32_t>(c);
      lane.store(n);
    }
    if (way == Breach::kStoreOverLoadedTile) {
      const auto held = lane.load(z_row);
      auto z = lane.update(z_row.cols(8, 8));
      z(0, 0) += held(0, 0);
      lane.store(z);
    }
    if (way == Breach::kPutOverLoadedTile) {
      const auto held = lane.load(z_row);
      lane.put(z_row, 5, held(0, 0));
    }
    if (way == Breach::kStoresALoadedTile) {
      const auto held = lane.load(z_row);
      lane.store(held);
    }
    if (way == Breach::kUpdateTwice) {
      auto z = lane.update(z_row);
      z(0, 0) += 1;
      lane.store(z);
      auto again = lane.update(z_row);
      again(0, 0) += 1;
      lane.store(again);
    }
    if (way == Breach::kTooMuchLocalMemory) {
      const auto first = lane.load(a.big.rows(0, 1));
      const auto second = lane.load(a.big.rows(1, 1));
      auto z = lane.update(z_row);
      z(0, 0) = first(0, 0) + second(0, 0);
      lane.store(z);
    }
  }
};

template <Breach kWay>
std::vector<std::string> errors_of() {
  Graph graph;
  typename Careless<kWay>::Args args;
  args.x = graph.tensor<float>("x", {2, 16});
  args.y = graph.tensor<float>("y", {2, 16});
  args.z = graph.tensor<float>("z", {2, 16});
  args.n = graph.tensor<std::int32_t>("n", {2, 16});
  args.big = graph.tensor<float>("big", {2, 30000});
  const Submission s = graph.submit(kernel_ref<Careless<kWay>>(), args);
  EXPECT_TRUE(graph.validate()) << graph.validate().error().message;
  return check_contract(graph.task(s.id)).errors;
}

TEST(Contract, CarefulKernelsAreSilent) {
  EXPECT_THAT(errors_of<Breach::kNone>(), IsEmpty());
  EXPECT_THAT(errors_of<Breach::kReadsOutAfterWriting>(), IsEmpty());
  EXPECT_THAT(errors_of<Breach::kUpdateTwice>(), IsEmpty());
}

TEST(Contract, ABlockStoresNothingOverATileItStillUses) {
  EXPECT_THAT(errors_of<Breach::kStoreOverLoadedTile>(),
              ElementsAre("kernel \"careless\", block 1, operand 2, tensor z, bytes [96, 128): the "
                          "block stores into bytes that a tile it loaded and still uses stands for "
                          "(bytes [64, 128)); drop the tile first, or use update()"));
  EXPECT_THAT(errors_of<Breach::kPutOverLoadedTile>(),
              ElementsAre("kernel \"careless\", block 1, operand 2, tensor z, bytes [84, 88): the "
                          "block stores into bytes that a tile it loaded and still uses stands for "
                          "(bytes [64, 128)); drop the tile first, or use update()"));
}

TEST(Contract, AnOutputTileIsWrittenInEveryElement) {
  EXPECT_THAT(errors_of<Breach::kPartlyWritten>(),
              Contains("kernel \"careless\", block 1, operand 1, tensor y, bytes [64, 128): 3 "
                       "elements of its output tile were never written, the first is 13"));
  EXPECT_THAT(
      errors_of<Breach::kPartlyWrittenIntegers>(),
      Contains("tensor n, element 31: it depends on what a fresh output tile holds: the block "
               "doesn't write it"));
}

TEST(Contract, ATileIsStoredOnceAndThenLeftAlone) {
  EXPECT_THAT(
      errors_of<Breach::kNeverStored>(),
      Contains("kernel \"careless\", block 1, operand 1, tensor y, bytes [64, 128): its tile "
               "was never stored"));
  EXPECT_THAT(errors_of<Breach::kStoredTwice>(),
              ElementsAre("kernel \"careless\", block 1, operand 1, tensor y, bytes [64, 128): its "
                          "tile is stored twice; a tile is stored exactly once"));
  EXPECT_THAT(errors_of<Breach::kStoresALoadedTile>(),
              ElementsAre("kernel \"careless\", block 1, operand 2, tensor z, bytes [64, 128): a "
                          "loaded tile is read only and can't be stored"));
  const auto changed = errors_of<Breach::kChangedAfterStore>();
  EXPECT_THAT(changed,
              Contains("kernel \"careless\", block 1, operand 1, tensor y, bytes [64, 128): "
                       "its tile was changed after it was stored"));
  EXPECT_THAT(changed, Contains("tensor y, element 19: DirectLane and ModelledLane leave different "
                                "bytes"));
}

TEST(Contract, TilesFitIntoLocalMemory) {
  EXPECT_THAT(
      errors_of<Breach::kTooMuchLocalMemory>(),
      ElementsAre(HasSubstr("block 1, operand 4, tensor big, bytes [120000, 240000): its tile "
                            "of 120000 bytes doesn't fit beside the live tiles into 188416 "
                            "bytes of local memory")));
}

TEST(Contract, OutIsWrittenBeforeItIsRead) {
  EXPECT_THAT(
      errors_of<Breach::kReadsOutFirst>(),
      Contains("task \"careless\", block 1, operand 1, y is declared Out and is read before it "
               "is written: load of bytes [64, 128)"));
}

// Says that block b writes element b, and writes element 1 always.
struct Liar {
  static constexpr KernelInfo kInfo{.name = "liar"};
  struct Args {
    In<std::int32_t> x;
    Out<std::int32_t> y;
    COHORT_OPERANDS(x, y)
  };
  static std::int64_t blocks(const Args&) { return 2; }
  template <class L>
  static void run(L& lane, const Args& a, std::int64_t) {
    lane.put(a.y, 1, lane.get(a.x, 0));
  }
  static void region(const Args& a, std::int64_t block, const RegionSink& sink) {
    sink(a.x.cols(0, 1), Direction::kIn);
    sink(a.y.cols(block, 1), Direction::kOut);
  }
};

TEST(Contract, AccessesStayInsideDeclaredRegions) {
  Graph graph;
  const auto x = graph.tensor<std::int32_t>("x", {16});
  const auto y = graph.tensor<std::int32_t>("y", {16});
  const Submission s = graph.submit(kernel_ref<Liar>(), Liar::Args{x, y});
  const auto errors = check_contract(graph.task(s.id)).errors;
  EXPECT_THAT(errors,
              ElementsAre("kernel \"liar\", block 0, operand 1, tensor y: put of bytes [4, 8) "
                          "is outside the region that the kernel declares for this block"));
}

}  // namespace
}  // namespace cohort
