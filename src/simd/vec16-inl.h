// Sixteen float lanes on whatever vectors the target has: the V of kernels-inl.h.

#if defined(COHORT_SIMD_VEC16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COHORT_SIMD_VEC16_INL_H_
#undef COHORT_SIMD_VEC16_INL_H_
#else
#define COHORT_SIMD_VEC16_INL_H_
#endif

#include <array>
#include <cstdint>
#include <utility>

#include <hwy/highway.h>

#include "cohort/base/float16.h"

#include "kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cohort::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

class Vec16 {
 public:
  using D = hn::CappedTag<float, 16>;
  using DI = hn::RebindToSigned<D>;
  using DU = hn::RebindToUnsigned<D>;
  using DU16 = hn::Rebind<std::uint16_t, D>;
  using DI8 = hn::Rebind<std::int8_t, D>;
  using Vec = hn::Vec<D>;
  static constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
  static constexpr int kVecs = 16 / kLanes;

  /// One register: lanes [kWidth p, kWidth (p + 1)) of sixteen for part p.
  class Part {
   public:
    static constexpr int kWidth = kLanes;
    static HWY_INLINE Part load(const float* p) {
      Part r;
      r.v_ = hn::LoadU(D(), p);
      return r;
    }
    HWY_INLINE void store(float* p) const { hn::StoreU(v_, D(), p); }
    static HWY_INLINE Part fma(const Part& a, const Part& b, const Part& c) {
      Part r;
      r.v_ = hn::MulAdd(a.v_, b.v_, c.v_);
      return r;
    }

   private:
    Vec v_;
  };
  static constexpr int kParts = kVecs;
  // 12 sums beside 3 + 1 factors fill 16 registers, 24 beside 6 + 1 nearly 32.
  static constexpr int kBlockRows = 4;
  static constexpr int kBlockColumns = kLanes == 16 ? 6 : 3;

  static HWY_INLINE Vec16 set(float x) {
    return make([x](int) COHORT_INLINE_LAMBDA { return hn::Set(D(), x); });
  }
  static HWY_INLINE Vec16 load(const float* p) {
    return make([p](int i) COHORT_INLINE_LAMBDA { return hn::LoadU(D(), p + i * kLanes); });
  }
  static HWY_INLINE Vec16 load(const BFloat16* p) {
    return make([p](int i) COHORT_INLINE_LAMBDA {
      const auto* bits = reinterpret_cast<const std::uint16_t*>(p + i * kLanes);
      const auto wide = hn::PromoteTo(DU(), hn::LoadU(DU16(), bits));
      return hn::BitCast(D(), hn::ShiftLeft<16>(wide));
    });
  }
  HWY_INLINE void store(float* p) const {
    each([&](int i) COHORT_INLINE_LAMBDA { hn::StoreU(v_[i], D(), p + i * kLanes); });
  }
  // Half to even in integers; a NaN keeps its upper bits and becomes quiet.
  HWY_INLINE void store(BFloat16* p) const {
    // The result is the upper half of each lane.
    const auto round = [](Vec v) COHORT_INLINE_LAMBDA {
      const auto u = hn::BitCast(DU(), v);
      const auto odd = hn::And(hn::ShiftRight<16>(u), hn::Set(DU(), 1));
      const auto rounded = hn::Add(u, hn::Add(odd, hn::Set(DU(), 0x7FFF)));
      const auto quiet = hn::Or(u, hn::Set(DU(), 0x00400000));
      return hn::IfThenElse(hn::RebindMask(DU(), hn::IsNaN(v)), quiet, rounded);
    };
    auto* bits = reinterpret_cast<std::uint16_t*>(p);
    if constexpr (kVecs == 2) {
      const hn::Repartition<std::uint16_t, D> d;
      const auto low = hn::BitCast(d, round(v_[0]));
      hn::StoreU(hn::ConcatOdd(d, hn::BitCast(d, round(v_[1])), low), d, bits);
    } else {
      const auto upper = hn::BitCast(DI(), hn::ShiftRight<16>(round(v_[0])));
      hn::StoreU(hn::DemoteTo(DU16(), upper), DU16(), bits);
    }
  }
  // Adding 1.5 * 2^23 rounds to an integer, ties to even, which is then the low half of the bits.
  HWY_INLINE void store_int8(std::int8_t* p) const {
    const auto low = [](Vec v) COHORT_INLINE_LAMBDA {
      return hn::BitCast(DI(), hn::Add(v, hn::Set(D(), 12582912.0f)));
    };
    if constexpr (kVecs == 2) {
      const hn::Repartition<std::int16_t, D> d;
      const auto both = hn::ConcatEven(d, hn::BitCast(d, low(v_[1])), hn::BitCast(d, low(v_[0])));
      const hn::Rebind<std::int8_t, decltype(d)> d8;
      hn::StoreU(hn::DemoteTo(d8, both), d8, p);
    } else {
      const auto integer = hn::Sub(low(v_[0]), hn::Set(DI(), 0x4B400000));
      hn::StoreU(hn::DemoteTo(DI8(), integer), DI8(), p);
    }
  }
  HWY_INLINE std::array<float, 16> to_array() const {
    std::array<float, 16> out;
    store(out.data());
    return out;
  }

