// What a list of samples says, without assuming how they are distributed.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

namespace attest::core {

struct Summary {
  size_t count = 0;
  double min = 0, q1 = 0, median = 0, q3 = 0, max = 0, mean = 0, p90 = 0, p99 = 0;
  /// Order-statistic interval of the median and the probability that it holds it: 1 - 2
  /// P(Binomial(n, 1/2) < k). The narrowest one of at least the wanted coverage; where there are
  /// too few samples for that (5 or less for 95 %, 7 or less for 99 %), min .. max with what it
  /// really covers.
  double median_low = 0, median_high = 0, coverage = 0;
};

/// Quantile `q` in [0, 1] of ascending samples, at least one; linear between order statistics
/// (Hyndman and Fan 1996, type 7).
double quantile(std::span<const double> sorted, double q);

/// `samples` in any order; of none, all fields are 0.
Summary summarise(std::span<const double> samples, double wanted_coverage = 0.95);

/// P(Binomial(n, 1/2) >= hits): how likely so many of n medians, or more, lie on one side of where
/// they all belong.
double sign_test(size_t n, size_t hits);

/// Probabilities adjusted for being looked at together, in their order: where all nulls are true,
/// the least of them is below a with a probability of at most a (Holm, "A simple sequentially
/// rejective multiple test procedure", Scand. J. Statistics 6, 1979).
std::vector<double> holm(std::span<const double> p);

}  // namespace attest::core
