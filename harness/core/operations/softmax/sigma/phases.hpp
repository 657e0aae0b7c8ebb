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
/// not average out. Harmonic k of the sawtooth has the amplitude 1 / k, so the square of that mean
/// is to that of equal addends as 6 / pi^2 times the sum of abs(mean of exp(2 pi i k p / ulp))^2 /
/// k^2 over all k, for unknown shifts of all addends. The sum over the first four, at most 1, is an
/// upper bound that is 1 for equal addends, and up to 1.6 times too large for others. While the sum
/// grows its ulp doubles: the harmonics of the ulp before are the even ones of the last.
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

}  // namespace attest::core
