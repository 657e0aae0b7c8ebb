// Samples with the clock rate at which they were taken, and which of them count.
#pragma once
#include <span>
#include <vector>

namespace attest::core {

struct ClockedSample {
  double run_ns = 0;
  double clock_mhz = 0;  // 0: not known
};

/// The times of the samples whose clock was at most 10 % below the highest, and of those whose
/// clock is not known. If that would be less than half of the samples, returns all: the machine
/// then cannot sustain the higher clock.
std::vector<double> at_full_clock(std::span<const ClockedSample> samples);

/// The median of the known clock rates; 0: none is known.
double median_mhz(std::span<const ClockedSample> samples);

}  // namespace attest::core
