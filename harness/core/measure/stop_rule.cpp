#include "core/measure/stop_rule.hpp"

#include "core/statistics/statistics.hpp"

namespace attest::core {

bool StopRule::enough(std::span<const double> samples_ns, double spent_ns) const {
  const size_t count = samples_ns.size();
  if (count < 2 || count < least_samples) return false;
  if (count >= most_samples || spent_ns >= budget_ns) return true;
  const Summary s = summarise(samples_ns);
  if (s.median > slow_ns) return count >= most_slow_samples;
  return s.coverage >= 0.95 && s.median_high - s.median_low <= 2 * precision * s.median;
}

}  // namespace attest::core
