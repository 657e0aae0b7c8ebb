#include "core/statistics/statistics.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <vector>

namespace attest::core {
namespace {

struct Trim {
  size_t count = 0;  // samples left out at either end
  double coverage = 0;
};

// P(Binomial(n, 1/2) <= k) for k = 0, 1, ... Terms as logarithms, since 2^-n alone is 0 from n =
// 1075 on.
class LowerTail {
 public:
  explicit LowerTail(size_t n)
      : n_(n), log_term_(-double(n) * std::log(2.0)), sum_(std::exp(log_term_)) {}
  double sum() const { return sum_; }
  void next() {
    log_term_ += std::log(double(n_ - k_) / double(k_ + 1));
    sum_ += std::exp(log_term_);
    ++k_;
  }

 private:
  size_t n_, k_ = 0;
  double log_term_, sum_;
};

// The largest k with 1 - 2 P(Binomial(n, 1/2) <= k) >= the wanted coverage: order statistics k + 1
// and n - k (from 1) bound the median. k = 0 where even the extremes do not reach it.
Trim trim_for_median(size_t n, double wanted_coverage) {
  LowerTail tail(n);
  Trim trim{0, 1 - 2 * tail.sum()};
  for (size_t k = 0; 2 * (k + 1) < n - 1; ++k) {
    tail.next();
    if (1 - 2 * tail.sum() < wanted_coverage) break;
    trim = {k + 1, 1 - 2 * tail.sum()};
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

Summary summarise(std::span<const double> samples, double wanted_coverage) {
  if (samples.empty()) return {};
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const size_t n = sorted.size();
  const Trim trim = trim_for_median(n, wanted_coverage);
  return {.count = n,
          .min = sorted.front(),
          .q1 = quantile(sorted, 0.25),
          .median = quantile(sorted, 0.5),
          .q3 = quantile(sorted, 0.75),
          .max = sorted.back(),
          .mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / double(n),
          .p10 = quantile(sorted, 0.1),
          .p90 = quantile(sorted, 0.9),
          .p99 = quantile(sorted, 0.99),
          .median_low = sorted[trim.count],
          .median_high = sorted[n - 1 - trim.count],
          .coverage = trim.coverage};
}

double sign_test(size_t n, size_t hits) {
  assert(hits <= n);
  LowerTail tail(n);  // by symmetry: P(X >= hits) = P(X <= n - hits)
  for (size_t k = 0; k < n - hits; ++k) tail.next();
  return std::min(tail.sum(), 1.0);
}

std::vector<double> holm(std::span<const double> p) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t i, size_t j) { return p[i] < p[j]; });
  std::vector<double> adjusted(p.size());
  double least = 0;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    least = std::max(least, std::min(1.0, double(order.size() - rank) * p[order[rank]]));
    adjusted[order[rank]] = least;
  }
  return adjusted;
}

}  // namespace attest::core
