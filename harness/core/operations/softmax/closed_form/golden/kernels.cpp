// One copy of these loops for each instruction set; the first call picks the best that the machine
// has.
#include "core/tensor/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/operations/softmax/closed_form/golden/kernels.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again for each target.
#include <hwy/highway.h>

#include "core/operations/softmax/closed_form/golden/kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace attest::core::codebook::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using Doubles = hn::CappedTag<double, size_t(kLanes)>;
using Vector = hn::Vec<Doubles>;

void Add(const double* HWY_RESTRICT v, double sign, int64_t width, double* HWY_RESTRICT sum,
         double* HWY_RESTRICT squares) {
  const Doubles tag;
  const Vector factor = hn::Set(tag, sign);
  for (int64_t e = 0; e < width; e += int64_t(hn::Lanes(tag))) {
    const Vector value = hn::LoadU(tag, v + e), signed_value = hn::Mul(factor, value);
    hn::StoreU(hn::Add(hn::LoadU(tag, sum + e), signed_value), tag, sum + e);
    hn::StoreU(hn::MulAdd(signed_value, value, hn::LoadU(tag, squares + e)), tag, squares + e);
  }
}

void Weigh(const Groups& groups, double* HWY_RESTRICT o, double* HWY_RESTRICT rounding,
           double* HWY_RESTRICT score, double* HWY_RESTRICT p2v2) {
  const Doubles tag;
  const Vector theta = hn::Set(tag, groups.theta);
  for (int64_t e = 0; e < groups.width; e += int64_t(hn::Lanes(tag))) {
    const double *sum = groups.sum + e, *squares = groups.squares + e;
    Vector value = hn::Zero(tag), value_too = hn::Zero(tag);  // two chains hide the latency
    int64_t g = 0;
    for (; g + 2 <= groups.codes; g += 2) {
      value = hn::MulAdd(hn::Set(tag, groups.p[g]), hn::LoadU(tag, sum + g * groups.width), value);
      value_too = hn::MulAdd(hn::Set(tag, groups.p[g + 1]),
                             hn::LoadU(tag, sum + (g + 1) * groups.width), value_too);
    }
    if (g < groups.codes)
      value = hn::MulAdd(hn::Set(tag, groups.p[g]), hn::LoadU(tag, sum + g * groups.width), value);
    value = hn::Add(value, value_too);
    const Vector damped = hn::Mul(theta, value);
    Vector from_p = hn::Zero(tag), from_s = hn::Zero(tag), of_squares = hn::Zero(tag);
    for (g = 0; g < groups.codes; ++g) {
      if (groups.count[g] == 0)
        continue;  // all that follows would be 0: a small window has few of the groups
      const Vector count = hn::Set(tag, groups.count[g]), p = hn::Set(tag, groups.p[g]),
                   total = hn::LoadU(tag, sum + g * groups.width);
      const Vector kept = hn::NegMulAdd(count, damped, total),
                   away = hn::NegMulAdd(count, value, total);
      const Vector v2 = hn::LoadU(tag, squares + g * groups.width);
      // sum_j (v_j - x)^2 = squares - x (2 V - n x)
      const Vector apart = hn::NegMulAdd(damped, hn::Add(total, kept), v2);
      from_p = hn::MulAdd(hn::Set(tag, groups.a2[g]), hn::Max(hn::Mul(kept, kept), apart), from_p);
      from_s = hn::MulAdd(hn::Mul(hn::Set(tag, groups.e2[g]), away), away, from_s);
      from_s = hn::MulAdd(hn::Set(tag, groups.lone2[g]),
                          hn::NegMulAdd(value, hn::Add(total, away), v2), from_s);
      of_squares = hn::MulAdd(hn::Mul(p, p), v2, of_squares);
    }
    for (int64_t code = 0; groups.levels > 1 && code * groups.levels < groups.codes; ++code) {
      Vector moved = hn::Zero(tag);
      for (g = code * groups.levels; g < (code + 1) * groups.levels; ++g) {
        if (groups.count[g] == 0) continue;
        const Vector away = hn::NegMulAdd(hn::Set(tag, groups.count[g]), value,
                                          hn::LoadU(tag, sum + g * groups.width));
        moved = hn::MulAdd(hn::Set(tag, groups.p[g]), away, moved);
      }
      from_s = hn::MulAdd(hn::Mul(hn::Set(tag, groups.shared2[code]), moved), moved, from_s);
    }
    hn::StoreU(value, tag, o + e);
    hn::StoreU(from_p, tag, rounding + e);
    hn::StoreU(from_s, tag, score + e);
    hn::StoreU(of_squares, tag, p2v2 + e);
  }
}

// Vectors of row `which` of a table, at column e.
struct Columns {
  double* data;
  int64_t width, e;
  Vector get(int64_t which) const { return hn::LoadU(Doubles(), data + which * width + e); }
  void put(int64_t which, Vector x) const { hn::StoreU(x, Doubles(), data + which * width + e); }
  void add(int64_t which, Vector a, Vector b) const { put(which, hn::MulAdd(a, b, get(which))); }
};

