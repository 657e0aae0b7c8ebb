// How much the addends of a coarse sum round alike.
//
//   Phases phases;
//   for (double p : addends) phases.add(p / ulp_of_the_sum);
//   phases.alike(count)
#pragma once
#include <complex>

namespace attest::core {

/// A sum that was rounded is a multiple of its ulp. So the error of the next addition depends on
/// the addend modulo the ulp alone: it is a sawtooth of p / ulp, whose mean over the addends does
/// not average out. Let m_k be the mean of exp(2 pi i k p / ulp) over the addends. Harmonic k of
/// the sawtooth has the amplitude 1 / k. If the shift that all addends share is unknown, the square
/// of that mean is therefore (6 / pi^2) * sum over k of abs(m_k)^2 / k^2 of what it is for equal
/// addends. Phases leaves out the factor 6 / pi^2, adds up the first four harmonics, and cuts the
/// sum at 1. The result is an upper bound: it is exact for equal addends, and up to 1.6 times too
/// large for others. The ulp doubles while the sum grows. The harmonics of the ulp before are the
/// even ones of the last.
class Phases {
 public:
  /// Adds `count` addends of `turns` ulps each.
  void add(double turns, double count = 1);
  /// The chance that two of `addends` round alike, at most 1. Those that were not added round like
  /// no other.
  double alike(double addends) const;

 private:
  static constexpr int kHarmonics = 4;
  std::complex<double> sums_[kHarmonics];  // of exp(2 pi i k turns)
  double count_ = 0;
};

/// Whether sums with a unit roundoff of `u` are so coarse that addends may round alike.
inline bool are_coarse(double u) { return u > 0x1p-16; }
/// The ulp of a sum with a unit roundoff of `u`.
double ulp_of(double u, double sum);
/// The variance of the error of a sum of `steps` additions that all have the ulp of its end.
/// `alike`: the chance that two additions round alike. `most`: what the sum loses at most.
double alike_variance(double ulp, double steps, double most, double alike);

}  // namespace attest::core
