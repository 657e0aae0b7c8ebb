// One copy of this loop for each instruction set; the first call picks the best that the machine
// has.
#include "core/tensor/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/operations/linear/feature_map.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again for each target.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "core/operations/linear/feature_map.hpp"

HWY_BEFORE_NAMESPACE();
namespace attest::core::linear::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using Doubles = hn::CappedTag<double, size_t(kLanes)>;
using Vector = hn::Vec<Doubles>;

void FeatureMap(const double* x, int64_t count, double* phi, double* widest) {
  const Doubles tag;
  const Vector one = hn::Set(tag, 1.0);
  for (int64_t i = 0; i < count; i += int64_t(hn::Lanes(tag))) {
    const Vector value = hn::LoadU(tag, x + i);
    const Vector below = hn::Exp(tag, hn::Min(value, hn::Zero(tag)));
    const Vector mapped = hn::IfThenElse(hn::Lt(value, hn::Zero(tag)), below, hn::Add(value, one));
    const Vector top = hn::Max(mapped, one);
    hn::StoreU(mapped, tag, phi + i);
    hn::StoreU(hn::Mul(top, top), tag, widest + i);
  }
}

}  // namespace attest::core::linear::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attest::core::linear {
HWY_EXPORT(FeatureMap);

void feature_map(const double* x, int64_t count, double* phi, double* widest) {
  HWY_DYNAMIC_DISPATCH(FeatureMap)(x, count, phi, widest);
}
}  // namespace attest::core::linear
#endif