void AddFading(const double* HWY_RESTRICT v, double w, double w2, double d, int64_t width,
               double* HWY_RESTRICT sums) {
  const Doubles tag;
  const Vector w2d = hn::Set(tag, w2 * d), w2d2 = hn::Set(tag, w2 * d * d);
  for (int64_t e = 0; e < width; e += int64_t(hn::Lanes(tag))) {
    const Columns to{sums, width, e};
    const Vector value = hn::LoadU(tag, v + e), square = hn::Mul(value, value);
    to.add(0, hn::Set(tag, w), value);
    to.add(1, hn::Set(tag, w2), square);
    to.add(2, hn::Set(tag, w2), value);
    to.add(3, w2d, square);
    to.add(4, w2d, value);
    to.add(5, w2d2, square);
    to.add(6, w2d2, value);
  }
}

void FadeSums(double fade, double age, int64_t width, double* HWY_RESTRICT sums) {
  const Doubles tag;
  const Vector fade2 = hn::Set(tag, fade * fade), once = hn::Set(tag, age);
  for (int64_t e = 0; e < width; e += int64_t(hn::Lanes(tag))) {
    const Columns at{sums, width, e};
    at.put(0, hn::Mul(hn::Set(tag, fade), at.get(0)));
    for (const int64_t square : {1, 2}) {  // (d + age)^2 = d^2 + age (2 d + age)
      const Vector d0 = at.get(square), d1 = at.get(square + 2), d2 = at.get(square + 4);
      at.put(square, hn::Mul(fade2, d0));
      at.put(square + 2, hn::Mul(fade2, hn::MulAdd(once, d0, d1)));
      at.put(square + 4,
             hn::Mul(fade2, hn::MulAdd(once, hn::MulAdd(once, d0, hn::Add(d1, d1)), d2)));
    }
  }
}

void WeighFading(const Fading& fading, const double* HWY_RESTRICT sums, int64_t width,
                 double* HWY_RESTRICT of_code, double* HWY_RESTRICT row) {
  const Doubles tag;
  const Vector x = hn::Set(tag, fading.x), x2 = hn::Mul(x, x);
  const Vector e2 = hn::Set(tag, fading.e2), e2d = hn::Set(tag, fading.e2d),
               e2d2 = hn::Set(tag, fading.e2d2);
  for (int64_t e = 0; e < width; e += int64_t(hn::Lanes(tag))) {
    const Columns to{row, width, e};
    auto from = [&](int64_t which) { return hn::LoadU(tag, sums + which * width + e); };
    const Vector value = hn::Mul(x, from(0)), square = from(1), once = from(2);
    hn::StoreU(hn::Add(value, hn::LoadU(tag, of_code + e)), tag, of_code + e);
    to.put(kOutput, hn::Add(to.get(kOutput), value));
    to.add(kP2V2, x2, square);
    to.add(kP2V, x2, once);
    to.add(kE2V2, e2, square);
    to.add(kE2V, e2, once);
    to.add(kE2V2, e2d, from(3));
    to.add(kE2V, e2d, from(4));
    to.add(kE2V2, e2d2, from(5));
    to.add(kE2V, e2d2, from(6));
  }
}

void ShareFading(double e2, double p, const double* HWY_RESTRICT of_code, int64_t width,
                 double* HWY_RESTRICT row) {
  const Doubles tag;
  const Vector all = hn::Set(tag, e2 * p);
  for (int64_t e = 0; e < width; e += int64_t(hn::Lanes(tag))) {
    const Columns to{row, width, e};
    const Vector value = hn::LoadU(tag, of_code + e);
    to.add(kShared2, hn::Mul(hn::Set(tag, e2), value), value);
    to.add(kShared1, all, value);
  }
}

}  // namespace attest::core::codebook::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attest::core::codebook {
HWY_EXPORT(Add);
HWY_EXPORT(Weigh);
HWY_EXPORT(AddFading);
HWY_EXPORT(FadeSums);
HWY_EXPORT(WeighFading);
HWY_EXPORT(ShareFading);

void add(const double* v, double sign, int64_t width, double* sum, double* squares) {
  HWY_DYNAMIC_DISPATCH(Add)(v, sign, width, sum, squares);
}
void weigh(const Groups& groups, double* o, double* rounding, double* score, double* p2v2) {
  HWY_DYNAMIC_DISPATCH(Weigh)(groups, o, rounding, score, p2v2);
}
void add_fading(const double* v, double w, double w2, double d, int64_t width, double* sums) {
  HWY_DYNAMIC_DISPATCH(AddFading)(v, w, w2, d, width, sums);
}
void fade_sums(double fade, double age, int64_t width, double* sums) {
  HWY_DYNAMIC_DISPATCH(FadeSums)(fade, age, width, sums);
}
void weigh_fading(const Fading& fading, const double* sums, int64_t width, double* of_code,
                  double* row) {
  HWY_DYNAMIC_DISPATCH(WeighFading)(fading, sums, width, of_code, row);
}
void share_fading(double e2, double p, const double* of_code, int64_t width, double* row) {
  HWY_DYNAMIC_DISPATCH(ShareFading)(e2, p, of_code, width, row);
}
}  // namespace attest::core::codebook
#endif
