#include "reports/words/pacing.hpp"

#include <fmt/format.h>

#include "reports/words/units.hpp"

namespace attest::reports {
namespace {

using core::EnergyRecord;
using core::PhaseRecord;
using core::PolicyRecord;

std::string percentiles_of(const PolicyRecord& policy) {
  std::string text;
  for (const core::PercentileRecord& p : policy.percentiles) {
    text +=
        fmt::format("{}p{:g} {}", text.empty() ? "" : ", ", p.share * 100, print_time(p.value_ns));
    if (!p.claimed_ns)
      text += fmt::format(" (not supported by {} frames: {} needed)",
                          policy.frames - policy.dropped, p.needed);
    else if (p.share > 0.9)
      text += fmt::format(" (at most {} at 99 % confidence)", print_time(*p.claimed_ns));
  }
  return text;
}

std::string policy_line(const std::string& title, const PolicyRecord& policy) {
  std::string text = fmt::format("{}, {}: {} of {} frames missed", title, policy.policy,
                                 policy.missed, policy.frames);
  if (policy.dropped > 0) text += fmt::format(", {} of them dropped", policy.dropped);
  return text + fmt::format("; {}, max {}; oldest frame used {}", percentiles_of(policy),
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

void add_phase(const PhaseRecord& phase, const std::string& rate, std::vector<std::string>& lines) {
  const std::string title = fmt::format("{} {}", rate, neighbours_of(phase));
  for (const PolicyRecord& policy : phase.policies) lines.push_back(policy_line(title, policy));
  std::string missed;
  for (const auto& [hz, count] : phase.missed_by_hz)
    missed += fmt::format("{}{} at {}Hz", missed.empty() ? "" : ", ", count, hz);
  lines.push_back(
      fmt::format("the same delays and processing times, none dropped, would miss: {}", missed));
}

std::string energy_line(const EnergyRecord& energy) {
  const std::string title = fmt::format("energy by {} ({})", energy.sensor, energy.covers);
  if (!energy.refusal.empty()) return fmt::format("{}: unknown: {}", title, energy.refusal);
  std::string text = fmt::format(
      "{}: {:.3g} J a run, {:.3g} J of it above idle; {} runs in {}; idle {:.3g} W before, {:.3g} "
      "W after",
      title, energy.run_joules, energy.net_run_joules, energy.runs, print_time(energy.window_ns),
      energy.idle_watts_before, energy.idle_watts_after);
  if (energy.polled_joules)
    text += fmt::format("; by polled power {:.2f} times as much",
                        *energy.polled_joules / energy.joules);
  return text;
}

}  // namespace

std::vector<std::string> pacing_lines(const core::Record& record) {
  std::vector<std::string> lines;
  if (record.paced) {
    const std::string rate = fmt::format("{:.4g}Hz", 1e9 / record.paced->period_ns);
    add_phase(record.paced->alone, rate, lines);
    if (record.paced->contended) add_phase(*record.paced->contended, rate, lines);
    if (record.paced->slowdown)
      lines.push_back(fmt::format("p99.9 beside neighbours is {:.2f} times that alone",
                                  *record.paced->slowdown));
  }
  if (record.energy && record.energy->empty())
    lines.emplace_back("energy: unknown: this machine has no sensor that attest knows");
  if (record.energy)
    for (const EnergyRecord& energy : *record.energy) lines.push_back(energy_line(energy));
  return lines;
}

}  // namespace attest::reports
