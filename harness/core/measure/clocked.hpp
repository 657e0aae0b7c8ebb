// Samples with the clock that they were taken at, and which of them count.
#pragma once
#include <span>
#include <vector>

namespace attest::core {

struct ClockedSample {
  double run_ns = 0;
  double clock_mhz = 0;  // 0: not known
};

/// Without those whose clock was more than 10 % below the highest. All, where that would be less
/// than half: what is low most of the time is what the machine can hold. Those of an unknown clock
/// count.
std::vector<double> at_full_clock(std::span<const ClockedSample> samples);

/// The median of the clocks that are known; 0: none is.
double median_mhz(std::span<const ClockedSample> samples);

}  // namespace attest::core
