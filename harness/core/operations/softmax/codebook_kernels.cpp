// One copy of these loops for each instruction set; the first call picks the best that the machine has.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/operations/softmax/codebook_kernels.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again for each target.
#include <hwy/highway.h>

#include "core/operations/softmax/codebook_kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace attest::core::codebook::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using Doubles = hn::CappedTag<double, size_t(kLanes)>;
using Vector = hn::Vec<Doubles>;

void Add(const double* HWY_RESTRICT v, double sign, int64_t width, double* HWY_RESTRICT sum, double* HWY_RESTRICT squares) {
  const Doubles tag;
  const Vector factor = hn::Set(tag, sign);
  for (int64_t e = 0; e < width; e += int64_t(hn::Lanes(tag))) {
    const Vector value = hn::LoadU(tag, v + e), signed_value = hn::Mul(factor, value);
    hn::StoreU(hn::Add(hn::LoadU(tag, sum + e), signed_value), tag, sum + e);
    hn::StoreU(hn::MulAdd(signed_value, value, hn::LoadU(tag, squares + e)), tag, squares + e);
  }
}

void Weigh(const Groups& groups, double* HWY_RESTRICT o, double* HWY_RESTRICT rounding, double* HWY_RESTRICT score,
           double* HWY_RESTRICT p2v2) {
  const Doubles tag;
  const Vector theta = hn::Set(tag, groups.theta);
  for (int64_t e = 0; e < groups.width; e += int64_t(hn::Lanes(tag))) {
    const double *sum = groups.sum + e, *squares = groups.squares + e;
    Vector value = hn::Zero(tag), value_too = hn::Zero(tag);  // two chains hide the latency
    int64_t g = 0;
    for (; g + 2 <= groups.codes; g += 2) {
      value = hn::MulAdd(hn::Set(tag, groups.p[g]), hn::LoadU(tag, sum + g * groups.width), value);
      value_too = hn::MulAdd(hn::Set(tag, groups.p[g + 1]), hn::LoadU(tag, sum + (g + 1) * groups.width), value_too);
    }
    if (g < groups.codes) value = hn::MulAdd(hn::Set(tag, groups.p[g]), hn::LoadU(tag, sum + g * groups.width), value);
    value = hn::Add(value, value_too);
    const Vector damped = hn::Mul(theta, value);
    Vector from_p = hn::Zero(tag), from_s = hn::Zero(tag), of_squares = hn::Zero(tag);
    for (g = 0; g < groups.codes; ++g) {
      const Vector count = hn::Set(tag, groups.count[g]), p = hn::Set(tag, groups.p[g]),
                   total = hn::LoadU(tag, sum + g * groups.width);
      const Vector kept = hn::NegMulAdd(count, damped, total), away = hn::NegMulAdd(count, value, total);
      const Vector v2 = hn::LoadU(tag, squares + g * groups.width);
      // sum_j (v_j - x)^2 = squares - x (2 V - n x)
      const Vector apart = hn::NegMulAdd(damped, hn::Add(total, kept), v2);
      from_p = hn::MulAdd(hn::Set(tag, groups.a2[g]), hn::Max(hn::Mul(kept, kept), apart), from_p);
      from_s = hn::MulAdd(hn::Mul(hn::Set(tag, groups.e2[g]), away), away, from_s);
      from_s = hn::MulAdd(hn::Set(tag, groups.lone2[g]), hn::NegMulAdd(value, hn::Add(total, away), v2), from_s);
      of_squares = hn::MulAdd(hn::Mul(p, p), v2, of_squares);
    }
    for (int64_t code = 0; groups.levels > 1 && code * groups.levels < groups.codes; ++code) {
      Vector moved = hn::Zero(tag);
      for (g = code * groups.levels; g < (code + 1) * groups.levels; ++g) {
        const Vector away = hn::NegMulAdd(hn::Set(tag, groups.count[g]), value, hn::LoadU(tag, sum + g * groups.width));
        moved = hn::MulAdd(hn::Set(tag, groups.p[g]), away, moved);
      }
      from_s = hn::MulAdd(hn::Mul(hn::Set(tag, groups.shared2[code]), moved), moved, from_s);
    }
    hn::StoreU(value, tag, o + e), hn::StoreU(from_p, tag, rounding + e);
    hn::StoreU(from_s, tag, score + e), hn::StoreU(of_squares, tag, p2v2 + e);
  }
}

}  // namespace attest::core::codebook::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attest::core::codebook {
HWY_EXPORT(Add);
HWY_EXPORT(Weigh);

void add(const double* v, double sign, int64_t width, double* sum, double* squares) {
  HWY_DYNAMIC_DISPATCH(Add)(v, sign, width, sum, squares);
}
void weigh(const Groups& groups, double* o, double* rounding, double* score, double* p2v2) {
  HWY_DYNAMIC_DISPATCH(Weigh)(groups, o, rounding, score, p2v2);
}
}  // namespace attest::core::codebook
#endif
