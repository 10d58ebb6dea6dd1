#include "cohort/simd/simd.h"

#include <stdexcept>
#include <string>

#include "contract.h"
#include "definition.h"
#include "row_kernels.h"
#include "test_support.h"

namespace cohort::simd {
namespace {

namespace kernels = HWY_NAMESPACE::kernels;

constexpr std::int64_t kRows[] = {1, 2, 3, 8, 17};
constexpr std::int64_t kCols[] = {16, 32, 48, 528, 1040};

template <class S>
class StreamTest : public testing::Test {};
using Streams = testing::Types<float, BFloat16>;
TYPED_TEST_SUITE(StreamTest, Streams);

TYPED_TEST(StreamTest, SumsOfSquaresAreTheDefinitionsOnEveryTarget) {
  using S = TypeParam;
  for (const Values kind : kAllValues) {
    for (const std::int64_t cols : kCols) {
      const Buffer<S> x = make<S>(kind, 8, cols);
      const Buffer<float> start = make(Values::kNormal, 8, 1);
      Buffer<float> expected = start;
      definition::add_sums_of_squares<S>(x, expected);
      for_each_target([&] {
        Buffer<float> actual = start;
        add_sums_of_squares(x, actual);
        EXPECT_TRUE(same_bits(actual, expected)) << cols;
      });
    }
  }
  Buffer<float> sums(3, 1);
  kernels::add_sums_of_squares<CountingVec, S>(make<S>(Values::kNormal, 3, 48), sums);
  expect_counts(sums_of_squares_work<S>(3, 48));
}

TYPED_TEST(StreamTest, ProductsAreTheDefinitionsOnEveryTargetForEveryBlockShape) {
  using S = TypeParam;
  for (const std::int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 16, 17}) {
    for (const std::int64_t n : {1, 2, 3, 4, 5, 6, 7, 16, 24, 25}) {
      for (const std::int64_t k : {16, 48, 528}) {
        const Values kind = n == 5 ? Values::kAwkward : Values::kNormal;
        const Buffer<S> x = make<S>(kind, m, k);
        const Buffer<float> w = make(kind, n, k), start = make(Values::kNormal, m, 16 * n);
        Buffer<float> expected = start;
        definition::accumulate_products<S>(x, w, expected);
        for_each_target([&] {
          Buffer<float> actual = start;
          accumulate_products(x, w, actual);
          EXPECT_TRUE(same_bits(actual, expected)) << m << " " << n << " " << k;
        });
      }
    }
  }
  Buffer<float> partials(17, 16 * 24);
  kernels::accumulate_products<CountingVec, S>(make<S>(Values::kNormal, 17, 528),
                                               make(Values::kNormal, 24, 528), partials);
  expect_counts(products_work<S>(17, 24, 528));
}

// The blocks of a target with 32 registers, which this machine may not have.
struct WideBlocks : ScalarVec {
  static constexpr int kBlockColumns = 6;
};

TYPED_TEST(StreamTest, ProductsOfWideBlocksAreTheDefinitions) {
  using S = TypeParam;
  for (const std::int64_t m : {1, 2, 3, 8}) {
    for (const std::int64_t n : {1, 2, 3, 4, 5, 6, 7, 16, 24}) {
      const Buffer<S> x = make<S>(Values::kNormal, m, 32);
      const Buffer<float> w = make(Values::kNormal, n, 32);
      const Buffer<float> start = make(Values::kNormal, m, 16 * n);
      Buffer<float> expected = start, actual = start;
      definition::accumulate_products<S>(x, w, expected);
      kernels::accumulate_products<WideBlocks, S>(x, w, actual);
      EXPECT_TRUE(same_bits(actual, expected)) << m << " " << n;
    }
  }
}

TYPED_TEST(StreamTest, ProductsContinueOverRangesOfK) {
  using S = TypeParam;
  const Buffer<S> x = make<S>(Values::kNormal, 8, 2080);
  const Buffer<float> w = make(Values::kNormal, 24, 2080);
  Buffer<float> expected = make(Values::kNormal, 8, 16 * 24);
  const Buffer<float> start = expected;
  definition::accumulate_products<S>(x, w, expected);
  for_each_target([&] {
    for (const std::int64_t range : {16, 256, 512, 1024, 2080}) {
      Buffer<float> actual = start;
      for (std::int64_t k = 0; k < 2080; k += range) {
        const std::int64_t count = std::min<std::int64_t>(range, 2080 - k);
        accumulate_products(Tile<const S>(x).columns(k, count),
                            Tile<const float>(w).columns(k, count), actual);
      }
      EXPECT_TRUE(same_bits(actual, expected)) << range;
    }
  });
}

TYPED_TEST(StreamTest, Mix4IsTheDefinitionsOnEveryTarget) {
  using S = TypeParam;
  for (const Values kind : kAllValues) {
    for (const std::int64_t rows : kRows) {
      for (const std::int64_t cols : kCols) {
        const Buffer<float> pre = make(kind, rows, 8);
        const Buffer<S> x0 = make<S>(kind, rows, cols), x1 = make<S>(kind, rows, cols);
        const Buffer<S> x2 = make<S>(kind, rows, cols), x3 = make<S>(kind, rows, cols);
        Buffer<BFloat16> expected(rows, cols);
        definition::mix4<S>(pre, x0, x1, x2, x3, expected);
        for_each_target([&] {
          Buffer<BFloat16> actual(rows, cols);
          mix4(pre, x0, x1, x2, x3, actual);
          EXPECT_TRUE(same_bits(actual, expected)) << rows << " " << cols;
        });
      }
    }
  }
  const Buffer<S> x = make<S>(Values::kNormal, 3, 48);
  Buffer<BFloat16> y(3, 48);
  kernels::mix4<CountingVec, S>(make(Values::kNormal, 3, 8), x, x, x, x, y);
  expect_counts(mix4_work<S>(3, 48));
}

TYPED_TEST(StreamTest, PostMixIsTheDefinitionsOnEveryTarget) {
  using S = TypeParam;
  for (const Values kind : kAllValues) {
    for (const std::int64_t rows : kRows) {
      for (const std::int64_t cols : kCols) {
        const Buffer<BFloat16> x = make<BFloat16>(kind, rows, cols);
        const Buffer<float> gates = make(kind, rows, 5);
        const Buffer<S> r0 = make<S>(kind, rows, cols), r1 = make<S>(kind, rows, cols);
        const Buffer<S> r2 = make<S>(kind, rows, cols), r3 = make<S>(kind, rows, cols);
        const std::array<Tile<const S>, 4> residual = {r0, r1, r2, r3};
        Buffer<S> expected(rows, cols);
        definition::post_mix<S>(x, residual, gates, expected);
        for_each_target([&] {
          Buffer<S> actual(rows, cols);
          post_mix(x, residual, gates, actual);
          EXPECT_TRUE(same_bits(actual, expected)) << rows << " " << cols;
        });
      }
    }
  }
  const Buffer<S> r = make<S>(Values::kNormal, 3, 48);
  Buffer<S> y(3, 48);
  kernels::post_mix<CountingVec, S>(make<BFloat16>(Values::kNormal, 3, 48), {r, r, r, r},
                                    make(Values::kNormal, 3, 5), y);
  expect_counts(post_mix_work<S>(3, 48));
}

TEST(SimdTest, ReducedProductsAreTheTreeOnEveryTarget) {
  for (const Values kind : kAllValues) {
    const Buffer<float> partials = make(kind, 5, 16 * 24);
    Buffer<float> expected(5, 24);
    definition::reduce_products(partials, expected);
    for_each_target([&] {
      Buffer<float> actual(5, 24);
      reduce_products(partials, actual);
      EXPECT_TRUE(same_bits(actual, expected));
    });
  }
  Buffer<float> out(5, 24);
  kernels::reduce_products<CountingVec>(make(Values::kNormal, 5, 16 * 24), out);
  expect_counts(reduce_products_work(5, 24));
}

TEST(SimdTest, Add4AddsInOrderOnEveryTarget) {
  for (const Values kind : kAllValues) {
    for (const std::int64_t cols : kCols) {
      const Buffer<float> a = make(kind, 4, cols), b = make(kind, 4, cols);
      const Buffer<float> c = make(kind, 4, cols), d = make(kind, 4, cols);
      Buffer<float> expected(4, cols);
      definition::add4(a, b, c, d, expected);
      for_each_target([&] {
        Buffer<float> actual(4, cols);
        add4(a, b, c, d, actual);
        EXPECT_TRUE(same_bits(actual, expected)) << cols;
      });
    }
  }
  const Buffer<float> x = make(Values::kNormal, 4, 32);
  Buffer<float> out(4, 32);
  kernels::add4<CountingVec>(x, x, x, x, out);
  expect_counts(add4_work(4, 32));
}

TEST(SimdTest, SplitGatesAreTheDefinitionsOnEveryTarget) {
  for (const Values kind : kAllValues) {
    for (const std::int64_t rows : kRows) {
      for (const float scale : {1.0f, 40.0f, 1e6f}) {
        const Buffer<float> mixes = make(kind, rows, 32, scale);
        const Buffer<float> inv = make(Values::kNormal, rows, 1), base = make(kind, 1, 24);
        Buffer<float> pre(rows, 8), post(rows, 4);
        definition::split_gates(mixes, inv, base, 0.1f, 0.2f, 1e-6f, pre, post);
        for_each_target([&] {
          Buffer<float> actual_pre(rows, 8), actual_post(rows, 4);
          split_gates(mixes, inv, base, 0.1f, 0.2f, 1e-6f, actual_pre, actual_post);
          EXPECT_TRUE(same_bits(actual_pre, pre)) << rows;
          EXPECT_TRUE(same_bits(actual_post, post)) << rows;
        });
      }
    }
  }
  const Buffer<float> mixes = make(Values::kNormal, 5, 32), inv = make(Values::kNormal, 5, 1);
  Buffer<float> pre(5, 8), post(5, 4);
  kernels::split_gates<CountingVec>(mixes, inv, make(Values::kNormal, 1, 24), 0.1f, 0.2f, 1e-6f,
                                    pre, post);
  expect_counts(split_gates_work(5));
}

TEST(SimdTest, ScaleByGammaIsTheDefinitionsOnEveryTarget) {
  for (const std::int64_t cols : {128, 256, 1152, 4096}) {
    // Row 0 is zero: its amax is the floor. Row 1 has the largest magnitude in its last column.
    Buffer<BFloat16> x = make<BFloat16>(Values::kNormal, 3, cols);
    for (std::int64_t c = 0; c < cols; ++c) x.tile(0, c) = BFloat16(c % 2 == 0 ? 0.0f : -0.0f);
    x.tile(1, cols - 1) = BFloat16(-1000.0f);
    x.tile(2, 1) = BFloat16(1e-40f);
    const Buffer<BFloat16> gamma = make<BFloat16>(Values::kNormal, 1, cols);
    Buffer<float> xg(3, cols), sums(3, 1), amax(3, 1);
    definition::scale_by_gamma(x, gamma, 1e-4f, xg, sums, amax);
    for_each_target([&] {
      Buffer<float> actual_xg(3, cols), actual_sums(3, 1), actual_amax(3, 1);
      scale_by_gamma(x, gamma, 1e-4f, actual_xg, actual_sums, actual_amax);
      EXPECT_TRUE(same_bits(actual_xg, xg)) << cols;
      EXPECT_TRUE(same_bits(actual_sums, sums)) << cols;
      EXPECT_TRUE(same_bits(actual_amax, amax)) << cols;
      EXPECT_EQ(actual_amax.tile(0, 0), 1e-4f);
    });
  }
  Buffer<float> xg(3, 256), sums(3, 1), amax(3, 1);
  kernels::scale_by_gamma<CountingVec>(make<BFloat16>(Values::kNormal, 3, 256),
                                       make<BFloat16>(Values::kNormal, 1, 256), 1e-4f, xg, sums,
                                       amax);
  expect_counts(scale_by_gamma_work(3, 256));
}

TEST(SimdTest, QuantizeRoundsTiesToEvenOnEveryTarget) {
  for (const std::int64_t rows : kRows) {
    for (const std::int64_t cols : kCols) {
      Buffer<float> x = make(Values::kNormal, rows, cols, 20.0f);
      for (std::int64_t c = 0; c < cols; ++c) {  // Ties over the whole range, zeros, denormals.
        x.tile(rows - 1, c) = static_cast<float>(c % 254 - 127) + (c % 254 == 253 ? 0.0f : 0.5f);
      }
      x.tile(0, 0) = -0.0f;
      x.tile(0, 1) = 1e-40f;
      Buffer<float> scale(rows, 1);
      for (std::int64_t r = 0; r < rows; ++r) scale.tile(r, 0) = r == rows - 1 ? 1.0f : 0.7f;
      Buffer<std::int8_t> expected(rows, cols);
      definition::quantize(x, scale, expected);
      for_each_target([&] {
        Buffer<std::int8_t> actual(rows, cols);
        quantize(x, scale, actual);
        EXPECT_TRUE(same_bits(actual, expected)) << rows << " " << cols;
      });
    }
  }
  Buffer<std::int8_t> q(3, 64);
  kernels::quantize<CountingVec>(make(Values::kNormal, 3, 64), make(Values::kNormal, 3, 1), q);
  expect_counts(quantize_work(3, 64));
}

// Every product of the largest magnitude and its own scale stays within 127.
TEST(SimdTest, QuantizeByTheScaleOfTheRowNeverLeavesTheRange) {
  Buffer<float> x(1, 1040), scale(1, 1);
  Buffer<std::int8_t> q(1, 1040);
  for (std::int64_t i = 0; i < 2000; ++i) {
    const float amax = 1e-4f * std::exp2(static_cast<float>(i) * 0.01f);
    for (std::int64_t c = 0; c < x.tile.cols; ++c) x.tile(0, c) = c % 2 == 0 ? amax : -amax;
    scale.tile(0, 0) = 127.0f / amax;
    quantize(x, scale, q);
    ASSERT_EQ(q.tile(0, 0), 127);
    ASSERT_EQ(q.tile(0, 1), -127);
  }
}

TEST(SimdTest, SinkhornIsTheDefinitionsOnEveryTarget) {
  for (const std::int64_t rows : {1, 2, 8, 15, 16}) {
    for (const float spread : {0.01f, 1.0f, 8.0f, 200.0f}) {
      for (const std::int64_t iterations : {1, 2, 20}) {
        const Buffer<float> mixes = make(Values::kNormal, rows, 32, spread);
        const Buffer<float> inv = make(Values::kNormal, rows, 1);
        const Buffer<float> base = make(Values::kNormal, 1, 24);
        Buffer<float> expected(rows, 16);
        definition::sinkhorn(mixes, inv, base, 0.3f, 1e-6f, iterations, expected);
        for_each_target([&] {
          Buffer<float> actual(rows, 16);
          sinkhorn(mixes, inv, base, 0.3f, 1e-6f, iterations, actual);
          EXPECT_TRUE(same_bits(actual, expected)) << rows << " " << spread;
        });
        if (iterations < 20 || spread > 1.0f) continue;
        for (int j = 0; j < 4; ++j) {
          float column = 0;
          for (int i = 0; i < 4; ++i) column += expected.tile(0, 4 * i + j);
          EXPECT_NEAR(column, 1.0f, 1e-5f);
        }
      }
    }
  }
  Buffer<float> comb(8, 16);
  kernels::sinkhorn<CountingVec>(make(Values::kNormal, 8, 32), make(Values::kNormal, 8, 1),
                                 make(Values::kNormal, 1, 24), 0.3f, 1e-6f, 20, comb);
  expect_counts(sinkhorn_work(20));
}

TEST(SimdTest, RouterScoresAreTheDefinitionsOnEveryTarget) {
  for (const Values kind : kAllValues) {
    for (const std::int64_t rows : kRows) {
      for (const std::int64_t cols : {16, 48, 256}) {
        const Buffer<float> raw = make(kind, rows, cols, 30.0f), bias = make(kind, 1, cols);
        const Buffer<float> inv = make(Values::kNormal, rows, 1);
        for (const bool sorted : {false, true}) {
          Buffer<float> scores(rows, cols), keys(rows, cols);
          const auto keys_of = [&](Buffer<float>& b) { return sorted ? b.tile : Tile<float>{}; };
          definition::router_scores(raw, inv, bias, scores, keys_of(keys));
          for_each_target([&] {
            Buffer<float> actual_scores(rows, cols), actual_keys(rows, cols);
            router_scores(raw, inv, bias, actual_scores, keys_of(actual_keys));
            EXPECT_TRUE(same_bits(actual_scores, scores)) << rows << " " << cols;
            EXPECT_TRUE(same_bits(actual_keys, keys)) << rows << " " << cols;
          });
        }
      }
    }
  }
  Buffer<float> scores(4, 64), keys(4, 64);
  kernels::router_scores<CountingVec>(make(Values::kNormal, 4, 64), make(Values::kNormal, 4, 1),
                                      make(Values::kNormal, 1, 64), scores, keys);
  expect_counts(router_scores_work(4, 64));
}

TEST(SimdTest, InverseRmsAndNormScalesRoundEveryStep) {
  Buffer<float> sums = make(Values::kNormal, 64, 1), amax(64, 1);
  for (std::int64_t r = 0; r < 64; ++r) {
    sums.tile(r, 0) = r == 0 ? 0.0f : std::abs(sums.tile(r, 0)) * 4096.0f;
    amax.tile(r, 0) = 1e-4f + std::abs(sums.tile(r, 0));
  }
  Buffer<float> inv(64, 1), xn_scale(64, 1), x_norm_scale(64, 1);
  definition::norm_scales(sums, amax, 1.0f / 7168, 1e-6f, inv, xn_scale, x_norm_scale);
  Buffer<float> actual_inv(64, 1), actual_xn(64, 1), actual_scale(64, 1), rms(64, 1);
  norm_scales(sums, amax, 1.0f / 7168, 1e-6f, actual_inv, actual_xn, actual_scale);
  inverse_rms(sums, 1.0f / 7168, 1e-6f, rms);
  EXPECT_TRUE(same_bits(actual_inv, inv));
  EXPECT_TRUE(same_bits(rms, inv));
  EXPECT_TRUE(same_bits(actual_xn, xn_scale));
  EXPECT_TRUE(same_bits(actual_scale, x_norm_scale));

  rows::inverse_rms<CountingFloat>(sums, 1.0f / 7168, 1e-6f, inv);
  expect_counts(inverse_rms_work(64));
  rows::norm_scales<CountingFloat>(sums, amax, 1.0f / 7168, 1e-6f, inv, xn_scale, x_norm_scale);
  expect_counts(norm_scales_work(64));
}

TEST(SimdTest, TopKIsDescendingAndTiesGoToTheSmallerId) {
  Random random(5);
  for (int n = 0; n < 2000; ++n) {
    const std::int64_t k = 1 + static_cast<std::int64_t>(random.next_below(8));
    const std::int64_t count = k + static_cast<std::int64_t>(random.next_below(40));
    Buffer<float> keys(3, count);
    for (std::int64_t i = 0; i < 3 * count; ++i) {
      keys.tile(i / count, i % count) = static_cast<float>(random.next_below(8)) - 4;  // Many ties.
    }
    for (std::int64_t i = count / 2; i < count; ++i) {
      keys.tile(2, i) = std::numeric_limits<float>::lowest();  // Experts that don't exist.
    }
    Buffer<std::int32_t> ids(3, k), expected(3, k);
    top_k(keys, ids);
    definition::top_k(keys, expected);
    ASSERT_EQ(ids.values, expected.values);
  }
}

TEST(SimdTest, RouteWeightsAreNormalisedInTheOrderOfTheIds) {
  const Buffer<float> scores = make(Values::kNormal, 5, 64);
  Buffer<float> weights(5, 6);
  Buffer<std::int32_t> ids(5, 6);
  for (std::int32_t i = 0; i < 30; ++i) ids.tile(i / 6, i % 6) = (7 * i + 3) % 64;
  route_weights(scores, ids, 1.5f, weights);
  for (std::int64_t r = 0; r < 5; ++r) {
    float sum = 0.0f;
    for (std::int64_t j = 0; j < 6; ++j) sum += scores.tile(r, ids.tile(r, j));
    for (std::int64_t j = 0; j < 6; ++j) {
      EXPECT_EQ(weights.tile(r, j), (scores.tile(r, ids.tile(r, j)) / sum) * 1.5f);
    }
  }
  rows::route_weights<CountingFloat>(scores, ids, 1.5f, weights);
  expect_counts(route_weights_work(5, 6));
}

TEST(SimdTest, FillWritesEveryElementAndNoOther) {
  Buffer<float> y(3, 20);
  fill(y.tile, -0.0f);
  for (std::size_t i = 0; i < y.values.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(y.values[i]),
              std::bit_cast<std::uint32_t>(i % 36 < 20 ? -0.0f : 42.0f));
  }
  EXPECT_EQ(fill_work(3, 20)[0], (WorkItem{Operation::kCopy, 60}));
}

