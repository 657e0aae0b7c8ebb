#include "core/run/phase.hpp"

#include <algorithm>

#include "core/statistics/deadline.hpp"

namespace attest::core {
namespace {

constexpr double kShares[] = {0.5, 0.9, 0.99, 0.999};
constexpr int kOtherRates_hz[] = {10, 12, 15, 20, 30};

std::vector<PercentileRecord> percentiles_of(std::vector<double> latencies) {
  std::ranges::sort(latencies);
  std::vector<PercentileRecord> records;
  for (const double share : kShares) {
    const Percentile p = percentile(latencies, share);
    records.push_back({p.share, p.value, p.low, p.high, p.coverage, p.claimed, p.needed});
  }
  return records;
}

PolicyRecord policy_record(const std::string& policy, const PlayedFrames& played,
                           double period_ns) {
  return {.policy = policy,
          .frames = int64_t(played.latency.size()) + played.dropped,
          .dropped = played.dropped,
          .missed = played.missed(period_ns),
          .max_latency_ns = *std::ranges::max_element(played.latency),
          .max_age_ns = *std::ranges::max_element(played.age),
          .percentiles = percentiles_of(played.latency)};
}

}  // namespace

PhaseRecord phase_record(std::span<const double> starts_ns, std::span<const double> ends_ns,
                         double period_ns) {
  PhaseRecord phase;
  PlayedFrames measured;
  for (size_t i = 0; i < starts_ns.size(); ++i) {
    const double arrival = double(i) * period_ns;
    phase.processing_time_ns.push_back(ends_ns[i] - starts_ns[i]);
    measured.latency.push_back(ends_ns[i] - arrival);
    measured.age.push_back(std::max(0.0, starts_ns[i] - arrival));
  }
  phase.latency_ns = measured.latency;
  const std::vector<FrameWork> works = frame_works(starts_ns, ends_ns, period_ns);
  phase.policies.push_back(policy_record("queue-all", measured, period_ns));
  phase.policies.push_back(policy_record("latest-only", latest_only(works, period_ns), period_ns));
  for (const int hz : kOtherRates_hz)
    phase.missed_by_hz[std::to_string(hz)] = queue_all(works, 1e9 / hz).missed(1e9 / hz);
  return phase;
}

}  // namespace attest::core
