#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "cohort/base/work.h"

#include "kernels-inl.h"

namespace cohort::simd {

/// The V of kernels-inl.h as its definition reads: sixteen floats, one after the other. For tests.
class ScalarVec {
 public:
  static ScalarVec set(float x) {
    return make([x](std::size_t) { return x; });
  }
  static ScalarVec load(const float* p) {
    return make([p](std::size_t i) { return p[i]; });
  }
  static ScalarVec load(const BFloat16* p) {
    return make([p](std::size_t i) { return static_cast<float>(p[i]); });
  }
  void store(float* p) const {
    for (std::size_t i = 0; i < 16; ++i) p[i] = v_[i];
  }
  void store(BFloat16* p) const {
    for (std::size_t i = 0; i < 16; ++i) p[i] = BFloat16(v_[i]);
  }
  void store_int8(std::int8_t* p) const {
    for (std::size_t i = 0; i < 16; ++i) p[i] = static_cast<std::int8_t>(std::nearbyint(v_[i]));
  }
  std::array<float, 16> to_array() const { return v_; }

  friend ScalarVec operator+(const ScalarVec& a, const ScalarVec& b) {
    return make([&](std::size_t i) { return a.v_[i] + b.v_[i]; });
  }
  friend ScalarVec operator-(const ScalarVec& a, const ScalarVec& b) {
    return make([&](std::size_t i) { return a.v_[i] - b.v_[i]; });
  }
  friend ScalarVec operator*(const ScalarVec& a, const ScalarVec& b) {
    return make([&](std::size_t i) { return a.v_[i] * b.v_[i]; });
  }
  friend ScalarVec operator/(const ScalarVec& a, const ScalarVec& b) {
    return make([&](std::size_t i) { return a.v_[i] / b.v_[i]; });
  }
  static ScalarVec fma(const ScalarVec& a, const ScalarVec& b, const ScalarVec& c) {
    return make([&](std::size_t i) { return std::fma(a.v_[i], b.v_[i], c.v_[i]); });
  }
  static ScalarVec sqrt(const ScalarVec& a) {
    return make([&](std::size_t i) { return std::sqrt(a.v_[i]); });
  }
  static ScalarVec max(const ScalarVec& a, const ScalarVec& b) {
    return make([&](std::size_t i) { return a.v_[i] > b.v_[i] ? a.v_[i] : b.v_[i]; });
  }
  static ScalarVec min(const ScalarVec& a, const ScalarVec& b) {
    return make([&](std::size_t i) { return a.v_[i] < b.v_[i] ? a.v_[i] : b.v_[i]; });
  }
  static ScalarVec abs(const ScalarVec& a) {
    return make([&](std::size_t i) { return std::abs(a.v_[i]); });
  }
  static ScalarVec round(const ScalarVec& a) {
    return make([&](std::size_t i) { return std::nearbyint(a.v_[i]); });
  }
  static ScalarVec keep_nan(const ScalarVec& x, const ScalarVec& y) {
    return make([&](std::size_t i) { return std::isnan(x.v_[i]) ? x.v_[i] : y.v_[i]; });
  }
  static ScalarVec scale2(const ScalarVec& x, const ScalarVec& n) {
    return make(
        [&](std::size_t i) { return x.v_[i] * std::ldexp(1.0f, static_cast<int>(n.v_[i])); });
  }
  static ScalarVec exp(const ScalarVec& x) { return HWY_NAMESPACE::kernels::exp(x); }
  static ScalarVec log1p(const ScalarVec& x) { return HWY_NAMESPACE::kernels::log1p(x); }
  static void count_reduce() {}

  using Part = ScalarVec;
  static constexpr int kWidth = 16;
  static constexpr int kParts = 1;
  static constexpr int kBlockRows = 4;
  static constexpr int kBlockColumns = 2;

  float tree_sum() const {
    std::array<float, 16> p = v_;
    for (std::size_t step = 8; step > 0; step /= 2) {
      for (std::size_t i = 0; i < step; ++i) p[i] = p[i] + p[i + step];
    }
    return p[0];
  }