TEST(SimdTest, EmptyTilesAreLegal) {
  for_each_target([] {
    const Tile<const float> none{nullptr, 0, 32, 32};
    add_sums_of_squares(none, {nullptr, 0, 1, 1});
    Buffer<float> partials = make(Values::kNormal, 4, 32);
    const Buffer<float> before = partials;
    accumulate_products(Tile<const float>{nullptr, 4, 0, 0}, Tile<const float>{nullptr, 2, 0, 0},
                        partials);
    EXPECT_TRUE(same_bits(partials, before));
  });
}

// What `f` says when it breaks a contract, after "file:line: ".
std::string broken(const std::function<void()>& f) {
  const CheckHandler before =
      set_check_handler([](const std::string& message) { throw std::runtime_error(message); });
  std::string text = "no check failed";
  try {
    f();
  } catch (const std::runtime_error& e) {
    text = e.what();
  }
  set_check_handler(before);
  return text;
}

void expect_broken(const std::string& text, const std::function<void()>& f) {
  const std::string actual = broken(f);
  EXPECT_TRUE(actual.ends_with(text)) << actual;
}

TEST(SimdTest, BrokenContractsNameTheOperandAndBothShapes) {
  Buffer<float> a(8, 32), b(8, 24), one(8, 1), row(1, 32);
  Buffer<BFloat16> y(8, 32), narrow(8, 24);
  expect_broken("mix4: x2 is [8, 24], expected [8, 32]",
                [&] { mix4(Tile<const float>(a), a, a, b, a, y); });
  expect_broken("mix4: y has 24 columns, expected a multiple of 16",
                [&] { mix4(Tile<const float>(a), b, b, b, b, narrow); });
  expect_broken("mix4: pre is [8, 1], expected [8, 4] or more columns",
                [&] { mix4(Tile<const float>(one), a, a, a, a, y); });
  expect_broken("accumulate_products: partials is [8, 32], expected [8, 128]",
                [&] { accumulate_products(Tile<const float>(a), a, a); });
  expect_broken("scale_by_gamma: x has 32 columns, expected a multiple of 128",
                [&] { scale_by_gamma(y, y, 1e-4f, a, one, one); });
  expect_broken("sinkhorn: comb has 17 rows, expected at most 16", [&] {
    Buffer<float> mixes(17, 32), inv(17, 1), comb(17, 16);
    sinkhorn(mixes, inv, row, 1.0f, 1e-6f, 20, comb);
  });
  Buffer<std::int32_t> ids(8, 9);
  expect_broken("top_k: asked for 9 ids a row, expected 1 to 8", [&] { top_k(a, ids); });
  Buffer<std::int32_t> foreign(8, 2);
  for (auto& id : foreign.values) id = 32;
  expect_broken("route_weights: ids(0, 0) is 32, expected 0 to 31", [&] {
    Buffer<float> weights(8, 2);
    route_weights(a, foreign, 1.0f, weights);
  });
}

TEST(SimdTest, ThisCpuIsSupported) {
  EXPECT_TRUE(check_cpu());
  EXPECT_TRUE(std::string(target_name()) == "AVX2" || std::string(target_name()) == "AVX3");
}

TEST(SimdTest, ACpuWithoutAvx2IsRefused) {
  hwy::SetSupportedTargetsForTest(HWY_STATIC_TARGET);
  const Status status = check_cpu();
  const std::string target = target_name();
  hwy::SetSupportedTargetsForTest(0);
  if ((HWY_STATIC_TARGET & (HWY_AVX2 | HWY_AVX3)) != 0) GTEST_SKIP() << "compiled for AVX2 only";
  EXPECT_EQ(target, "scalar");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message,
            "this CPU has no AVX2 with FMA, which Cohort's arithmetic needs: below it a fused "
            "multiply-add takes a call to the mathematics library");
}

}  // namespace
}  // namespace cohort::simd
