#include "core/operations/softmax/sigma/phase_sums.hpp"

#include <algorithm>
#include <cmath>

#include "core/tensor/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/operations/softmax/sigma/phase_sums.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attest::core::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::CappedTag<double, 8>;
using Vector = hn::Vec<Doubles>;

// 1 - x / divisor * tail: one step of the series of sine and cosine, x being a square.
HWY_INLINE Vector Step(Doubles d, Vector x, double divisor, Vector tail) {
  return hn::NegMulAdd(hn::Mul(x, hn::Set(d, 1 / divisor)), tail, hn::Set(d, 1.0));
}

// exp(2 pi i turns), by half of the angle, from -pi / 2 to pi / 2.
HWY_INLINE void Circle(Doubles d, Vector turns, Vector& real, Vector& imaginary) {
  const Vector one = hn::Set(d, 1.0);
  const Vector angle = hn::Mul(hn::Set(d, M_PI),
                               hn::Sub(turns, hn::Floor(hn::Add(turns, hn::Set(d, 0.5))))),
               square = hn::Mul(angle, angle);
  Vector sine = one, cosine = one;
  for (const double divisor : {110.0, 72.0, 42.0, 20.0, 6.0}) sine = Step(d, square, divisor, sine);
  for (const double divisor : {90.0, 56.0, 30.0, 12.0, 2.0})
    cosine = Step(d, square, divisor, cosine);
  sine = hn::Mul(sine, angle);
  const Vector twice = hn::Add(sine, sine);
  real = hn::NegMulAdd(twice, sine, one);
  imaginary = hn::Mul(twice, cosine);
}

// Of a vector's numbers, those beyond `count` are 0.
HWY_INLINE Vector Load(Doubles d, const double* from, int64_t count) {
  if (count >= int64_t(hn::Lanes(d))) return hn::LoadU(d, from);
  HWY_ALIGN double some[8] = {};
  std::copy_n(from, count, some);
  return hn::Load(d, some);
}

void SumPhases(const double* turns, const double* sizes, int64_t count, double* sums) {
  const Doubles d;
  const auto lanes = int64_t(hn::Lanes(d));
  Vector real1 = hn::Zero(d), real2 = real1, real3 = real1, real4 = real1;
  Vector imaginary1 = real1, imaginary2 = real1, imaginary3 = real1, imaginary4 = real1;
  for (int64_t n = 0; n < count; n += lanes) {
    Vector real, imaginary;
    Circle(d, Load(d, turns + n, count - n), real, imaginary);
    const Vector size = Load(d, sizes + n, count - n), twice = hn::Add(real, real);
    // A harmonic is twice the real part of the first times the one before, less the one before it.
    const Vector x1 = hn::Mul(size, real), y1 = hn::Mul(size, imaginary);
    const Vector x2 = hn::MulSub(twice, x1, size), y2 = hn::Mul(twice, y1);
    const Vector x3 = hn::MulSub(twice, x2, x1), y3 = hn::MulSub(twice, y2, y1);
    real1 = hn::Add(real1, x1);
    imaginary1 = hn::Add(imaginary1, y1);
    real2 = hn::Add(real2, x2);
    imaginary2 = hn::Add(imaginary2, y2);
    real3 = hn::Add(real3, x3);
    imaginary3 = hn::Add(imaginary3, y3);
    real4 = hn::Add(real4, hn::MulSub(twice, x3, x2));
    imaginary4 = hn::Add(imaginary4, hn::MulSub(twice, y3, y2));
  }
  int n = 0;
  for (const Vector& sum :
       {real1, imaginary1, real2, imaginary2, real3, imaginary3, real4, imaginary4})
    sums[n++] += hn::GetLane(hn::SumOfLanes(d, sum));
}

}  // namespace attest::core::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attest::core::kernels {

HWY_EXPORT(SumPhases);
void sum_phases(const double* turns, const double* sizes, int64_t count,
                double sums[2 * kPhaseHarmonics]) {
  HWY_DYNAMIC_DISPATCH(SumPhases)(turns, sizes, count, sums);
}

}  // namespace attest::core::kernels
#endif
