// The shared and the routed experts, on both lanes, each operator against the float64 reference
// fed with what the operator before it computed, with poison in everything not written.
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "cohort/base/random.h"
#include "cohort/lane/contract.h"
#include "cohort/observe/compare.h"

#include "deepseek_v4/expert_kernels.h"
#include "deepseek_v4/moe_reference.h"

namespace deepseek_v4 {
namespace {

using cohort::Graph;
using cohort::Handle;
using cohort::kernel_ref;
using cohort::Random;
using cohort::observe::Comparison;
using cohort::observe::Tolerance;
using reference::Vector;

constexpr std::int64_t kHidden = 1024;
constexpr std::int64_t kInner = 512;

void fill_int8(const Handle<std::int8_t>& tensor, std::uint64_t stream) {
  const Random random(21, stream);
  for (std::int64_t i = 0; i < tensor.rows() * tensor.cols(); ++i) {
    const auto value = random.below(static_cast<std::uint64_t>(i), 255);
    tensor.host()[i] = static_cast<std::int8_t>(static_cast<int>(value) - 127);
  }
}

// Uniform over [0.5, 1.5) sigma: scales are positive.
void fill_scales(const Handle<float>& tensor, std::uint64_t stream, double sigma) {
  const Random random(22, stream);
  for (std::int64_t i = 0; i < tensor.rows() * tensor.cols(); ++i) {
    const double value = sigma * (0.5 + random.uniform(static_cast<std::uint64_t>(i)));
    tensor.host()[i] = static_cast<float>(value);
  }
}

template <class T>
Vector part(const Handle<T>& tensor, std::int64_t first, std::int64_t rows) {
  const auto row = static_cast<std::size_t>(tensor.cols()) * sizeof(T);
  const auto bytes = tensor.tensor->memory().subspan(static_cast<std::size_t>(first) * row,
                                                     static_cast<std::size_t>(rows) * row);
  return cohort::observe::to_doubles(bytes, tensor.tensor->dtype);
}
template <class T>
Vector all(const Handle<T>& tensor) {
  return part(tensor, 0, tensor.rows());
}

void expect_pass(const char* what, const Comparison& c) {
  EXPECT_TRUE(c.pass) << what << ": " << c.bad << " of " << c.compared << " differ, " << c.allowed
                      << " allowed, worst at " << c.worst << ": " << c.actual << " for "
                      << c.expected;
}

Comparison compare(const Vector& actual, const Vector& expected, const Tolerance& tolerance) {
  return cohort::observe::compare(actual, expected, tolerance, 4);
}
constexpr Tolerance kHiddenTolerance{.atol = 1e-6, .rtol = 5e-6};

template <class T>
void expect_poison(const Handle<T>& tensor, std::int64_t first, std::int64_t last) {
  const std::uint64_t pattern = cohort::poison_pattern(tensor.tensor->dtype);
  for (std::int64_t i = first * tensor.cols(); i < last * tensor.cols(); ++i) {
    ASSERT_EQ(std::memcmp(&tensor.host()[i], &pattern, sizeof(T)), 0)
        << tensor.tensor->name << " was written in row " << i / tensor.cols();
  }
}

void check_contracts(const Graph& graph) {
  ASSERT_TRUE(graph.validate()) << graph.validate().error().message;
  for (const cohort::Task& task : graph.tasks()) {
    for (const std::string& error : cohort::check_contract(task).errors) {
      ADD_FAILURE() << task.name << ": " << error;
    }
  }
}

struct Shared {
  Shared(std::int64_t tokens, float limit)
      : x(graph.tensor<std::int8_t>("x_norm_i8", {tokens, kHidden})),
        x_scale(graph.tensor<float>("x_norm_scale", {tokens, 1})),
        w1(graph.tensor<std::int8_t>("shared_w1", {kInner, kHidden})),
        w3(graph.tensor<std::int8_t>("shared_w3", {kInner, kHidden})),
        w2(graph.tensor<std::int8_t>("shared_w2", {kHidden, kInner})),
        w1_scale(graph.tensor<float>("shared_w1_scale", {kInner})),
        w3_scale(graph.tensor<float>("shared_w3_scale", {kInner})),
        w2_scale(graph.tensor<float>("shared_w2_scale", {kHidden})),
        h(graph.tensor<float>("shared_h", {tokens, kInner})),
        h_i8(graph.tensor<std::int8_t>("shared_h_i8", {tokens, kInner})),
        h_scale(graph.tensor<float>("shared_h_scale", {tokens, 1})),
        sh(graph.tensor<BFloat16>("sh", {tokens, kHidden})) {
    graph.submit(kernel_ref<SharedGateUp>(),
                 SharedGateUp::Args{x, x_scale, w1, w3, w1_scale, w3_scale, h, limit});
    graph.submit(kernel_ref<SharedQuant>(), SharedQuant::Args{h, h_i8, h_scale});
    graph.submit(kernel_ref<SharedDown>(), SharedDown::Args{h_i8, h_scale, w2, w2_scale, sh});
    graph.poison_tensors();
    fill_int8(x, 1);
    fill_int8(w1, 2);
    fill_int8(w3, 3);
    fill_int8(w2, 4);
    // Gates of a standard deviation of about 5: some beyond a limit of 10.
    fill_scales(x_scale, 5, 0.01);
    fill_scales(w1_scale, 6, 0.003);
    fill_scales(w3_scale, 7, 0.003);
    fill_scales(w2_scale, 8, 0.01);
  }

