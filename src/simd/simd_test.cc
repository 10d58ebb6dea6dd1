#include "cohort/simd/simd.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include "cohort/base/random.h"

#include "scalar_vec.h"

namespace cohort::simd {
namespace {

namespace reference = HWY_NAMESPACE::kernels;

// A tile with its memory: rows a little apart, so that a pitch that is ignored shows.
template <class T>
struct Buffer {
  Buffer(std::int64_t rows, std::int64_t cols)
      : values(static_cast<std::size_t>(rows * (cols + 16))),
        tile{values.data(), rows, cols, cols + 16} {}
  Buffer(const Buffer& other) : values(other.values), tile(other.tile) {
    tile.data = values.data();
  }
  operator Tile<const T>() const { return tile; }
  bool same_bits(const Buffer& other) const {
    return std::memcmp(values.data(), other.values.data(), values.size() * sizeof(T)) == 0;
  }
  std::vector<T> values;
  Tile<T> tile;
};

std::uint64_t g_stream = 0;

Buffer<float> normal(std::int64_t rows, std::int64_t cols, float scale = 1.0f) {
  Buffer<float> b(rows, cols);
  const Random random(42, ++g_stream);
  for (std::size_t i = 0; i < b.values.size(); ++i) {
    b.values[i] = scale * static_cast<float>(random.normal(i));
  }
  return b;
}

Buffer<BFloat16> normal_bf16(std::int64_t rows, std::int64_t cols) {
  const Buffer<float> f = normal(rows, cols);
  Buffer<BFloat16> b(rows, cols);
  for (std::size_t i = 0; i < b.values.size(); ++i) b.values[i] = BFloat16(f.values[i]);
  return b;
}

template <class S>
Buffer<S> normal_of(std::int64_t rows, std::int64_t cols) {
  if constexpr (std::is_same_v<S, float>) {
    return normal(rows, cols);
  } else {
    return normal_bf16(rows, cols);
  }
}

// Values that a vector unit might treat differently from the definition.
Buffer<float> awkward(std::int64_t rows, std::int64_t cols) {
  const float inf = std::numeric_limits<float>::infinity();
  const float values[] = {0.0f,   -0.0f,  1.0f,  -1.0f,   1e-40f, -1e-40f, 3e38f,
                          -3e38f, inf,    -inf,  0.5f,    1.5f,   2.5f,    1.00390625f,
                          87.0f,  -87.0f, 89.5f, -103.5f, -120.0f};
  Buffer<float> b(rows, cols);
  for (std::size_t i = 0; i < b.values.size(); ++i) b.values[i] = values[i % std::size(values)];
  return b;
}

// Runs `f` once for every target that this CPU can run and the library holds.
void for_each_target(const std::function<void()>& f) {
  int targets = 0;
  for (const std::int64_t target : {HWY_AVX2, HWY_AVX3}) {
    if ((hwy::SupportedTargets() & target) == 0) continue;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    f();
    hwy::SetSupportedTargetsForTest(0);
    ++targets;
  }
  ASSERT_GT(targets, 0) << "no target ran: the test would prove nothing";
}

template <class Work>
void expect_counts(const Work& work, std::initializer_list<Operation> ignored = {}) {
  std::array<std::int64_t, kOperations> listed = {};
  for (const WorkItem& item : work)
    listed[static_cast<std::size_t>(item.operation)] += item.elements;
  for (const Operation o : ignored) {
    listed[static_cast<std::size_t>(o)] = CountingVec::counts[static_cast<std::size_t>(o)] = 0;
  }
  for (std::size_t o = 0; o < kOperations; ++o) {
    EXPECT_EQ(listed[o], CountingVec::counts[o]) << name(static_cast<Operation>(o));
  }
  CountingVec::counts = {};
}

template <class S>
class StreamTest : public testing::Test {};
using Streams = testing::Types<float, BFloat16>;
TYPED_TEST_SUITE(StreamTest, Streams);

TYPED_TEST(StreamTest, SumsOfSquares) {
  using S = TypeParam;
  for (const std::int64_t cols : {16, 48, 512}) {
    const Buffer<S> x = normal_of<S>(8, cols);
    Buffer<float> expected = normal(8, 1);
    const Buffer<float> start = expected;
    reference::add_sums_of_squares<ScalarVec, S>(x, expected.tile);
    for_each_target([&] {
      Buffer<float> actual = start;
      add_sums_of_squares(x, actual.tile);
      EXPECT_TRUE(actual.same_bits(expected));
    });
    reference::add_sums_of_squares<CountingVec, S>(x, expected.tile);
    expect_counts(sums_of_squares_work<S>(8, cols));
  }
}

TYPED_TEST(StreamTest, ProductsContinueOverRangesOfK) {
  using S = TypeParam;
  for (const std::int64_t m : {1, 2, 7, 16}) {
    for (const std::int64_t n : {1, 16, 24}) {
      const Buffer<S> x = normal_of<S>(m, 96);
      const Buffer<float> w = normal(n, 96);
      Buffer<float> expected(m, 16 * n);
      reference::accumulate_products<ScalarVec, S>(x, w, expected.tile);
      for_each_target([&] {
        Buffer<float> actual(m, 16 * n);
        const Tile<const S> xt = x;
        const Tile<const float> wt = w;
        accumulate_products(xt.columns(0, 32), wt.columns(0, 32), actual.tile);
        accumulate_products(xt.columns(32, 64), wt.columns(32, 64), actual.tile);
        EXPECT_TRUE(actual.same_bits(expected)) << m << " " << n;
      });
      // The definition, spelled out for one element.
      float partials[16] = {};
      for (int k = 0; k < 96; ++k) {
        const auto a = static_cast<float>(x.tile(m - 1, k));
        partials[k % 16] = std::fma(a, w.tile(n - 1, k), partials[k % 16]);
      }
      for (int j = 0; j < 16; ++j) EXPECT_EQ(expected.tile(m - 1, 16 * (n - 1) + j), partials[j]);
      reference::accumulate_products<CountingVec, S>(x, w, expected.tile);
      // A device widens x once; the host does so for every block of columns.
      expect_counts(products_work<S>(m, n, 96), {Operation::kCast});
    }
  }
}

TYPED_TEST(StreamTest, Mix4) {
  using S = TypeParam;
  const Buffer<float> pre = normal(8, 8);
  const Buffer<S> x0 = normal_of<S>(8, 64), x1 = normal_of<S>(8, 64);
  const Buffer<S> x2 = normal_of<S>(8, 64), x3 = normal_of<S>(8, 64);
  Buffer<BFloat16> expected(8, 64);
  reference::mix4<ScalarVec, S>(pre, x0, x1, x2, x3, expected.tile);
  for_each_target([&] {
    Buffer<BFloat16> actual(8, 64);
    mix4(pre, x0, x1, x2, x3, actual.tile);
    EXPECT_TRUE(actual.same_bits(expected));
  });
  reference::mix4<CountingVec, S>(pre, x0, x1, x2, x3, expected.tile);
  expect_counts(mix4_work<S>(8, 64));
}

TYPED_TEST(StreamTest, PostMix) {
  using S = TypeParam;
  const Buffer<BFloat16> x = normal_bf16(4, 64);
  const Buffer<float> gates = normal(4, 5);
  const Buffer<S> r0 = normal_of<S>(4, 64), r1 = normal_of<S>(4, 64);
  const Buffer<S> r2 = normal_of<S>(4, 64), r3 = normal_of<S>(4, 64);
  const std::array<Tile<const S>, 4> residual = {r0, r1, r2, r3};
  Buffer<S> expected(4, 64);
  reference::post_mix<ScalarVec, S>(x, residual, gates, expected.tile);
  for_each_target([&] {
    Buffer<S> actual(4, 64);
    post_mix(x, residual, gates, actual.tile);
    EXPECT_TRUE(actual.same_bits(expected));
  });
  reference::post_mix<CountingVec, S>(x, residual, gates, expected.tile);
  expect_counts(post_mix_work<S>(4, 64));
}

TEST(SimdTest, ReduceProducts) {
  const Buffer<float> partials = normal(5, 16 * 24);
  Buffer<float> expected(5, 24);
  reference::reduce_products<ScalarVec>(partials, expected.tile);
  for_each_target([&] {
    Buffer<float> actual(5, 24);
    reduce_products(partials, actual.tile);
    EXPECT_TRUE(actual.same_bits(expected));
  });
  reference::reduce_products<CountingVec>(partials, expected.tile);
  expect_counts(reduce_products_work(5, 24));
}

TEST(SimdTest, Add4) {
  const Buffer<float> a = normal(4, 32), b = normal(4, 32), c = normal(4, 32), d = normal(4, 32);
  Buffer<float> expected(4, 32);
  reference::add4<ScalarVec>(a, b, c, d, expected.tile);
  for_each_target([&] {
    Buffer<float> actual(4, 32);
    add4(a, b, c, d, actual.tile);
    EXPECT_TRUE(actual.same_bits(expected));
  });
  reference::add4<CountingVec>(a, b, c, d, expected.tile);
  expect_counts(add4_work(4, 32));
}

TEST(SimdTest, SplitGates) {
  for (const float scale : {1.0f, 40.0f, 1e6f}) {
    const Buffer<float> mixes = normal(8, 32, scale);
    const Buffer<float> inv = normal(8, 1), base = normal(1, 24);
    Buffer<float> pre(8, 8), post(8, 4);
    reference::split_gates<ScalarVec>(mixes, inv, base, 0.1f, 0.2f, 1e-6f, pre.tile, post.tile);
    for_each_target([&] {
      Buffer<float> actual_pre(8, 8), actual_post(8, 4);
      split_gates(mixes, inv, base, 0.1f, 0.2f, 1e-6f, actual_pre.tile, actual_post.tile);
      EXPECT_TRUE(actual_pre.same_bits(pre));
      EXPECT_TRUE(actual_post.same_bits(post));
    });
    reference::split_gates<CountingVec>(mixes, inv, base, 0.1f, 0.2f, 1e-6f, pre.tile, post.tile);
    expect_counts(split_gates_work(8));
  }
}

TEST(SimdTest, ScaleByGamma) {
  const Buffer<BFloat16> x = normal_bf16(3, 256), gamma = normal_bf16(1, 256);
  Buffer<float> xg(3, 256), sums(3, 1), amax(3, 1);
  reference::scale_by_gamma<ScalarVec>(x, gamma, 1e-4f, xg.tile, sums.tile, amax.tile);
  for_each_target([&] {
    Buffer<float> actual_xg(3, 256), actual_sums(3, 1), actual_amax(3, 1);
    scale_by_gamma(x, gamma, 1e-4f, actual_xg.tile, actual_sums.tile, actual_amax.tile);
    EXPECT_TRUE(actual_xg.same_bits(xg));
    EXPECT_TRUE(actual_sums.same_bits(sums));
    EXPECT_TRUE(actual_amax.same_bits(amax));
  });
  reference::scale_by_gamma<CountingVec>(x, gamma, 1e-4f, xg.tile, sums.tile, amax.tile);
  expect_counts(scale_by_gamma_work(3, 256));
}

TEST(SimdTest, Quantize) {
  Buffer<float> x = normal(3, 64, 20.0f);
  for (int c = 0; c < 64; ++c) x.tile(2, c) = static_cast<float>(c - 32) + 0.5f;  // Ties.
  Buffer<float> scale(3, 1);
  scale.tile(0, 0) = 0.5f;
  scale.tile(1, 0) = scale.tile(2, 0) = 1.0f;
  Buffer<std::int8_t> expected(3, 64);
  reference::quantize<ScalarVec>(x, scale, expected.tile);
  for_each_target([&] {
    Buffer<std::int8_t> actual(3, 64);
    quantize(x, scale, actual.tile);
    EXPECT_TRUE(actual.same_bits(expected));
    EXPECT_EQ(actual.tile(2, 32), 0);   // 0.5
    EXPECT_EQ(actual.tile(2, 33), 2);   // 1.5
    EXPECT_EQ(actual.tile(2, 30), -2);  // -1.5
  });
  reference::quantize<CountingVec>(x, scale, expected.tile);
  expect_counts(quantize_work(3, 64));
}

TEST(SimdTest, Sinkhorn) {
  for (const std::int64_t rows : {1, 8, 16}) {
    const Buffer<float> mixes = normal(rows, 32, 8.0f), inv = normal(rows, 1), base = normal(1, 24);
    Buffer<float> expected(rows, 16);
    reference::sinkhorn<ScalarVec>(mixes, inv, base, 0.3f, 1e-6f, 20, expected.tile);
    for_each_target([&] {
      Buffer<float> actual(rows, 16);
      sinkhorn(mixes, inv, base, 0.3f, 1e-6f, 20, actual.tile);
      EXPECT_TRUE(actual.same_bits(expected));
    });
    reference::sinkhorn<CountingVec>(mixes, inv, base, 0.3f, 1e-6f, 20, expected.tile);
    expect_counts(sinkhorn_work(20));
  }
}

TEST(SimdTest, RouterScores) {
  Buffer<float> raw = normal(4, 64, 5.0f);
  raw.tile(0, 0) = -90.0f;
  raw.tile(0, 1) = 90.0f;
  raw.tile(0, 2) = -0.0f;
  const Buffer<float> bias = normal(1, 64);
  Buffer<float> inv(4, 1);
  for (int r = 0; r < 4; ++r) inv.tile(r, 0) = 1.0f + static_cast<float>(r);
  for (const bool biased : {false, true}) {
    Buffer<float> scores(4, 64), keys(4, 64);
    const auto biased_tile = [&](Buffer<float>& b) { return biased ? b.tile : Tile<float>{}; };
    reference::router_scores<ScalarVec>(raw, inv, bias, scores.tile, biased_tile(keys));
    for_each_target([&] {
      Buffer<float> actual_scores(4, 64), actual_keys(4, 64);
      router_scores(raw, inv, bias, actual_scores.tile, biased_tile(actual_keys));
      EXPECT_TRUE(actual_scores.same_bits(scores));
      EXPECT_TRUE(actual_keys.same_bits(keys));
    });
    for (int c = 0; c < 64; ++c) {
      const double l = static_cast<double>(raw.tile(1, c)) * 2.0;
      EXPECT_NEAR(scores.tile(1, c),
                  std::sqrt(std::max(l, 0.0) + std::log1p(std::exp(-std::abs(l)))), 2e-6);
    }
  }
  Buffer<float> scores(4, 64), keys(4, 64);
  reference::router_scores<CountingVec>(raw, inv, bias, scores.tile, keys.tile);
  expect_counts(router_scores_work(4, 64));
}

double ulps(float actual, double expected) {
  const float near = static_cast<float>(expected);
  const double ulp = static_cast<double>(std::nextafter(std::abs(near), INFINITY)) - std::abs(near);
  return std::abs(static_cast<double>(actual) - expected) / ulp;
}

TEST(SimdTest, ExpIsWithinTwoUlpAndTheSameOnEveryTarget) {
  Buffer<float> x(1, 1 << 16);
  for (std::int64_t i = 0; i < x.tile.cols; ++i) {
    x.tile(0, i) = -104.5f + 194.0f * static_cast<float>(i) / static_cast<float>(x.tile.cols);
  }
  Buffer<float> expected(1, x.tile.cols);
  reference::map_rows<ScalarVec>(x, expected.tile,
                                 [](const ScalarVec& v) { return ScalarVec::exp(v); });
  double worst = 0;
  for (std::int64_t i = 0; i < x.tile.cols; ++i) {
    const double truth = std::exp(static_cast<double>(x.tile(0, i)));
    if (truth > 3.4e38) {
      EXPECT_EQ(expected.tile(0, i), INFINITY);
    } else {
      worst = std::max(worst, ulps(expected.tile(0, i), truth));
    }
  }
  EXPECT_LT(worst, 2.0);
  for_each_target([&] {
    Buffer<float> actual(1, x.tile.cols);
    exp(x, actual.tile);
    EXPECT_TRUE(actual.same_bits(expected));
    const Buffer<float> odd = awkward(1, 64);
    Buffer<float> odd_expected(1, 64), odd_actual(1, 64);
    reference::map_rows<ScalarVec>(odd, odd_expected.tile,
                                   [](const ScalarVec& v) { return ScalarVec::exp(v); });
    exp(odd, odd_actual.tile);
    EXPECT_TRUE(odd_actual.same_bits(odd_expected));
  });
}

TEST(SimdTest, ExpKeepsNan) {
  Buffer<float> x(1, 16), y(1, 16);
  x.tile(0, 3) = std::nanf("");
  for_each_target([&] {
    exp(x, y.tile);
    EXPECT_TRUE(std::isnan(y.tile(0, 3)));
    EXPECT_EQ(y.tile(0, 2), 1.0f);
  });
}

TEST(SimdTest, Log1pIsWithinTwoUlpAndTheSameOnEveryTarget) {
  Buffer<float> u(1, 1 << 16);
  for (std::int64_t i = 0; i < u.tile.cols; ++i) {
    u.tile(0, i) = std::exp2(-40.0f * static_cast<float>(i) / static_cast<float>(u.tile.cols));
  }
  Buffer<float> expected(1, u.tile.cols);
  reference::map_rows<ScalarVec>(u, expected.tile,
                                 [](const ScalarVec& v) { return ScalarVec::log1p(v); });
  double worst = 0;
  for (std::int64_t i = 0; i < u.tile.cols; ++i) {
    worst =
        std::max(worst, ulps(expected.tile(0, i), std::log1p(static_cast<double>(u.tile(0, i)))));
  }
  EXPECT_LT(worst, 2.0);
  for_each_target([&] {
    Buffer<float> actual(1, u.tile.cols);
    log1p(u, actual.tile);
    EXPECT_TRUE(actual.same_bits(expected));
  });
}

TEST(SimdTest, RoundingToBFloat16IsTheDefinitions) {
  Buffer<float> x(1, 1 << 14);
  const Random random(9);
  for_each_target([&] {
    for (std::uint64_t round = 0; round < 8; ++round) {
      for (std::size_t i = 0; i < x.values.size(); ++i) {
        const auto bits = static_cast<std::uint32_t>(random.bits(round * x.values.size() + i));
        x.values[i] = std::bit_cast<float>(bits);
      }
      Buffer<BFloat16> y(1, x.tile.cols);
      to_bfloat16(x, y.tile);
      for (std::int64_t i = 0; i < x.tile.cols; ++i) {
        ASSERT_EQ(y.tile(0, i).bits, BFloat16(x.tile(0, i)).bits) << x.tile(0, i);
      }
    }
  });
}

TEST(SimdTest, InverseRmsAndNormScalesRoundEveryStep) {
  Buffer<float> sums(3, 1), amax(3, 1), inv(3, 1), xn(3, 1), scale(3, 1);
  for (int r = 0; r < 3; ++r) {
    sums.tile(r, 0) = 3.0f * static_cast<float>(r);
    amax.tile(r, 0) = 0.7f + static_cast<float>(r);
  }
  norm_scales(sums, amax, 1.0f / 4096, 1e-6f, inv.tile, xn.tile, scale.tile);
  EXPECT_EQ(inv.tile(0, 0), 1.0f / std::sqrt(1e-6f));
  const float mean = sums.tile(2, 0) * (1.0f / 4096);
  EXPECT_EQ(inv.tile(2, 0), 1.0f / std::sqrt(mean + 1e-6f));
  EXPECT_EQ(xn.tile(1, 0), 127.0f / 1.7f);
  EXPECT_EQ(scale.tile(1, 0), (1.7f * (1.0f / 127.0f)) * inv.tile(1, 0));
}

TEST(SimdTest, TopKIsStableAndDescending) {
  Random random(5);
  for (int n = 0; n < 2000; ++n) {
    const auto count = 6 + static_cast<std::int64_t>(random.next_below(40));
    Buffer<float> keys(1, count);
    for (std::int64_t i = 0; i < count; ++i) {
      keys.tile(0, i) = static_cast<float>(random.next_below(8)) - 4;  // Many ties.
    }
    std::vector<std::int32_t> order(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
    std::ranges::stable_sort(
        order, [&](std::int32_t a, std::int32_t b) { return keys.tile(0, a) > keys.tile(0, b); });
    Buffer<std::int32_t> ids(1, 6);
    top_k(keys, ids.tile);
    for (std::int64_t j = 0; j < 6; ++j) {
      ASSERT_EQ(ids.tile(0, j), order[static_cast<std::size_t>(j)]);
    }
  }
}

TEST(SimdTest, RouteWeightsSumToTheFactor) {
  Buffer<float> scores(2, 16), weights(2, 4);
  Buffer<std::int32_t> ids(2, 4);
  for (int i = 0; i < 16; ++i) scores.tile(1, i) = scores.tile(0, i) = static_cast<float>(i + 1);
  for (int j = 0; j < 4; ++j) ids.tile(1, j) = ids.tile(0, j) = 3 * j;
  route_weights(scores, ids, 1.5f, weights.tile);
  EXPECT_EQ(weights.tile(1, 2), (7.0f / 22.0f) * 1.5f);
}

TEST(SimdTest, ThisCpuIsSupported) {
  EXPECT_TRUE(check_cpu());
  EXPECT_TRUE(std::string(target_name()) == "AVX2" || std::string(target_name()) == "AVX3");
}

}  // namespace
}  // namespace cohort::simd
