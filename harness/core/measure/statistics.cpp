#include "core/measure/statistics.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <vector>

namespace attest::core {
namespace {

constexpr double kWantedCoverage = 0.95;

// The largest k with 1 - 2 P(Binomial(n, 1/2) <= k) >= the wanted coverage: order statistics k + 1 and n - k (from 1) bound the
// median. 0 where even the extremes do not reach it.
size_t trimmed(size_t n, double& coverage) {
  const double log_half_n = -double(n) * std::log(2.0);
  double tail = std::exp(log_half_n);  // P(X = 0)
  coverage = 1 - 2 * tail;
  double term = tail;
  size_t k = 0;
  while (k + 1 < n - k - 1) {
    term *= double(n - k) / double(k + 1);
    const double next = tail + term;
    if (1 - 2 * next < kWantedCoverage) break;
    tail = next, coverage = 1 - 2 * tail, ++k;
  }
  return k;
}

}  // namespace

double quantile(std::span<const double> sorted, double q) {
  assert(!sorted.empty());
  const double at = q * double(sorted.size() - 1);
  const auto low = size_t(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - double(low)) * (sorted[high] - sorted[low]);
}

Summary summarise(std::span<const double> samples) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  Summary s{.count = sorted.size(), .min = sorted.front(), .q1 = quantile(sorted, 0.25), .median = quantile(sorted, 0.5), .q3 = quantile(sorted, 0.75), .max = sorted.back(),
            .mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / double(sorted.size())};
  // Beyond some thousand samples exp(-n log 2) is 0 and the recurrence says nothing; the normal approximation is exact enough there.
  size_t k = 0;
  if (s.count <= 1000) k = trimmed(s.count, s.coverage);
  else k = size_t(double(s.count) / 2 - 0.98 * std::sqrt(double(s.count)) - 1), s.coverage = kWantedCoverage;
  if (s.count == 1) s.coverage = 0;
  s.median_low = sorted[k], s.median_high = sorted[s.count - 1 - k];
  return s;
}

}  // namespace attest::core
