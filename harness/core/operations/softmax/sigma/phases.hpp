// How much the addends of a sum round alike.
//
//   Phases phases;
//   for (double p : addends) phases.add(p / ulp_of_the_sum);
//   phases.alike(count)
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/operations/softmax/sigma/phase_sums.hpp"

namespace attest::core {

/// Each sum that was rounded is a multiple of its ulp. So the error of the next addition depends
/// only on the addend modulo the ulp: it is a sawtooth of p / ulp. The mean of this error over the
/// addends need not be 0. Let m_k be the mean of exp(2 pi i k p / ulp) over the addends. Harmonic k
/// of the sawtooth has the amplitude 1 / k. All addends share a shift, which is unknown. The
/// expected square of the mean error is then a share of what it is for equal addends: the share is
/// (6 / pi^2) * sum over k of abs(m_k)^2 / k^2. Phases bounds this share from above. It leaves out
/// the factor 6 / pi^2, sums the first four harmonics, and limits the sum to 1. The bound is exact
/// for equal addends. For others it is too large by a factor of 1.6 at most. The ulp doubles while
/// the sum grows; the harmonics of the old ulp are the even harmonics of the new one.
class Phases {
 public:
  /// Adds `count` addends of `turns` ulps each. `share`: by how much of an ulp they err, relative
  /// to others. It is below 0 if they are negative, since the sawtooth is odd. Turns that are too
  /// many for a fraction count as 0.
  void add(double turns, double count = 1, double share = 1);
  /// The chance that two of `addends` round alike, at most 1. Those that were not added round like
  /// no other.
  double alike(double addends) const;

 private:
  // Addends wait until there are enough for vectors.
  static constexpr int kWaiting = 64;
  double turns_[kWaiting] = {}, sizes_[kWaiting] = {};  // size: count times share
  int waiting_ = 0;
  double sums_[2 * kernels::kPhaseHarmonics] = {};  // of those that wait no more: sum_phases
  double alone_ = 0;                                // the sum of count share^2
};

/// The same as Phases::alike, of the addends of one channel that are numbers.
double alike(const kernels::ChannelPhases& sums, size_t channel);

/// If addends lie anywhere in their ulps, Phases::alike is at most this number over theirs, but for
/// one sum in 400. Addends so little alike move a sum no further than independent roundings do.
inline constexpr double kAlikeByChance = 6;
/// If a float32 sum has more addends than this, a sample of one in eight tells whether they lie
/// alike. The gate of independent roundings has room for what the sample overlooks.
inline constexpr size_t kSampledFrom = 1024;
inline constexpr uint32_t kSampleStep = 8;
/// Whether the sample has the addend at `index`. The sample has one of `step` addends. They are
/// spread evenly and have no period.
inline bool is_sampled(uint32_t index, uint32_t step = kSampleStep) {
  constexpr uint32_t kGoldenRatio = 2654435769;  // times 2^32
  return index * kGoldenRatio < (uint64_t{1} << 32) / step;
}

/// Whether sums with a unit roundoff of `u` are so coarse that many addends round alike by chance.
inline bool are_coarse(double u) { return u > 0x1p-16; }
/// The ulp of a sum with a unit roundoff of `u`.
double ulp_of(double u, double sum);
/// The variance of the error of a sum of `steps` additions that all have the ulp of its end.
/// `alike`: the chance that two additions round alike. `most`: what the sum loses at most.
double alike_variance(double ulp, double steps, double most, double alike);

}  // namespace attest::core
