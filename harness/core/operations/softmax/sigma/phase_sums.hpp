// Sums of numbers on the unit circle, in vectors: what Phases adds for many addends at once.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace attest::core::kernels {

/// Harmonics that Phases and sum_phases know.
inline constexpr int kPhaseHarmonics = 4;

/// Adds size exp(2 pi i k turns) of `count` addends to harmonic k = 1 to 4, to 6e-6 of each size:
/// real parts to sums[2 k - 2], imaginary ones to sums[2 k - 1]. `turns`: finite, and at least 0.
void sum_phases(const double* turns, const double* sizes, int64_t count,
                double sums[2 * kPhaseHarmonics]);

/// An addend of each channel c: weight row[c], `count` times.
struct ChannelAddend {
  double weight;
  const double* row;
  double count;
};

/// Sums over addends, for up to 8 channels: what Phases has of one sum.
struct ChannelPhases {
  static constexpr size_t kChannels = 8;
  using Sums = double[kChannels];
  Sums addends = {};                      // how many are numbers; only these count in what follows
  Sums alone = {};                        // the sum of count share^2
  Sums phases[2 * kPhaseHarmonics] = {};  // as sum_phases has them
};

/// Adds addends to the sums of channels `first` to first + width - 1; width <= kChannels.
/// `per_ulp`, [width]: 1 / ulp. An addend has abs(weight row[c]) / ulp turns. Its share is 1, or
/// sqrt(12) times its turns where that is less: an addend far below an ulp errs by no more than
/// itself. A negative addend has a negative share, because the sawtooth is odd.
void sum_channel_phases(std::span<const ChannelAddend> addends, size_t first, size_t width,
                        const double* per_ulp, ChannelPhases& sums);

}  // namespace attest::core::kernels
