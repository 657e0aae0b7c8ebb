// When a timing has enough samples.
#pragma once
#include <cstddef>
#include <span>

namespace attest::core {

/// A timing has enough samples if the median's 95 % interval is tight, which takes at least six
/// samples, or if the budget is spent. One sample is never enough. The rule looks after every
/// sample and stops at the first tight interval, so the interval contains the median in 92 % of
/// timings rather than 95 % (simulated in stop_rule_test.cpp).
struct StopRule {
  double budget_ns = 0;
  double precision = 0.01;  // half width of the median's interval over the median
  size_t least_samples = 2, most_samples = 1000;
  double slow_ns = 1e9;          // if one run takes longer than this, ...
  size_t most_slow_samples = 2;  // ... this many samples are enough

  /// `samples_ns`: the times of single runs. `spent_ns`: how much of the budget is spent.
  bool enough(std::span<const double> samples_ns, double spent_ns) const;
};

}  // namespace attest::core
