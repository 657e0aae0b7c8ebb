#include "core/run/phase.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/statistics/deadline.hpp"

namespace attest::core {
namespace {

constexpr double kShares[] = {0.5, 0.9, 0.99, 0.999};
constexpr double kConfidence = 0.99;
constexpr int kOtherRates_hz[] = {10, 12, 15, 20, 30};

// A frame that never ran has no latency; how long it had waited is a lower bound.
std::vector<PercentileRecord> percentiles_of(const PlayedFrames& played) {
  std::vector<double> latencies = played.latency;
  latencies.insert(latencies.end(), played.waited.begin(), played.waited.end());
  std::ranges::sort(latencies);
  const double open_from = played.waited.empty() ? std::numeric_limits<double>::infinity()
                                                 : std::ranges::min(played.waited);
  std::vector<PercentileRecord> records;
  for (const double share : kShares) {
    const Percentile p = percentile(latencies, share, kConfidence, open_from);
    records.push_back({p.share, p.value, p.low, p.high, p.coverage, p.claimed, p.needed,
                       p.value_at_least, p.high_at_least});
  }
  return records;
}

PolicyRecord policy_record(const std::string& policy, const PlayedFrames& played,
                           double period_ns) {
  return {.policy = policy,
          .frames = int64_t(played.latency.size() + played.waited.size()) + played.dropped,
          .dropped = played.dropped,
          .never_ran = int64_t(played.waited.size()),
          .missed = played.missed(period_ns),
          .max_latency_ns = std::max(std::ranges::max(played.latency),
                                     played.waited.empty() ? 0 : played.waited.front()),
          .max_age_ns = std::ranges::max(played.age),
          .percentiles = percentiles_of(played)};
}

}  // namespace

PhaseRecord phase_record(std::span<const double> starts_ns, std::span<const double> ends_ns,
                         double period_ns, int64_t frames) {
  PhaseRecord phase;
  PlayedFrames measured;
  for (size_t i = 0; i < starts_ns.size(); ++i) {
    const double arrival = double(i) * period_ns;
    phase.processing_time_ns.push_back(ends_ns[i] - starts_ns[i]);
    measured.latency.push_back(ends_ns[i] - arrival);
    measured.age.push_back(std::max(0.0, starts_ns[i] - arrival));
  }
  phase.latency_ns = measured.latency;
  for (auto i = int64_t(starts_ns.size()); i < frames; ++i)
    measured.waited.push_back(std::max(0.0, ends_ns.back() - double(i) * period_ns));
  const std::vector<FrameWork> works = frame_works(starts_ns, ends_ns, period_ns);
  phase.policies.push_back(policy_record("queue-all", measured, period_ns));
  phase.policies.push_back(policy_record("latest-only", latest_only(works, period_ns), period_ns));
  // Of frames that ran: how long another one would have taken is not known.
  for (const int hz : kOtherRates_hz)
    phase.missed_by_hz[std::to_string(hz)] = queue_all(works, 1e9 / hz).missed(1e9 / hz);
  return phase;
}

namespace {

// Why no percentile is claimed in both series.
std::string without_support(const PacedRecord& record) {
  const PolicyRecord &alone = record.alone.policies.front(),
                     &beside = record.contended->policies.front();
  std::string cut;
  if (alone.never_ran > 0)
    cut = fmt::format("{} of {} frames alone never ran", alone.never_ran, alone.frames);
  if (beside.never_ran > 0)
    cut += fmt::format("{}{} of {} frames beside neighbours never ran", cut.empty() ? "" : ", ",
                       beside.never_ran, beside.frames);
  if (!cut.empty()) return cut + ", so no percentile has a claim in both series";
  return fmt::format(
      "{} frames alone and {} beside neighbours support no percentile: p{:g} needs {}",
      alone.frames, beside.frames, 100 * alone.percentiles.front().share,
      alone.percentiles.front().needed);
}

}  // namespace

void set_slowdown(PacedRecord& record) {
  const PhaseRecord& loaded = record.contended.value();
  for (const NeighbourRecord& neighbour : loaded.neighbours) {
    if (neighbour.remark.empty()) continue;
    record.slowdown_refusal = fmt::format("{}: {}", neighbour.name, neighbour.remark);
    return;
  }
  const auto& alone = record.alone.policies.front().percentiles;
  const auto& beside = loaded.policies.front().percentiles;
  for (size_t i = alone.size(); i-- > 0;) {
    if (!alone[i].claimed_ns || !beside[i].claimed_ns) continue;
    record.slowdown_share = alone[i].share;
    record.slowdown = beside[i].value_ns / alone[i].value_ns;
    if (alone[i].has_interval() && beside[i].has_interval() && !alone[i].high_at_least &&
        !beside[i].high_at_least) {
      record.slowdown_low = beside[i].low_ns / alone[i].high_ns;
      record.slowdown_high = beside[i].high_ns / alone[i].low_ns;
    }
    return;
  }
  record.slowdown_refusal = without_support(record);
}

}  // namespace attest::core
