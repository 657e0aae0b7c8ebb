#include "reports/words/pacing.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/record/case_key.hpp"
#include "reports/words/sizes.hpp"
#include "reports/words/units.hpp"

namespace attest::reports {
namespace {

using core::EnergyRecord;
using core::PhaseRecord;
using core::PolicyRecord;

constexpr const char* kNoSensor = "unknown: this machine has no sensor that attest knows";

// A clock that stood still for a larger share of a series is worth a line.
constexpr double kHeldShare = 0.05;

/// " [2.90 ms 3.20 ms]", with the 99 % interval; empty without one.
std::string interval_of(const core::PercentileRecord& p) {
  if (!p.has_interval()) return "";
  return fmt::format(" [{} {}{}]", print_time(p.low_ns), print_time(p.high_ns),
                     p.high_at_least ? " or more" : "");
}

/// What is claimed of a percentile, or why nothing is. `frames`: that were worked on, or never ran.
std::string claim_of(const core::PercentileRecord& p, int64_t frames) {
  if (!p.claimed_ns && frames < p.needed)
    return fmt::format(" (not supported by {} frames: {} needed)", frames, p.needed);
  if (!p.claimed_ns) return " (no limit is known: frames never ran)";
  if (p.share <= 0.9) return "";
  return fmt::format(" (at most {} at 99 % confidence)", print_time(*p.claimed_ns));
}

std::string percentiles_of(const PolicyRecord& policy) {
  std::string text;
  for (const core::PercentileRecord& p : policy.percentiles)
    text += fmt::format("{}p{:g} {}{}{}{}", text.empty() ? "" : ", ", p.share * 100,
                        p.value_at_least ? "at least " : "", print_time(p.value_ns), interval_of(p),
                        claim_of(p, policy.frames - policy.dropped));
  return text;
}

std::string policy_line(const std::string& title, const PolicyRecord& policy) {
  std::string text = fmt::format("{}, {}: {} of {} frames missed", title, policy.policy,
                                 policy.missed, policy.frames);
  if (policy.dropped > 0) text += fmt::format(", {} of them dropped", policy.dropped);
  if (policy.never_ran > 0)
    text += fmt::format(
        ", {} of them never ran, because the series was cut while they were in the queue",
        policy.never_ran);
  return text + fmt::format("; {}, max {}{}; oldest frame used {}", percentiles_of(policy),
                            policy.never_ran > 0 ? "at least " : "",
                            print_time(policy.max_latency_ns), print_time(policy.max_age_ns));
}

std::string neighbours_of(const PhaseRecord& phase) {
  if (phase.neighbours.empty()) return "alone";
  std::string text;
  for (const core::NeighbourRecord& one : phase.neighbours) {
    text += fmt::format("{} {} ({:.3g} {}{}{})", text.empty() ? "beside" : ",", one.name, one.rate,
                        one.unit, one.remark.empty() ? "" : "; ", one.remark);
  }
  return text;
}

void add_phase(const PhaseRecord& phase, double period_ns, std::vector<std::string>& lines) {
  const std::string title = fmt::format("{:.4g}Hz {}", 1e9 / period_ns, neighbours_of(phase));
  for (const PolicyRecord& policy : phase.policies) lines.push_back(policy_line(title, policy));
  std::string missed;
  for (const auto& [hz, count] : phase.missed_by_hz)
    missed += fmt::format("{}{} at {}Hz", missed.empty() ? "" : ", ", count, hz);
  const int64_t never_ran = phase.policies.empty() ? 0 : phase.policies.front().never_ran;
  if (phase.clock_held_ns > kHeldShare * period_ns * double(phase.latency_ns.size()))
    lines.push_back(fmt::format(
        "the clock that releases frames stood still for {} in all, while attest prepared frames "
        "that were due; no latency includes that",
        print_time(phase.clock_held_ns)));
  lines.push_back(fmt::format(
      "the same delays and processing times, none dropped, would miss: {}{}", missed,
      never_ran == 0 ? "" : fmt::format(" of the {} that ran", phase.latency_ns.size())));
}

std::string print_slowdown(const core::PacedRecord& paced) {
  if (!paced.slowdown_refusal.empty())
    return fmt::format("no slowdown beside neighbours is known: {}", paced.slowdown_refusal);
  if (!paced.slowdown) return "";
  // Older records have p99.9, however many frames there were.
  std::string text = fmt::format("slowdown: p{:g} beside neighbours is {:.2f} times that alone",
                                 100 * paced.slowdown_share.value_or(0.999), *paced.slowdown);
  if (paced.slowdown_low && paced.slowdown_high)
    text += fmt::format(" [{:.2f} {:.2f}]", *paced.slowdown_low, *paced.slowdown_high);
  if (paced.slowdown_share) text += " (the highest percentile that both series support)";
  return text;
}

/// "p50 3.20 ms, p90 3.40 ms, max 3.90 ms": the median, and the highest percentile that so many
/// frames support.
std::string short_latencies_of(const PolicyRecord& policy) {
  std::string text;
  const auto show = [&](const core::PercentileRecord& p) {
    text += fmt::format("p{:g} {}{}, ", p.share * 100, p.value_at_least ? "at least " : "",
                        print_time(p.value_ns));
  };
  const core::PercentileRecord* highest = nullptr;
  for (const core::PercentileRecord& p : policy.percentiles) {
    if (&p == &policy.percentiles.front())
      show(p);
    else if (p.claimed_ns)
      highest = &p;
  }
  if (highest != nullptr) show(*highest);
  return text + fmt::format("max {}{}", policy.never_ran > 0 ? "at least " : "",
                            print_time(policy.max_latency_ns));
}

/// "12Hz alone: 0 of 120 frames missed (queue-all), 0 of 121 (latest-only); p50 ...", where the
/// latencies are those of the first policy.
std::string short_phase(const PhaseRecord& phase, double period_ns) {
  std::string text = fmt::format("{:.4g}Hz {}:", 1e9 / period_ns, neighbours_of(phase));
  for (const PolicyRecord& policy : phase.policies) {
    const bool first = &policy == &phase.policies.front();
    text += fmt::format("{} {} of {}{} ({})", first ? "" : ",", policy.missed, policy.frames,
                        first ? " frames missed" : "", policy.policy);
  }
  if (phase.policies.empty()) return text + " no frames";
  return text + "; " + short_latencies_of(phase.policies.front());
}

/// "; p99 is 1.46 times that alone", or why that is not known.
std::string short_slowdown(const core::PacedRecord& paced) {
  if (!paced.slowdown_refusal.empty())
    return fmt::format("; no slowdown is known: {}", paced.slowdown_refusal);
  if (!paced.slowdown) return "";
  return fmt::format("; p{:g} is {:.2f} times that alone",
                     100 * paced.slowdown_share.value_or(0.999), *paced.slowdown);
}

std::string short_energy(const EnergyRecord& energy) {
  if (!energy.refusal.empty()) return fmt::format("{} unknown: {}", energy.sensor, energy.refusal);
  return fmt::format("{} {:.3g} J a run, {:.3g} J of it above idle", energy.sensor,
                     energy.run_joules, energy.net_run_joules);
}

/// `tokens`: of one run; 0: not known.
std::string energy_line(const EnergyRecord& energy, int64_t tokens) {
  const std::string title = fmt::format("energy by {} ({})", energy.sensor, energy.covers);
  if (!energy.refusal.empty()) return fmt::format("{}: unknown: {}", title, energy.refusal);
  std::string text = fmt::format(
      "{}: {:.3g} J a run{}, {:.3g} J of it above idle; {} runs in {}; idle {:.3g} W before, "
      "{:.3g} W after",
      title, energy.run_joules,
      tokens > 0 ? fmt::format(" ({:.3g} J a token)", energy.run_joules / double(tokens)) : "",
      energy.net_run_joules, energy.runs, print_time(energy.window_ns), energy.idle_watts_before,
      energy.idle_watts_after);
  if (energy.polled_joules)
    text += fmt::format("; by polled power {:.2f} times as much",
                        *energy.polled_joules / energy.joules);
  return text;
}

}  // namespace

std::vector<std::string> pacing_lines(const core::Record& record) {
  std::vector<std::string> lines;
  if (record.paced) {
    const double period_ns = record.paced->period_ns;
    add_phase(record.paced->alone, period_ns, lines);
    if (record.paced->contended) add_phase(*record.paced->contended, period_ns, lines);
    if (std::string slowdown = print_slowdown(*record.paced); !slowdown.empty())
      lines.push_back(std::move(slowdown));
  }
  if (record.energy && record.energy->empty())
    lines.push_back(fmt::format("energy: {}", kNoSensor));
  if (record.energy)
    for (const EnergyRecord& energy : *record.energy)
      lines.push_back(energy_line(energy, all_tokens_of(record.spec)));
  return lines;
}

std::vector<std::string> short_pacing_lines(const core::Record& record) {
  std::vector<std::string> lines;
  if (record.paced) {
    const core::PacedRecord& paced = *record.paced;
    lines.push_back(short_phase(paced.alone, paced.period_ns));
    if (paced.contended)
      lines.push_back(short_phase(*paced.contended, paced.period_ns) + short_slowdown(paced));
  }
  if (!record.energy || record.energy->empty()) return lines;
  std::vector<std::string> sensors;
  for (const EnergyRecord& energy : *record.energy) sensors.push_back(short_energy(energy));
  lines.push_back(fmt::format("energy: {}", fmt::join(sensors, "; ")));
  return lines;
}

void FrameCounts::add(const core::Record& record) {
  unmeasured_ += record.energy && record.energy->empty();
  if (!record.paced) return;
  ++paced_;
  bool misses = add(record, record.paced->alone, "alone");
  if (record.paced->contended) misses |= add(record, *record.paced->contended, "beside other work");
  missing_ += misses;
}

bool FrameCounts::add(const core::Record& record, const PhaseRecord& phase, const char* where) {
  bool misses = false;
  for (const PolicyRecord& policy : phase.policies) {
    misses |= policy.missed > 0;
    const double share = policy.frames > 0 ? double(policy.missed) / double(policy.frames) : 0;
    if (share <= largest_share_) continue;
    largest_share_ = share;
    worst_ = fmt::format("{}: {} of {} frames ({}, {})", question_of(record).name(), policy.missed,
                         policy.frames, policy.policy, where);
  }
  return misses;
}

void FrameCounts::add(const std::vector<core::Record>& records) {
  for (const core::Record& record : records) add(record);
}

std::string FrameCounts::print() const {
  if (paced_ == 0) return "";
  if (missing_ == 0)
    return paced_ == 1 ? "the one paced record missed no frame"
                       : fmt::format("none of {} paced records missed a frame", paced_);
  if (paced_ == 1) return "frames were missed: " + worst_;
  return fmt::format("{} of {} paced records missed frames, the worst {}", missing_, paced_,
                     worst_);
}

std::string FrameCounts::print_unmeasured() const {
  if (unmeasured_ == 0) return "";
  return fmt::format("energy of {}: {}",
                     unmeasured_ == 1 ? "1 record" : fmt::format("{} records", unmeasured_),
                     kNoSensor);
}

}  // namespace attest::reports
