#include "reports/history/history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "reports/words/units.hpp"

namespace attest::reports {
namespace {

/// A commit that was measured, then another, then the first again: empty if there is none.
std::string returned_commit(const std::vector<HistoryPoint>& points) {
  std::set<std::string> left;
  for (size_t i = 1; i < points.size(); ++i) {
    if (points[i].commit == points[i - 1].commit) continue;
    left.insert(points[i - 1].commit);
    if (left.contains(points[i].commit)) return points[i].commit;
  }
  return {};
}

std::vector<std::string> warnings_of(const std::vector<HistoryPoint>& points) {
  std::vector<std::string> warnings;
  if (const std::string commit = returned_commit(points); !commit.empty())
    warnings.push_back(
        fmt::format("commit {} was measured before and after another one: the order is that of the "
                    "times at which runs began, and a clock may have been set back",
                    commit));
  const auto no_value = std::ranges::count_if(points, [](const HistoryPoint& point) {
    return std::ranges::none_of(kQuantities,
                                [&](Quantity q) { return value_of(point, q).has_value(); });
  });
  if (no_value > 0)
    warnings.push_back(
        fmt::format("{} of {} runs have no value: they did not pass, or were judged "
                    "alone",
                    no_value, points.size()));
  return warnings;
}

}  // namespace

std::string SeriesKey::name() const {
  return fmt::format("{}{}{} {} {}", suite, suite.empty() ? "" : "/", case_name, dtype, impl);
}

bool HistoryPoint::same_build(const HistoryPoint& other) const {
  return commit == other.commit && plugin_hash == other.plugin_hash;
}

std::string name(Quantity quantity) {
  switch (quantity) {
    case Quantity::kTime: return "time";
    case Quantity::kMemory: return "memory";
    case Quantity::kError: return "error";
  }
  return {};
}

std::string print_value(Quantity quantity, double value) {
  switch (quantity) {
    case Quantity::kTime: return print_time(value);
    case Quantity::kMemory: return print_bytes(value);
    case Quantity::kError: return fmt::format("{:.3g} of the gate", value);
  }
  return {};
}

std::optional<double> value_of(const HistoryPoint& point, Quantity quantity) {
  switch (quantity) {
    case Quantity::kTime: return point.time_ns;
    case Quantity::kMemory: return point.memory_bytes;
    case Quantity::kError: return point.error_ratio;
  }
  return {};
}

const HistoryPoint& CaseHistory::point(const HistoryLine& line, size_t place) const {
  return series.points[line.at[place]];
}

const HistoryPoint& CaseHistory::before(const HistoryLine& line, const core::Step& step) const {
  return point(line, step.drift ? step.from : step.at - 1);
}

const HistoryPoint& CaseHistory::after(const HistoryLine& line, const core::Step& step) const {
  return point(line, step.drift ? step.to - 1 : step.at);
}

bool CaseHistory::has_steps() const {
  return std::ranges::any_of(lines,
                             [](const HistoryLine& line) { return !line.steps.steps.empty(); });
}

CaseHistory history_of(HistorySeries series, const core::StepRule& rule) {
  CaseHistory history{std::move(series), {}, {}};
  const std::vector<HistoryPoint>& points = history.series.points;
  history.warnings = warnings_of(points);
  for (const Quantity quantity : kQuantities) {
    HistoryLine line{.quantity = quantity, .at = {}, .values = {}, .steps = {}};
    for (size_t i = 0; i < points.size(); ++i)
      if (const std::optional<double> value = value_of(points[i], quantity)) {
        line.at.push_back(i);
        line.values.push_back(*value);
      }
    if (line.at.empty()) continue;
    line.steps = core::find_steps(line.values, rule);
    history.lines.push_back(std::move(line));
  }
  return history;
}

std::string print_change(double before, double after) {
  if (before == 0) return "from 0";
  return fmt::format("{:+.1f} %", 100 * (after - before) / std::abs(before));
}

}  // namespace attest::reports