  Vector reference_h(double limit) const {
    return reference::gate_up(all(x), all(x_scale), all(w1), all(w1_scale), all(w3), all(w3_scale),
                              limit);
  }

  void expect_reference(double limit) const {
    expect_pass("shared_h", compare(all(h), reference_h(limit), kHiddenTolerance));
    const reference::QuantisedRows q = reference::quantise_rows(all(h), kInner);
    expect_pass("shared_h_scale", compare(all(h_scale), q.scale, {.rtol = 2e-6}));
    expect_pass("shared_h_i8", compare(all(h_i8), q.values, {.atol = 1}));
    expect_pass("shared_h_i8", compare(all(h_i8), q.values, {.ratio = 0.001}));
    const Vector y = reference::down(all(h_i8), all(h_scale), all(w2), all(w2_scale));
    expect_pass("sh", cohort::observe::compare_bfloat16(all(sh), y, 1, 0.001));
  }

  Graph graph;
  Handle<std::int8_t> x;
  Handle<float> x_scale;
  Handle<std::int8_t> w1, w3, w2;
  Handle<float> w1_scale, w3_scale, w2_scale;
  Handle<float> h;
  Handle<std::int8_t> h_i8;
  Handle<float> h_scale;
  Handle<BFloat16> sh;
};

class SharedExpert : public testing::TestWithParam<std::int64_t> {};

TEST_P(SharedExpert, AgreesWithTheReference) {
  for (const float limit : {0.0f, 10.0f}) {
    SCOPED_TRACE(limit);
    const Shared shared(GetParam(), limit);
    check_contracts(shared.graph);
    shared.expect_reference(static_cast<double>(limit));
  }
}
INSTANTIATE_TEST_SUITE_P(Tokens, SharedExpert, testing::Values(8, 16, 128));

// Inactive tokens have a scale of 0 and rows that nobody wrote.
TEST(Experts, SharedRowsOfScaleZeroGiveZerosWhateverTheirBytes) {
  const Shared shared(16, 10.0f);
  for (std::int64_t t = 5; t < 16; ++t) {
    shared.x_scale.host()[t] = 0.0f;
    std::memset(shared.x.host() + t * kHidden, 0x5A, kHidden);
  }
  check_contracts(shared.graph);
  shared.expect_reference(10.0);
  for (std::int64_t i = 5 * kHidden; i < 16 * kHidden; ++i) {
    ASSERT_EQ(shared.sh.host()[i].bits, 0) << i;
  }
  for (std::int64_t t = 5; t < 16; ++t) {
    EXPECT_EQ(shared.h_scale.host()[t], 1.0f / (127.0f / 1e-4f)) << "the floor of the amax";
  }
}

// What the comparison of shared_h is able to see.
TEST(Experts, WrongMathematicsOfTheActivationFails) {
  const Shared shared(8, 10.0f);
  check_contracts(shared.graph);
  const Vector h = all(shared.h);
  EXPECT_TRUE(compare(h, shared.reference_h(10.0), kHiddenTolerance).pass);
  EXPECT_FALSE(compare(h, shared.reference_h(0.0), kHiddenTolerance).pass) << "no limit";
  const Vector swapped =
      reference::gate_up(all(shared.x), all(shared.x_scale), all(shared.w3), all(shared.w3_scale),
                         all(shared.w1), all(shared.w1_scale), 10.0);
  EXPECT_FALSE(compare(h, swapped, kHiddenTolerance).pass) << "w1 and w3 swapped";

  // A gate below -limit is not cut: find one, and see that it would differ if it were.
  const Vector gate = reference::product(all(shared.x), all(shared.w1), kHidden);
  bool found = false;
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const auto t = static_cast<std::int64_t>(i) / kInner;
    const auto n = static_cast<std::int64_t>(i) % kInner;
    const double g = gate[i] * static_cast<double>(shared.x_scale.host()[t]) *
                     static_cast<double>(shared.w1_scale.host()[n]);
    if (g > -12.0) continue;
    found = true;
    const double bound = -g * std::exp(g) * 10.0 * 1.001;  // |g sigmoid(g) u|, |u| <= 10.
    EXPECT_LE(std::abs(h[i]), bound) << "cut at -10 it could be " << 10 * 10 * std::exp(-10.0);
  }
  EXPECT_TRUE(found) << "no gate lies far enough below the limit";
}

constexpr std::int64_t kExperts = 5;
constexpr std::int64_t kCapacity = 32;
constexpr std::int32_t kCounts[kExperts] = {0, 1, 16, 19, 32};

struct Routed {
  explicit Routed(float limit)
      : counts(graph.tensor<std::int32_t>("recv_count_out", {kExperts})),
        x(graph.tensor<std::int8_t>("recv_x_out", {kExperts * kCapacity, kHidden})),
        x_scale(graph.tensor<float>("recv_scale_out", {kExperts * kCapacity, 1})),
        weight(graph.tensor<float>("recv_w_out", {kExperts * kCapacity, 1})),
        w1(graph.tensor<std::int8_t>("routed_w1", {kExperts, kInner, kHidden})),
        w3(graph.tensor<std::int8_t>("routed_w3", {kExperts, kInner, kHidden})),
        w2(graph.tensor<std::int8_t>("routed_w2", {kExperts, kHidden, kInner})),
        w1_scale(graph.tensor<float>("routed_w1_scale", {kExperts, kInner})),
        w3_scale(graph.tensor<float>("routed_w3_scale", {kExperts, kInner})),
        w2_scale(graph.tensor<float>("routed_w2_scale", {kExperts, kHidden})),
        h(graph.tensor<float>("routed_h", {kExperts * kCapacity, kInner})),
        h_i8(graph.tensor<std::int8_t>("routed_h_i8", {kExperts * kCapacity, kInner})),
        h_scale(graph.tensor<float>("routed_h_scale", {kExperts * kCapacity, 1})),
        y(graph.tensor<BFloat16>("recv_y", {kExperts * kCapacity, kHidden})) {
    graph.submit(kernel_ref<RoutedGateUp>(),
                 RoutedGateUp::Args{counts, x, x_scale, w1, w3, w1_scale, w3_scale, h, limit});
    graph.submit(kernel_ref<RoutedQuant>(), RoutedQuant::Args{counts, h, h_i8, h_scale});
    graph.submit(kernel_ref<RoutedDown>(),
                 RoutedDown::Args{counts, h_i8, h_scale, weight, w2, w2_scale, y});
    graph.poison_tensors();
    std::copy_n(kCounts, kExperts, counts.host());
    for (const auto& [tensor, stream] : {std::pair(w1, 2), std::pair(w3, 3), std::pair(w2, 4)}) {
      fill_int8(tensor, static_cast<std::uint64_t>(stream));
    }
    fill_scales(w1_scale, 6, 0.003);
    fill_scales(w3_scale, 7, 0.003);
    fill_scales(w2_scale, 8, 0.01);
    // Rows beyond the counts stay poisoned: NaN in scales and weights.
    const Random random(23);
    for (std::int64_t e = 0; e < kExperts; ++e) {
      for (std::int64_t r = e * kCapacity; r < e * kCapacity + kCounts[e]; ++r) {
        x_scale.host()[r] = 0.01f;
        weight.host()[r] = static_cast<float>(random.uniform(static_cast<std::uint64_t>(r)));
        for (std::int64_t d = r * kHidden; d < (r + 1) * kHidden; ++d) {
          const auto value = random.below(static_cast<std::uint64_t>(d), 255);
          x.host()[d] = static_cast<std::int8_t>(static_cast<int>(value) - 127);
        }
      }
    }
  }

