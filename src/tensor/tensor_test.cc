#include "cohort/tensor/tensor.h"

#include <cstring>

#include <gtest/gtest.h>

#include "cohort/tensor/arena.h"
#include "cohort/tensor/view.h"

namespace cohort {
namespace {

struct Matrix : View<float, Matrix> {
  explicit Matrix(const Tensor& t)
      : View(ViewFields{.tensor = &t,
                        .data = t.data,
                        .row_count = t.rows(),
                        .col_count = t.cols(),
                        .pitch = t.cols()}) {}
};

class TensorTest : public testing::Test {
 protected:
  Tensor make(DType dtype, Shape shape) {
    Tensor t{.id = {7}, .name = "t", .dtype = dtype, .shape = std::move(shape)};
    t.data = arena_.allocate(t.bytes());
    return t;
  }
  Arena arena_;
};

TEST_F(TensorTest, IsSeenAsAMatrix) {
  EXPECT_EQ(make(DType::kFloat32, {8, 4, 16}).rows(), 8);
  EXPECT_EQ(make(DType::kFloat32, {8, 4, 16}).cols(), 64);
  EXPECT_EQ(make(DType::kFloat32, {24}).rows(), 1);
  EXPECT_EQ(make(DType::kFloat32, {24}).cols(), 24);
  EXPECT_EQ(make(DType::kInt8, {3, 5}).bytes(), 15);
  EXPECT_EQ(to_string(Shape{8, 4096}), "[8, 4096]");
}

TEST_F(TensorTest, AllocationsAreAlignedAndZero) {
  for (const std::int64_t bytes : {0, 1, 512, 100000}) {
    const std::byte* p = arena_.allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % kTensorAlignment, 0u);
    for (std::int64_t i = 0; i < bytes; ++i) ASSERT_EQ(p[i], std::byte{0});
  }
}

TEST_F(TensorTest, PoisonIsANanOrAnUnlikelyInteger) {
  const Tensor f = make(DType::kFloat32, {3});
  poison(f);
  std::uint32_t word;
  std::memcpy(&word, f.data + 8, 4);
  EXPECT_EQ(word, 0x7FC0DEADu);
  const Tensor b = make(DType::kBFloat16, {3});
  poison(b);
  std::uint16_t half;
  std::memcpy(&half, b.data + 4, 2);
  EXPECT_EQ(half, 0x7FC1u);
  const Tensor i = make(DType::kInt8, {3});
  poison(i);
  EXPECT_EQ(i.data[2], std::byte{0x5A});
}

TEST_F(TensorTest, FillConvertsToTheElementType) {
  const Tensor f = make(DType::kFloat32, {5});
  fill(f, -3.5);
  float value;
  std::memcpy(&value, f.data + 16, 4);
  EXPECT_EQ(value, -3.5f);
  const Tensor i = make(DType::kInt32, {2});
  fill(i, -1);
  std::int32_t word;
  std::memcpy(&word, i.data + 4, 4);
  EXPECT_EQ(word, -1);
}

TEST_F(TensorTest, SlicesNameTheirBytes) {
  const Tensor t = make(DType::kFloat32, {8, 100});
  const Matrix m(t);
  EXPECT_EQ(m.region(), Region::box({7}, 0, 1, 3200, 3200));
  EXPECT_EQ(m.rows(2, 3).region(), Region::box({7}, 800, 1, 1200, 1200));
  EXPECT_EQ(m.rows(2, 3).cols(10, 5).region(), Region::box({7}, 840, 3, 20, 400));
  EXPECT_EQ(m.reshaped(16, 50).rows(1, 1).region(), Region::box({7}, 200, 1, 200, 200));
}

}  // namespace
}  // namespace cohort
