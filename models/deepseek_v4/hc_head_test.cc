// The model's tail, on both lanes, against the float64 reference.
#include <algorithm>
#include <bit>

#include <gtest/gtest.h>

#include "cohort/base/random.h"
#include "cohort/lane/contract.h"
#include "cohort/observe/compare.h"

#include "deepseek_v4/hc_head_kernels.h"
#include "deepseek_v4/moe_reference.h"

namespace deepseek_v4 {
namespace {

using cohort::Graph;
using cohort::Handle;
using cohort::kernel_ref;
using cohort::observe::compare_bfloat16;
using cohort::observe::to_doubles;

constexpr float kScale = 0.076099f;
constexpr float kBase[] = {5.9166f, -3.6223f, -2.9324f, -3.3124f};

template <class T>
void fill_normal(const Handle<T>& tensor, std::uint64_t stream, double sigma) {
  const cohort::Random random(11, stream);
  for (std::int64_t i = 0; i < tensor.rows() * tensor.cols(); ++i) {
    const double value = sigma * random.normal(static_cast<std::uint64_t>(i));
    tensor.host()[i] = T(static_cast<float>(value));
  }
}

template <class Stream>
struct Head {
  Head(std::int64_t t, std::int64_t d)
      : tokens(t),
        hidden(d),
        x(graph.tensor<Stream>("x_hc", {t, 4, d})),
        fn(graph.tensor<float>("hc_head_fn", {4, 4 * d})),
        base(graph.tensor<float>("hc_head_base", {4})),
        y(graph.tensor<BFloat16>("y", {t, d})) {
    const std::int64_t padded = (t + 15) / 16 * 16;
    const auto sums = graph.tensor<float>("head_sums", {kHeadSplits * t, 1});
    const auto partials = graph.tensor<float>("head_partials", {kHeadSplits * padded, kHeadPad});
    graph.submit(kernel_ref<HcHeadRms<Stream>>(), typename HcHeadRms<Stream>::Args{x, sums});
    graph.submit(kernel_ref<HcHeadLinear<Stream>>(),
                 typename HcHeadLinear<Stream>::Args{x, fn, partials});
    graph.submit(kernel_ref<HcHeadMix<Stream>>(),
                 typename HcHeadMix<Stream>::Args{x, sums, partials, base, y, kScale});
    graph.poison_tensors();
    fill_normal(x, 1, 0.05);
    fill_normal(fn, 2, 0.0519);
    std::copy_n(kBase, 4, base.host());
  }

  void run() const {
    ASSERT_TRUE(graph.validate()) << graph.validate().error().message;
    for (const cohort::Task& task : graph.tasks()) {
      for (const std::string& error : cohort::check_contract(task).errors) {
        ADD_FAILURE() << task.name << ": " << error;
      }
    }
  }
  cohort::observe::Comparison against_reference(double scale) const {
    const auto expected = reference::hc_head(to_doubles(*x.tensor), to_doubles(*fn.tensor),
                                             to_doubles(*base.tensor), scale, hidden);
    return compare_bfloat16(to_doubles(*y.tensor), expected, 1, 0.001);
  }

  Graph graph;
  std::int64_t tokens;
  std::int64_t hidden;
  Handle<Stream> x;
  Handle<float> fn;
  Handle<float> base;
  Handle<BFloat16> y;
};

template <class Stream>
void expect_reference(std::int64_t tokens, std::int64_t hidden) {
  SCOPED_TRACE(std::to_string(tokens) + " x " + std::to_string(hidden));
  const Head<Stream> head(tokens, hidden);
  head.run();
  const auto comparison = head.against_reference(static_cast<double>(kScale));
  EXPECT_TRUE(comparison.pass) << to_text(comparison, head.y.tensor->shape);
  EXPECT_FALSE(head.against_reference(1.1 * static_cast<double>(kScale)).pass)
      << "a wrong scale must show";
}

TEST(HcHead, AgreesWithTheReference) {
  for (const std::int64_t tokens : {8, 16, 128}) {
    expect_reference<float>(tokens, 1024);
    expect_reference<BFloat16>(tokens, 1024);
  }
}

// Widths of the models: 16 parts of 1024 and of 1792 columns.
TEST(HcHead, AgreesWithTheReferenceAtTheModelsWidths) {
  expect_reference<float>(8, 4096);
  expect_reference<float>(8, 7168);
}

TEST(HcHead, RowsBeyondTheTokensAreZeroInThePartialProducts) {
  const Head<float> head(8, 1024);
  head.run();
  const auto partials = head.graph.find<float>("head_partials");
  for (std::int64_t row = 0; row < partials->rows(); ++row) {
    for (std::int64_t c = 0; c < kHeadPad; ++c) {
      if (row % 16 < 8 && c < 4) continue;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(partials->host()[row * kHeadPad + c]), 0u)
          << row << ", " << c;
    }
  }
}

TEST(HcHead, AZeroStreamGivesZeros) {
  const Head<float> head(8, 1024);
  std::fill_n(head.x.host(), 8 * 4 * 1024, 0.0f);
  head.run();
  for (std::int64_t i = 0; i < 8 * 1024; ++i) ASSERT_EQ(head.y.host()[i].bits, 0) << i;
}

}  // namespace
}  // namespace deepseek_v4
