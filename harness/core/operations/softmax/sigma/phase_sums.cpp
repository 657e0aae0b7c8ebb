#include "core/operations/softmax/sigma/phase_sums.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

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

// The sums of harmonics of size exp(2 pi i turns), by lane.
struct Harmonics {
  Vector real1, imaginary1, real2, imaginary2, real3, imaginary3, real4, imaginary4;

  explicit Harmonics(Doubles d)
      : real1(hn::Zero(d)),
        imaginary1(real1),
        real2(real1),
        imaginary2(real1),
        real3(real1),
        imaginary3(real1),
        real4(real1),
        imaginary4(real1) {}
  // A harmonic is twice the real part of the first times the one before, less the one before it.
  HWY_INLINE void Add(Doubles d, Vector turns, Vector size) {
    Vector real, imaginary;
    Circle(d, turns, real, imaginary);
    const Vector twice = hn::Add(real, real);
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
  // Calls body(n, sum) for each, in the order of sum_phases.
  template <class Body>
  HWY_INLINE void ForEach(const Body& body) const {
    body(0, real1);
    body(1, imaginary1);
    body(2, real2);
    body(3, imaginary2);
    body(4, real3);
    body(5, imaginary3);
    body(6, real4);
    body(7, imaginary4);
  }
};

void SumPhases(const double* turns, const double* sizes, int64_t count, double* sums) {
  const Doubles d;
  Harmonics harmonics(d);
  for (int64_t n = 0; n < count; n += int64_t(hn::Lanes(d)))
    harmonics.Add(d, Load(d, turns + n, count - n), Load(d, sizes + n, count - n));
  harmonics.ForEach([&](int n, Vector sum)
                        HWY_ATTR { sums[n] += hn::GetLane(hn::SumOfLanes(d, sum)); });
}

void SumChannels(std::span<const ChannelAddend> addends, size_t first, size_t width,
                 const double* per_ulp, ChannelPhases& sums) {
  const Doubles d;
  const Vector most = hn::Set(d, std::numeric_limits<double>::infinity()), one = hn::Set(d, 1.0),
               whole = hn::Set(d, 0x1p52), root = hn::Set(d, std::sqrt(12.0));
  for (size_t c = 0; c < width; c += hn::Lanes(d)) {
    const auto left = int64_t(width - c);
    const Vector scale = Load(d, per_ulp + c, left);
    Vector numbers = hn::Zero(d), alone = numbers;
    Harmonics harmonics(d);
    for (const ChannelAddend& addend : addends) {
      const Vector product =
          hn::Mul(hn::Set(d, addend.weight), Load(d, addend.row + first + c, left));
      const Vector turns = hn::Mul(hn::Abs(product), scale);
      const auto is_number = hn::Lt(turns, most);
      const Vector count = hn::IfThenElseZero(is_number, hn::Set(d, addend.count));
      const Vector share = hn::Min(hn::Mul(turns, root), one);
      const Vector size = hn::IfThenElseZero(is_number, hn::Mul(count, share));
      numbers = hn::Add(numbers, count);
      alone = hn::Add(alone, hn::IfThenElseZero(is_number, hn::Mul(size, share)));
      // What has no fraction counts as 0.
      harmonics.Add(d, hn::IfThenElseZero(hn::Lt(turns, whole), turns),
                    hn::CopySign(size, product));
    }
    const auto add = [&](Vector sum, double* to)
                         HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(d, to), sum), d, to); };
    add(numbers, sums.addends + c);
    add(alone, sums.alone + c);
    harmonics.ForEach([&](int n, Vector sum) HWY_ATTR { add(sum, sums.phases[n] + c); });
  }
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

HWY_EXPORT(SumChannels);
void sum_channel_phases(std::span<const ChannelAddend> addends, size_t first, size_t width,
                        const double* per_ulp, ChannelPhases& sums) {
  HWY_DYNAMIC_DISPATCH(SumChannels)(addends, first, width, per_ulp, sums);
}

}  // namespace attest::core::kernels
#endif
