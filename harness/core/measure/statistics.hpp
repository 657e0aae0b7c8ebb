// What a list of samples says, without assuming how they are distributed.
#pragma once
#include <cstddef>
#include <span>

namespace attest::core {

struct Summary {
  size_t count = 0;
  double min = 0, q1 = 0, median = 0, q3 = 0, max = 0, mean = 0, p90 = 0, p99 = 0;
  /// Order-statistic interval of the median and the probability that it holds it: 1 - 2 P(Binomial(n, 1/2) < k). The narrowest
  /// one of at least 95 %; where there are too few samples for that (5 or less), min .. max with what it really covers.
  double median_low = 0, median_high = 0, coverage = 0;
};

/// Quantile `q` in [0, 1] of ascending samples, at least one; linear between order statistics (Hyndman and Fan 1996, type 7).
double quantile(std::span<const double> sorted, double q);

/// `samples` in any order; of none, all fields are 0.
Summary summarise(std::span<const double> samples);

}  // namespace attest::core
