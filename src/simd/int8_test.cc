#include "cohort/simd/int8.h"

#include "cohort/simd/simd.h"

#include "definition.h"
#include "test_support.h"

namespace cohort::simd {
namespace {

Buffer<std::int8_t> make_int8(std::int64_t rows, std::int64_t cols, bool extreme) {
  static std::uint64_t stream = 0;
  const Random random(43, ++stream);
  Buffer<std::int8_t> b(rows, cols);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const auto bits = random.bits(static_cast<std::uint64_t>(r * cols + c));
      const int value = extreme ? (bits % 8 == 0 ? -127 : 127) : static_cast<int>(bits % 255) - 127;
      b.tile(r, c) = static_cast<std::int8_t>(value);
    }
  }
  return b;
}

// Sums that floats can't all hold, and their neighbours.
Buffer<std::int32_t> make_sums(std::int64_t rows, std::int64_t cols) {
  static std::uint64_t stream = 0;
  const Random random(44, ++stream);
  Buffer<std::int32_t> b(rows, cols);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const auto bits = random.bits(static_cast<std::uint64_t>(r * cols + c));
      const std::int64_t span = bits % 3 == 0 ? 1 << 27 : 1 << 12;
      b.tile(r, c) = static_cast<std::int32_t>(static_cast<std::int64_t>(bits >> 32) % span) -
                     static_cast<std::int32_t>(span / 2);
    }
  }
  return b;
}

bool same(const Buffer<std::int32_t>& a, const Buffer<std::int32_t>& b) {
  return a.values == b.values;
}

TEST(Int8Test, ProductsAreExactForEveryShapeOfBlock) {
  for (const bool extreme : {false, true}) {
    for (const std::int64_t m : {1, 3, 4, 5, 16}) {
      for (const std::int64_t n : {1, 2, 3, 16}) {
        for (const std::int64_t k : {32, 96, 512}) {
          const auto x = make_int8(m, k, extreme);
          const auto w = make_int8(n, k, extreme);
          const Buffer<std::int32_t> start = make_sums(m, n);
          Buffer<std::int32_t> expected = start;
          for (std::int64_t r = 0; r < m; ++r) {
            for (std::int64_t c = 0; c < n; ++c) {
              for (std::int64_t i = 0; i < k; ++i) {
                expected.tile(r, c) += static_cast<int>(x.tile(r, i)) * w.tile(c, i);
              }
            }
          }
          for_each_target([&] {
            Buffer<std::int32_t> sums = start;
            accumulate_int8_products(x, w, sums);
            EXPECT_TRUE(same(sums, expected)) << m << " x " << n << " x " << k;
          });
        }
      }
    }
  }
}

TEST(Int8Test, TheLargestSumsOfAWideModelFit) {
  constexpr std::int64_t kHidden = 7168;
  Buffer<std::int8_t> x(1, kHidden);
  Buffer<std::int8_t> w(1, kHidden);
  for (std::int64_t i = 0; i < kHidden; ++i) x.tile(0, i) = w.tile(0, i) = -127;
  for_each_target([&] {
    Buffer<std::int32_t> sums(1, 1);
    sums.tile(0, 0) = 0;
    accumulate_int8_products(x, w, sums);
    EXPECT_EQ(sums.tile(0, 0), 115612672);
  });
}

TEST(Int8Test, SwigluIsItsFormulaOnEveryTarget) {
  for (const float limit : {0.0f, 10.0f, 0.25f}) {
    const auto gate = make_sums(3, 48);
    const auto up = make_sums(3, 48);
    auto row_scale = make(Values::kNormal, 3, 1, 0.01f);
    row_scale.tile(2, 0) = 0.0f;
    const auto gate_scale = make(Values::kNormal, 1, 48, 0.01f);
    const auto up_scale = make(Values::kNormal, 1, 48, 0.01f);
    Buffer<float> expected(3, 48);
    bool cut = false;
    for (std::int64_t r = 0; r < 3; ++r) {
      for (std::int64_t c = 0; c < 48; ++c) {
        float g = static_cast<float>(gate.tile(r, c)) * row_scale.tile(r, 0);
        g = g * gate_scale.tile(0, c);
        float u = static_cast<float>(up.tile(r, c)) * row_scale.tile(r, 0);
        u = u * up_scale.tile(0, c);
        if (limit > 0) {
          cut |= g > limit && std::abs(u) > limit;
          g = std::min(g, limit);
          u = std::min(std::max(u, -limit), limit);
        }
        const float sigmoid = 1.0f / (1.0f + definition::exp(0.0f - g));
        const float product = g * sigmoid;
        expected.tile(r, c) = product * u;
      }
    }
    EXPECT_EQ(cut, limit > 0) << "the case cuts nothing";
    for_each_target([&] {
      Buffer<float> h(3, 48);
      swiglu(gate, up, row_scale, gate_scale, up_scale, limit, h);
      EXPECT_TRUE(same_bits(h, expected)) << limit;
    });
  }
}