  friend HWY_INLINE Vec16 operator+(const Vec16& a, const Vec16& b) {
    return make([&](int i) COHORT_INLINE_LAMBDA { return hn::Add(a.v_[i], b.v_[i]); });
  }
  friend HWY_INLINE Vec16 operator-(const Vec16& a, const Vec16& b) {
    return make([&](int i) COHORT_INLINE_LAMBDA { return hn::Sub(a.v_[i], b.v_[i]); });
  }
  friend HWY_INLINE Vec16 operator*(const Vec16& a, const Vec16& b) {
    return make([&](int i) COHORT_INLINE_LAMBDA { return hn::Mul(a.v_[i], b.v_[i]); });
  }
  friend HWY_INLINE Vec16 operator/(const Vec16& a, const Vec16& b) {
    return make([&](int i) COHORT_INLINE_LAMBDA { return hn::Div(a.v_[i], b.v_[i]); });
  }
  static HWY_INLINE Vec16 fma(const Vec16& a, const Vec16& b, const Vec16& c) {
    return make([&](int i) COHORT_INLINE_LAMBDA { return hn::MulAdd(a.v_[i], b.v_[i], c.v_[i]); });
  }
  static HWY_INLINE Vec16 sqrt(const Vec16& a) {
    return make([&](int i) COHORT_INLINE_LAMBDA { return hn::Sqrt(a.v_[i]); });
  }
  static HWY_INLINE Vec16 max(const Vec16& a, const Vec16& b) {
    return make([&](int i) COHORT_INLINE_LAMBDA { return hn::Max(a.v_[i], b.v_[i]); });
  }
  static HWY_INLINE Vec16 min(const Vec16& a, const Vec16& b) {
    return make([&](int i) COHORT_INLINE_LAMBDA { return hn::Min(a.v_[i], b.v_[i]); });
  }
  static HWY_INLINE Vec16 abs(const Vec16& a) {
    return make([&](int i) COHORT_INLINE_LAMBDA { return hn::Abs(a.v_[i]); });
  }
  static HWY_INLINE Vec16 round(const Vec16& a) {
    return make([&](int i) COHORT_INLINE_LAMBDA { return hn::Round(a.v_[i]); });
  }
  static HWY_INLINE Vec16 keep_nan(const Vec16& x, const Vec16& y) {
    return make([&](int i) COHORT_INLINE_LAMBDA {
      return hn::IfThenElse(hn::IsNaN(x.v_[i]), x.v_[i], y.v_[i]);
    });
  }
  static HWY_INLINE Vec16 scale2(const Vec16& x, const Vec16& n) {
    return make([&](int i) COHORT_INLINE_LAMBDA {
      const auto exponent = hn::ConvertTo(DI(), n.v_[i]) + hn::Set(DI(), 127);
      return hn::Mul(x.v_[i], hn::BitCast(D(), hn::ShiftLeft<23>(exponent)));
    });
  }
  static HWY_INLINE Vec16 exp(const Vec16& x) { return kernels::exp(x); }
  static HWY_INLINE Vec16 log1p(const Vec16& x) { return kernels::log1p(x); }
  HWY_INLINE float tree_sum() const {
    if constexpr (kVecs == 1) {
      return fold(D(), v_[0]);
    } else {
      return fold(D(), hn::Add(v_[0], v_[1]));
    }
  }
  static HWY_INLINE void count_reduce() {}

 private:
  // Adds the upper half to the lower until one lane is left.
  template <class Tag, class Lanes>
  static HWY_INLINE float fold(Tag d, Lanes v) {
    if constexpr (hn::MaxLanes(d) == 4) {
      const auto pairs = hn::Add(v, hn::Shuffle1032(v));
      return hn::GetLane(hn::Add(pairs, hn::Shuffle2301(pairs)));
    } else {
      const hn::Half<Tag> half;
      return fold(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
    }
  }
  template <class F>
  static HWY_INLINE void each(F f) {
    kernels::unroll<kVecs>([&](auto i) COHORT_INLINE_LAMBDA { f(i); });
  }
  template <class F>
  static HWY_INLINE Vec16 make(F f) {
    Vec16 r;
    each([&](int i) COHORT_INLINE_LAMBDA { r.v_[i] = f(i); });
    return r;
  }
  Vec v_[kVecs];
};

}  // namespace cohort::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
