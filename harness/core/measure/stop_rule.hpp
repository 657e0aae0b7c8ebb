// When a timing has enough samples.
#pragma once
#include <cstddef>
#include <span>

namespace attest::core {

/// Enough: the median's 95 % interval is tight (which takes six samples at least), or the budget is
/// spent; never on one sample. Looking after every sample and stopping at the first tight interval
/// flatters it: it holds the median in 92 % of timings rather than 95 % (simulated in
/// stop_rule_test.cpp).
struct StopRule {
  double budget_ns = 0;
  double precision = 0.01;  // half width of the median's interval over the median
  size_t least_samples = 2, most_samples = 1000;
  double slow_ns = 1e9;          // where one run takes longer ...
  size_t most_slow_samples = 2;  // ... so many are enough, whatever the budget

  /// `samples_ns`: time of one run, each. `spent_ns`: what counts against the budget so far.
  bool enough(std::span<const double> samples_ns, double spent_ns) const;
};

}  // namespace attest::core
