#include "core/measure/statistics.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <vector>

namespace attest::core {
namespace {

constexpr double kWantedCoverage = 0.95;

struct Trim {
  size_t count = 0;  // samples left out at either end
  double coverage = 0;
};

// The largest k with 1 - 2 P(Binomial(n, 1/2) <= k) >= the wanted coverage: order statistics k + 1 and n - k (from 1) bound the
// median. k = 0 where even the extremes do not reach it. Terms as logarithms, since 2^-n alone is 0 from n = 1075 on.
Trim trim_for_median(size_t n) {
  double log_term = -double(n) * std::log(2.0);  // of P(X = 0)
  double tail = std::exp(log_term);
  Trim trim{0, 1 - 2 * tail};
  for (size_t k = 0; 2 * (k + 1) < n - 1; ++k) {
    log_term += std::log(double(n - k) / double(k + 1));
    tail += std::exp(log_term);
    if (1 - 2 * tail < kWantedCoverage) break;
    trim = {k + 1, 1 - 2 * tail};
  }
  return trim;
}

}  // namespace

double quantile(std::span<const double> sorted, double q) {
  assert(!sorted.empty() && q >= 0 && q <= 1);
  const double at = q * double(sorted.size() - 1);
  const auto low = size_t(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - double(low)) * (sorted[high] - sorted[low]);
}

Summary summarise(std::span<const double> samples) {
  if (samples.empty()) return {};
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const size_t n = sorted.size();
  const Trim trim = trim_for_median(n);
  return {.count = n,
          .min = sorted.front(),
          .q1 = quantile(sorted, 0.25),
          .median = quantile(sorted, 0.5),
          .q3 = quantile(sorted, 0.75),
          .max = sorted.back(),
          .mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / double(n),
          .p90 = quantile(sorted, 0.9),
          .p99 = quantile(sorted, 0.99),
          .median_low = sorted[trim.count],
          .median_high = sorted[n - 1 - trim.count],
          .coverage = trim.coverage};
}

}  // namespace attest::core