TEST(Int8Test, RowScalesHaveAFloorAndDivide) {
  Buffer<float> x = make(Values::kNormal, 4, 64);
  for (std::int64_t c = 0; c < 64; ++c) {
    x.tile(1, c) = 0.0f;
    x.tile(2, c) = 1e-5f;
  }
  x.tile(3, 63) = -300.0f;
  for_each_target([&] {
    Buffer<float> to(4, 1);
    Buffer<float> from(4, 1);
    row_scales(x, 1e-4f, to, from);
    for (const std::int64_t r : {1, 2}) EXPECT_EQ(to.tile(r, 0), 127.0f / 1e-4f);
    EXPECT_EQ(to.tile(3, 0), 127.0f / 300.0f);
    float largest = 0;
    for (std::int64_t c = 0; c < 64; ++c) largest = std::max(largest, std::abs(x.tile(0, c)));
    EXPECT_EQ(to.tile(0, 0), 127.0f / largest);
    for (std::int64_t r = 0; r < 4; ++r) EXPECT_EQ(from.tile(r, 0), 1.0f / to.tile(r, 0));
  });
}

TEST(Int8Test, DequantizeRoundsTheProductsInOrder) {
  const auto sums = make_sums(3, 64);
  const auto row_scale = make(Values::kNormal, 3, 1);
  const auto col_scale = make(Values::kNormal, 1, 64);
  Buffer<BFloat16> expected(3, 64);
  for (std::int64_t r = 0; r < 3; ++r) {
    for (std::int64_t c = 0; c < 64; ++c) {
      const float value = static_cast<float>(sums.tile(r, c)) * row_scale.tile(r, 0);
      expected.tile(r, c) = definition::nearest_bfloat16(value * col_scale.tile(0, c));
    }
  }
  for_each_target([&] {
    Buffer<BFloat16> y(3, 64);
    dequantize(sums, row_scale, col_scale, y);
    EXPECT_TRUE(same_bits(y, expected));
  });
}

TEST(Int8Test, AddRowsAddsInOrderAndRoundsOnce) {
  for (const std::int64_t rows : {0, 1, 6}) {
    const auto first = make<BFloat16>(Values::kNormal, 1, 64);
    const auto added = make<BFloat16>(Values::kNormal, rows, 64, 100.0f);
    Buffer<BFloat16> expected(1, 64);
    for (std::int64_t c = 0; c < 64; ++c) {
      float sum = static_cast<float>(first.tile(0, c));
      for (std::int64_t r = 0; r < rows; ++r) sum = sum + static_cast<float>(added.tile(r, c));
      expected.tile(0, c) = definition::nearest_bfloat16(sum);
    }
    for_each_target([&] {
      Buffer<BFloat16> y(1, 64);
      add_rows(first, added, y);
      EXPECT_TRUE(same_bits(y, expected));
    });
  }
}

TEST(Int8DeathTest, ShapesAreChecked) {
  Buffer<std::int8_t> x(2, 48);
  Buffer<std::int8_t> w(2, 48);
  Buffer<std::int32_t> sums(2, 2);
  EXPECT_DEATH(accumulate_int8_products(x, w, sums),
               "accumulate_int8_products: x has 48 columns, expected a multiple of 32");
  Buffer<std::int8_t> narrow(2, 32);
  Buffer<std::int8_t> wide(2, 64);
  EXPECT_DEATH(accumulate_int8_products(narrow, wide, sums),
               R"(accumulate_int8_products: w is \[2, 64\], expected \[2, 32\])");
}

}  // namespace
}  // namespace cohort::simd
