// Sums of numbers on the unit circle, in vectors: what Phases adds for many addends at once.
#pragma once
#include <cstdint>

namespace attest::core::kernels {

/// Harmonics that Phases and sum_phases know.
inline constexpr int kPhaseHarmonics = 4;

/// Adds size exp(2 pi i k turns) of `count` addends to harmonic k = 1 to 4, to 1e-6 of each:
/// real parts to sums[2 k - 2], imaginary ones to sums[2 k - 1]. `turns`: finite, and at least 0.
void sum_phases(const double* turns, const double* sizes, int64_t count,
                double sums[2 * kPhaseHarmonics]);

}  // namespace attest::core::kernels
