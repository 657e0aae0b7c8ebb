#include "reports/scaling/scaling_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/words/units.hpp"

namespace attest::reports {
namespace {

using core::LargestSize;
using core::PowerLaw;

constexpr double kLawCoverage = 0.95;

// "n^2.00 [1.98 2.02]".
std::string print_law(const PowerLaw& law) {
  if (!law.fitted()) return {};
  std::string text = fmt::format("n^{:.2f} [{:.2f} {:.2f}]", law.exponent, law.low, law.high);
  if (law.coverage < kLawCoverage) text += fmt::format(" {:.0f}%", 100 * law.coverage);
  return text;
}

std::string print_time_law(const ScalingSeries& series) {
  const PowerLaw& law = series.laws.time;
  if (law.fitted()) return print_law(law);
  return series.times().empty() ? "" : "few points";
}

std::string print_from(const ScalingSeries& series) {
  const PowerLaw& law = series.laws.time;
  return law.fitted() ? fmt::format("{:.0f}", law.from) : "";
}

// The law of an amount of memory; its range where it has none.
std::string print_memory_law(const ScalingSeries& series, const PowerLaw& law,
                             double (*bytes)(const ScalingPoint&)) {
  if (law.fitted()) return print_law(law);
  double least = 0, most = 0;
  bool any = false;
  for (const ScalingPoint& point : series.points) {
    if (!point.own_memory_bytes) continue;
    least = any ? std::min(least, bytes(point)) : bytes(point);
    most = any ? std::max(most, bytes(point)) : bytes(point);
    any = true;
  }
  if (!any) return {};
  return least == most ? print_bytes(most)
                       : fmt::format("{} .. {}", print_bytes(least), print_bytes(most));
}

// To three digits; more of an extrapolated size would mean nothing.
std::string rounded(double size) {
  if (!std::isfinite(size) || size < 1000) return fmt::format("{:.0f}", size);
  const double unit = std::pow(10, std::floor(std::log10(size)) - 2);
  return fmt::format("{:.0f}", std::round(size / unit) * unit);
}

std::string print_largest(const LargestSize& largest) {
  using How = LargestSize::How;
  switch (largest.how) {
    case How::kUnknown: return {};
    case How::kBelow: return fmt::format("below {:.0f}", largest.high);
    case How::kBetween:
      return fmt::format("{:.0f} [{:.0f} {:.0f}]", largest.size, largest.low, largest.high);
    case How::kExtrapolated:
      return fmt::format("~{} [{} {}]", rounded(largest.size), rounded(largest.low),
                         rounded(largest.high));
    case How::kUnlimited: return fmt::format("{:.0f} or more", largest.low);
  }
  return {};
}

double total_bytes(const ScalingPoint& point) {
  return point.tensor_bytes + point.own_memory_bytes.value_or(0);
}
double own_bytes(const ScalingPoint& point) { return point.own_memory_bytes.value_or(0); }
double workspace_bytes(const ScalingPoint& point) { return point.workspace_bytes; }

template <auto kLaw, auto kBytes>
std::string memory_cell(const ScalingSeries& series) {
  return print_memory_law(series, series.laws.*kLaw, kBytes);
}

template <auto kLargest>
std::string largest_cell(const ScalingSeries& series) {
  return print_largest(series.*kLargest);
}

}  // namespace

std::vector<ScalingFact> scaling_facts(const ScalingSweep& sweep) {
  std::vector<ScalingFact> facts{
      {"time grows as", "time grows as", print_time_law},
      {"  from", "from " + sweep.over, print_from},
      {"memory", "memory grows as", memory_cell<&ScalingLaws::memory, total_bytes>},
      {"  beyond tensors", "beyond tensors", memory_cell<&ScalingLaws::own_memory, own_bytes>},
      {"  declared", "declared workspace", memory_cell<&ScalingLaws::workspace, workspace_bytes>}};
  const auto add_budget = [&](const std::string& budget, const auto& cell) {
    facts.push_back({"in " + budget, fmt::format("largest {} in {}", sweep.over, budget), cell});
  };
  if (sweep.deadline_ns)
    add_budget(print_time(*sweep.deadline_ns), largest_cell<&ScalingSeries::within_deadline>);
  if (sweep.memory_bytes)
    add_budget(print_bytes(double(*sweep.memory_bytes)),
               largest_cell<&ScalingSeries::within_memory>);
  return facts;
}

std::vector<const ScalingSeries*> supporting_series(const ScalingSweep& sweep) {
  std::vector<const ScalingSeries*> all;
  for (const ScalingSeries& series : sweep.series)
    if (std::ranges::any_of(series.points, [](const ScalingPoint& point) {
          return point.verdict != core::Verdict::kUnsupported;
        }))
      all.push_back(&series);
  return all;
}

std::vector<const ScalingPair*> told_pairs(const Scaling& scaling) {
  std::vector<const ScalingPair*> all;
  for (const ScalingPair& pair : scaling.pairs)
    if (pair.first_sweep == pair.second_sweep || !pair.found.crossings.empty())
      all.push_back(&pair);
  return all;
}

std::string print_pair(const ScalingPair& pair) {
  const core::Crossings& found = pair.found;
  const std::string range =
      fmt::format("{:.0f} to {:.0f}", found.sizes.front(), found.sizes.back());
  if (found.at_end == 0)
    return fmt::format("{} and {} are not told apart, {}", pair.first, pair.second, range);
  const std::string &faster = found.at_end < 0 ? pair.first : pair.second,
                    &slower = found.at_end < 0 ? pair.second : pair.first;
  if (found.crossings.empty())
    return fmt::format("{} is never slower than {}, {}", faster, slower, range);
  std::string text;
  for (const core::Crossing& crossing : found.crossings)
    text += fmt::format("{}{} is faster up to {:.0f}, {} from {:.0f} on", text.empty() ? "" : "; ",
                        crossing.first_was_less ? pair.first : pair.second, crossing.last,
                        crossing.first_was_less ? pair.second : pair.first, crossing.first);
  return text;
}

std::string print_strong(const StrongScaling& strong) {
  std::string text = fmt::format("{}/{} {} at {}={}:", strong.sweep, strong.impl, strong.dtype,
                                 strong.over, strong.value);
  for (const StrongScaling::Step& step : strong.steps) {
    text += fmt::format("{} {} thread{} {}", &step == strong.steps.data() ? "" : ";", step.threads,
                        step.threads == 1 ? "" : "s", print_time(step.time_ns.value));
    if (&step != strong.steps.data())
      text += fmt::format(" (speedup {:.2f}, efficiency {:.2f} [{:.2f} {:.2f}])", step.speedup,
                          step.efficiency, step.efficiency_low, step.efficiency_high);
  }
  return text;
}

std::vector<std::string> scaling_legend() {
  return {
      "n^e [low high]: exponent with its 95 % interval",
      "from: the first size from which on the time is above ten times that of the smallest problem",
      "memory: tensors and measured peak",
      "in a time or an amount of memory: the largest size that stays within it [the measured sizes "
      "below and above]; ~: extrapolated from the fit"};
}

}  // namespace attest::reports