  Graph graph;
  Handle<std::int32_t> counts;
  Handle<std::int8_t> x;
  Handle<float> x_scale, weight;
  Handle<std::int8_t> w1, w3, w2;
  Handle<float> w1_scale, w3_scale, w2_scale;
  Handle<float> h;
  Handle<std::int8_t> h_i8;
  Handle<float> h_scale;
  Handle<BFloat16> y;
};

TEST(Experts, RoutedAgreeWithTheReferenceAndLeaveTheRestAlone) {
  const Routed routed(10.0f);
  check_contracts(routed.graph);
  for (std::int64_t e = 0; e < kExperts; ++e) {
    SCOPED_TRACE("expert " + std::to_string(e));
    const std::int64_t first = e * kCapacity;
    const std::int64_t rows = kCounts[e];
    const std::int64_t tiles = (rows + 15) / 16 * 16;
    expect_poison(routed.h, first + rows, first + kCapacity);
    expect_poison(routed.h_i8, first + rows, first + kCapacity);
    expect_poison(routed.h_scale, first + rows, first + kCapacity);
    expect_poison(routed.y, first + tiles, first + kCapacity);
    for (std::int64_t i = (first + rows) * kHidden; i < (first + tiles) * kHidden; ++i) {
      ASSERT_EQ(routed.y.host()[i].bits, 0) << "row " << i / kHidden;
    }
    if (rows == 0) continue;
    const Vector h = reference::gate_up(
        part(routed.x, first, rows), part(routed.x_scale, first, rows), part(routed.w1, e, 1),
        part(routed.w1_scale, e, 1), part(routed.w3, e, 1), part(routed.w3_scale, e, 1), 10.0);
    const Vector actual = part(routed.h, first, rows);
    expect_pass("routed_h", compare(actual, h, kHiddenTolerance));
    const reference::QuantisedRows q = reference::quantise_rows(actual, kInner);
    const Vector h_i8 = part(routed.h_i8, first, rows);
    expect_pass("routed_h_scale",
                compare(part(routed.h_scale, first, rows), q.scale, {.rtol = 2e-6}));
    expect_pass("routed_h_i8", compare(h_i8, q.values, {.atol = 1}));
    expect_pass("routed_h_i8", compare(h_i8, q.values, {.ratio = 0.001}));
    const Vector unweighted = part(routed.h_scale, first, rows);
    Vector scale = unweighted;
    const Vector weight = part(routed.weight, first, rows);
    for (std::size_t r = 0; r < scale.size(); ++r) scale[r] *= weight[r];
    const Vector w2 = part(routed.w2, e, 1);
    const Vector w2_scale = part(routed.w2_scale, e, 1);
    const Vector y = part(routed.y, first, rows);
    using cohort::observe::compare_bfloat16;
    expect_pass("recv_y",
                compare_bfloat16(y, reference::down(h_i8, scale, w2, w2_scale), 1, 0.001));
    EXPECT_FALSE(
        compare_bfloat16(y, reference::down(h_i8, unweighted, w2, w2_scale), 1, 0.001).pass)
        << "a routing weight that is forgotten must show";
  }
}

}  // namespace
}  // namespace deepseek_v4
