// Sixteen float lanes on whatever vectors the target has: the V of kernels-inl.h.

#if defined(COHORT_SIMD_VEC16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COHORT_SIMD_VEC16_INL_H_
#undef COHORT_SIMD_VEC16_INL_H_
#else
#define COHORT_SIMD_VEC16_INL_H_
#endif

#include <array>
#include <cstdint>

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

  static HWY_INLINE Vec16 set(float x) {
    return make([x](int) { return hn::Set(D(), x); });
  }
  static HWY_INLINE Vec16 load(const float* p) {
    return make([p](int i) { return hn::LoadU(D(), p + i * kLanes); });
  }
  static HWY_INLINE Vec16 load(const BFloat16* p) {
    return make([p](int i) {
      const auto* bits = reinterpret_cast<const std::uint16_t*>(p + i * kLanes);
      const auto wide = hn::PromoteTo(DU(), hn::LoadU(DU16(), bits));
      return hn::BitCast(D(), hn::ShiftLeft<16>(wide));
    });
  }
  HWY_INLINE void store(float* p) const {
    for (int i = 0; i < kVecs; ++i) hn::StoreU(v_[i], D(), p + i * kLanes);
  }
  // Half to even in integers; a NaN keeps its upper bits and becomes quiet.
  HWY_INLINE void store(BFloat16* p) const {
    for (int i = 0; i < kVecs; ++i) {
      const auto u = hn::BitCast(DU(), v_[i]);
      const auto upper = hn::ShiftRight<16>(u);
      const auto odd = hn::And(upper, hn::Set(DU(), 1));
      const auto rounded = hn::ShiftRight<16>(u + (hn::Set(DU(), 0x7FFF) + odd));
      const auto quiet = hn::Or(upper, hn::Set(DU(), 0x0040));
      const auto is_nan = hn::RebindMask(DU(), hn::IsNaN(v_[i]));
      const auto bits = hn::BitCast(DI(), hn::IfThenElse(is_nan, quiet, rounded));
      hn::StoreU(hn::DemoteTo(DU16(), bits), DU16(),
                 reinterpret_cast<std::uint16_t*>(p + i * kLanes));
    }
  }
  HWY_INLINE void store_int8(std::int8_t* p) const {
    for (int i = 0; i < kVecs; ++i) {
      hn::StoreU(hn::DemoteTo(DI8(), hn::NearestInt(v_[i])), DI8(), p + i * kLanes);
    }
  }
  HWY_INLINE std::array<float, 16> to_array() const {
    std::array<float, 16> out;
    store(out.data());
    return out;
  }

  friend HWY_INLINE Vec16 operator+(const Vec16& a, const Vec16& b) {
    return make([&](int i) { return hn::Add(a.v_[i], b.v_[i]); });
  }
  friend HWY_INLINE Vec16 operator-(const Vec16& a, const Vec16& b) {
    return make([&](int i) { return hn::Sub(a.v_[i], b.v_[i]); });
  }
  friend HWY_INLINE Vec16 operator*(const Vec16& a, const Vec16& b) {
    return make([&](int i) { return hn::Mul(a.v_[i], b.v_[i]); });
  }
  friend HWY_INLINE Vec16 operator/(const Vec16& a, const Vec16& b) {
    return make([&](int i) { return hn::Div(a.v_[i], b.v_[i]); });
  }
  static HWY_INLINE Vec16 fma(const Vec16& a, const Vec16& b, const Vec16& c) {
    return make([&](int i) { return hn::MulAdd(a.v_[i], b.v_[i], c.v_[i]); });
  }
  static HWY_INLINE Vec16 sqrt(const Vec16& a) {
    return make([&](int i) { return hn::Sqrt(a.v_[i]); });
  }
  static HWY_INLINE Vec16 max(const Vec16& a, const Vec16& b) {
    return make([&](int i) { return hn::Max(a.v_[i], b.v_[i]); });
  }
  static HWY_INLINE Vec16 min(const Vec16& a, const Vec16& b) {
    return make([&](int i) { return hn::Min(a.v_[i], b.v_[i]); });
  }
  static HWY_INLINE Vec16 abs(const Vec16& a) {
    return make([&](int i) { return hn::Abs(a.v_[i]); });
  }
  static HWY_INLINE Vec16 round(const Vec16& a) {
    return make([&](int i) { return hn::Round(a.v_[i]); });
  }
  static HWY_INLINE Vec16 keep_nan(const Vec16& x, const Vec16& y) {
    return make([&](int i) { return hn::IfThenElse(hn::IsNaN(x.v_[i]), x.v_[i], y.v_[i]); });
  }
  static HWY_INLINE Vec16 scale2(const Vec16& x, const Vec16& n) {
    return make([&](int i) {
      const auto exponent = hn::ConvertTo(DI(), n.v_[i]) + hn::Set(DI(), 127);
      return hn::Mul(x.v_[i], hn::BitCast(D(), hn::ShiftLeft<23>(exponent)));
    });
  }
  static HWY_INLINE Vec16 exp(const Vec16& x) { return kernels::exp(x); }
  static HWY_INLINE Vec16 log1p(const Vec16& x) { return kernels::log1p(x); }
  static HWY_INLINE void count_reduce() {}

 private:
  template <class F>
  static HWY_INLINE Vec16 make(F f) {
    Vec16 r;
    for (int i = 0; i < kVecs; ++i) r.v_[i] = f(i);
    return r;
  }
  Vec v_[kVecs];
};

}  // namespace cohort::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
