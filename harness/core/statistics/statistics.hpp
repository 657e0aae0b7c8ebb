// Statistics of samples that assume no distribution.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

namespace attest::core {

struct Summary {
  size_t count = 0;
  double min = 0, q1 = 0, median = 0, q3 = 0, max = 0, mean = 0, p10 = 0, p90 = 0, p99 = 0;
  /// Confidence interval of the median from order statistics. `coverage` is the probability that it
  /// contains the median: 1 - 2 P(Binomial(n, 1/2) < k). It is the narrowest interval with at least
  /// the wanted coverage. With too few samples for that (5 or less for 95 %, 7 or less for 99 %),
  /// it is min .. max, with a lower coverage.
  double median_low = 0, median_high = 0, coverage = 0;
};

/// Quantile `q` in [0, 1] of at least one sample, in ascending order. Linear between order
/// statistics (Hyndman and Fan 1996, type 7).
double quantile(std::span<const double> sorted, double q);

/// `samples` may be in any order. Without samples, all fields are 0.
Summary summarise(std::span<const double> samples, double wanted_coverage = 0.95);

/// P(Binomial(n, 1/2) >= hits): the probability that at least `hits` of n samples lie above the
/// median of their distribution.
double sign_test(size_t n, size_t hits);

/// The p-values adjusted for multiple testing, in the same order. If all null hypotheses are true,
/// the smallest adjusted value is below a with a probability of at most a (Holm, "A simple
/// sequentially rejective multiple test procedure", Scand. J. Statistics 6, 1979).
std::vector<double> holm(std::span<const double> p);

}  // namespace attest::core