 private:
  template <class F>
  static ScalarVec make(F f) {
    ScalarVec r;
    for (std::size_t i = 0; i < 16; ++i) r.v_[i] = f(i);
    return r;
  }
  std::array<float, 16> v_;
};

/// A V that counts its operations, by elements, and computes like ScalarVec.
class CountingVec {
 public:
  static inline std::array<std::int64_t, kOperations> counts = {};

  CountingVec() = default;
  static CountingVec set(float x) { return ScalarVec::set(x); }
  static CountingVec load(const float* p) { return ScalarVec::load(p); }
  static CountingVec load(const BFloat16* p) { return count(Operation::kCast), ScalarVec::load(p); }
  void store(float* p) const { v_.store(p); }
  void store(BFloat16* p) const { count(Operation::kCast), v_.store(p); }
  void store_int8(std::int8_t* p) const { count(Operation::kCast), v_.store_int8(p); }
  std::array<float, 16> to_array() const { return v_.to_array(); }

  friend CountingVec operator+(const CountingVec& a, const CountingVec& b) {
    return count(Operation::kAdd), a.v_ + b.v_;
  }
  friend CountingVec operator-(const CountingVec& a, const CountingVec& b) {
    return count(Operation::kAdd), a.v_ - b.v_;
  }
  friend CountingVec operator*(const CountingVec& a, const CountingVec& b) {
    return count(Operation::kMul), a.v_ * b.v_;
  }
  friend CountingVec operator/(const CountingVec& a, const CountingVec& b) {
    return count(Operation::kDiv), a.v_ / b.v_;
  }
  static CountingVec fma(const CountingVec& a, const CountingVec& b, const CountingVec& c) {
    return count(Operation::kFma), ScalarVec::fma(a.v_, b.v_, c.v_);
  }
  static CountingVec sqrt(const CountingVec& a) {
    return count(Operation::kSqrt), ScalarVec::sqrt(a.v_);
  }
  static CountingVec max(const CountingVec& a, const CountingVec& b) {
    return count(Operation::kSelect), ScalarVec::max(a.v_, b.v_);
  }
  static CountingVec abs(const CountingVec& a) {
    return count(Operation::kSelect), ScalarVec::abs(a.v_);
  }
  static CountingVec exp(const CountingVec& a) {
    return count(Operation::kExp), ScalarVec::exp(a.v_);
  }
  static CountingVec log1p(const CountingVec& a) {
    return count(Operation::kLog), ScalarVec::log1p(a.v_);
  }
  static void count_reduce() { count(Operation::kReduce); }
  float tree_sum() const { return v_.tree_sum(); }

  using Part = CountingVec;
  static constexpr int kWidth = 16;
  static constexpr int kParts = 1;
  static constexpr int kBlockRows = 4;
  static constexpr int kBlockColumns = 3;

 private:
  CountingVec(const ScalarVec& v) : v_(v) {}
  static void count(Operation operation) { counts[static_cast<std::size_t>(operation)] += 16; }
  ScalarVec v_;
};

/// The F of row_kernels.h that counts its operations, into CountingVec's counts.
class CountingFloat {
 public:
  explicit CountingFloat(float x) : v_(x) {}
  explicit operator float() const { return v_; }
  friend CountingFloat operator+(CountingFloat a, CountingFloat b) {
    return count(Operation::kAdd), CountingFloat(a.v_ + b.v_);
  }
  friend CountingFloat operator*(CountingFloat a, CountingFloat b) {
    return count(Operation::kMul), CountingFloat(a.v_ * b.v_);
  }
  friend CountingFloat operator/(CountingFloat a, CountingFloat b) {
    return count(Operation::kDiv), CountingFloat(a.v_ / b.v_);
  }
  friend CountingFloat sqrt(CountingFloat a) {
    return count(Operation::kSqrt), CountingFloat(std::sqrt(a.v_));
  }

 private:
  static void count(Operation operation) {
    ++CountingVec::counts[static_cast<std::size_t>(operation)];
  }
  float v_;
};

}  // namespace cohort::simd
