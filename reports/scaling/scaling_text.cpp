#include "reports/scaling/scaling_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>

#include "core/tensor/walk.hpp"
#include "reports/table.hpp"

namespace attest::reports {
namespace {

using core::LargestSize;
using core::PowerLaw;
using Row = std::function<std::string(const ScalingSeries&)>;

constexpr size_t kLabelWidth = 16, kLeastWidth = 14;
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

std::string print_point(const ScalingSeries& series, int64_t value) {
  const auto at = std::ranges::find(series.points, value, &ScalingPoint::value);
  if (at == series.points.end()) return {};
  return at->time_ns ? print_time(at->time_ns->value) : std::string(name(at->verdict));
}

/// The table of one sweep. Implementations that support none of its sizes have no column.
class Table {
 public:
  explicit Table(const ScalingSweep& sweep) : over_(sweep.over) {
    for (const ScalingSeries& series : sweep.series)
      if (std::ranges::any_of(series.points, [](const ScalingPoint& point) {
            return point.verdict != core::Verdict::kUnsupported;
          }))
        columns_.push_back(&series);
  }

  /// Left out if no implementation has anything there, unless it is the row of a size.
  void row(const std::string& label, const Row& cell, bool always = false) {
    std::vector<std::string> cells;
    for (const ScalingSeries* series : columns_) cells.push_back(cell(*series));
    if (always || std::ranges::any_of(cells, [](const auto& text) { return !text.empty(); }))
      rows_.push_back({label, std::move(cells)});
  }

  std::string print() const {
    std::string text = fmt::format("  {:<{}}", over_, kLabelWidth);
    for (size_t i = 0; i < columns_.size(); ++i)
      text += fmt::format("  {:>{}}", columns_[i]->impl, width(i));
    text += "\n";
    for (const auto& [label, cells] : rows_) {
      text += fmt::format("  {:<{}}", label, kLabelWidth);
      for (size_t i = 0; i < cells.size(); ++i) text += fmt::format("  {:>{}}", cells[i], width(i));
      text.erase(text.find_last_not_of(' ') + 1);
      text += "\n";
    }
    return text;
  }

 private:
  size_t width(size_t column) const {
    size_t most = std::max(kLeastWidth, columns_[column]->impl.size());
    for (const auto& [label, cells] : rows_) most = std::max(most, cells[column].size());
    return most;
  }

  std::string over_;
  std::vector<const ScalingSeries*> columns_;
  std::vector<std::pair<std::string, std::vector<std::string>>> rows_;
};

void add_laws(const ScalingSweep& sweep, Table& table) {
  table.row("time grows as", print_time_law);
  table.row("  from", print_from);
  table.row("memory", [](const ScalingSeries& series) {
    return print_memory_law(series, series.laws.memory, [](const ScalingPoint& point) {
      return point.tensor_bytes + point.own_memory_bytes.value_or(0);
    });
  });
  table.row("  beyond tensors", [](const ScalingSeries& series) {
    return print_memory_law(series, series.laws.own_memory, [](const ScalingPoint& point) {
      return point.own_memory_bytes.value_or(0);
    });
  });
  table.row("  declared", [](const ScalingSeries& series) {
    return print_memory_law(series, series.laws.workspace,
                            [](const ScalingPoint& point) { return point.workspace_bytes; });
  });
  if (sweep.deadline_ns)
    table.row("in " + print_time(*sweep.deadline_ns),
              [](const ScalingSeries& series) { return print_largest(series.within_deadline); });
  if (sweep.memory_bytes)
    table.row("in " + print_bytes(double(*sweep.memory_bytes)),
              [](const ScalingSeries& series) { return print_largest(series.within_memory); });
}

bool is_untimed(const ScalingPoint& point) {
  return !point.time_ns && point.verdict != core::Verdict::kPass;
}

// Why some sizes have no time. A line stands for the sizes above it with the same verdict, too.
std::string print_reasons(const ScalingSweep& sweep) {
  std::string text;
  for (const ScalingSeries& series : sweep.series)
    for (size_t i = 0; i < series.points.size(); ++i) {
      const ScalingPoint& point = series.points[i];
      if (!is_untimed(point)) continue;
      const std::span rest = std::span(series.points).subspan(i);
      const bool to_the_end = std::ranges::all_of(
          rest, [&](const ScalingPoint& next) { return next.verdict == point.verdict; });
      text += fmt::format("  {} at {}{}: {}{}{}\n", series.impl, point.value,
                          to_the_end && rest.size() > 1 ? " and above" : "", name(point.verdict),
                          point.reason.empty() ? "" : ": ", point.reason);
      if (to_the_end) break;
    }
  return text;
}

std::string print_sweep(const ScalingSweep& sweep) {
  Table table(sweep);
  table.row("(smallest)", [](const ScalingSeries& series) {
    return series.launch_ns ? print_time(*series.launch_ns) : "";
  });
  for (const int64_t value : sweep.values())
    table.row(
        fmt::format("{}", value),
        [value](const ScalingSeries& series) { return print_point(series, value); }, true);
  add_laws(sweep, table);
  return sweep.title() + "\n" + table.print() + print_reasons(sweep);
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

// Pairs of different sweeps are many; only their crossovers are printed.
std::string print_pairs(const Scaling& scaling) {
  std::string text;
  for (const ScalingPair& pair : scaling.pairs) {
    if (pair.first_sweep != pair.second_sweep && pair.found.crossings.empty()) continue;
    text += fmt::format("  {}: {}\n", scaling.sweeps[pair.first_sweep].title(), print_pair(pair));
  }
  return text.empty() ? text : "\ncrossovers\n" + text;
}

std::string print_strong(const StrongScaling& strong) {
  std::string text = fmt::format("  {}/{} {} at {}={}:", strong.sweep, strong.impl, strong.dtype,
                                 strong.over, strong.value);
  for (const StrongScaling::Step& step : strong.steps) {
    text += fmt::format("{} {} thread{} {}", &step == strong.steps.data() ? "" : ";", step.threads,
                        step.threads == 1 ? "" : "s", print_time(step.time_ns.value));
    if (&step != strong.steps.data())
      text += fmt::format(" (speedup {:.2f}, efficiency {:.2f} [{:.2f} {:.2f}])", step.speedup,
                          step.efficiency, step.efficiency_low, step.efficiency_high);
  }
  return text + "\n";
}

constexpr const char* kLegend =
    "n^e [low high]: exponent with its 95 % interval, fitted from the first size on from which "
    "the\n"
    "  time is above ten times that of the smallest problem; memory: tensors and measured peak;\n"
    "  in 50 ms: the largest size [between two measured ones]; ~: extrapolated from the fit\n";

nlohmann::json law_json(const PowerLaw& law) {
  nlohmann::json json{
      {"code", law.code}, {"points", law.points}, {"from", law.from}, {"to", law.to}};
  if (law.fitted())
    json.update({{"exponent", core::number(law.exponent)},
                 {"low", core::number(law.low)},
                 {"high", core::number(law.high)},
                 {"coverage", law.coverage}});
  return json;
}

nlohmann::json largest_json(const LargestSize& largest) {
  constexpr const char* kHow[] = {"unknown", "below", "between", "extrapolated", "unlimited"};
  return {{"how", kHow[int(largest.how)]},
          {"size", core::number(largest.size)},
          {"low", core::number(largest.low)},
          {"high", core::number(largest.high)}};
}

nlohmann::json series_json(const ScalingSeries& series) {
  nlohmann::json points = nlohmann::json::array();
  for (const ScalingPoint& point : series.points) {
    nlohmann::json json{{"value", point.value},
                        {"verdict", name(point.verdict)},
                        {"tensor_bytes", point.tensor_bytes},
                        {"workspace_bytes", point.workspace_bytes}};
    if (point.time_ns) json["median_ns"] = point.time_ns->value;
    if (point.own_memory_bytes) json["own_memory_bytes"] = *point.own_memory_bytes;
    if (!point.reason.empty()) json["reason"] = point.reason;
    points.push_back(std::move(json));
  }
  nlohmann::json json{{"impl", series.impl},
                      {"points", std::move(points)},
                      {"time", law_json(series.laws.time)},
                      {"memory", law_json(series.laws.memory)},
                      {"own_memory", law_json(series.laws.own_memory)},
                      {"workspace", law_json(series.laws.workspace)}};
  if (series.launch_ns) json["launch_ns"] = *series.launch_ns;
  if (series.within_deadline.how != LargestSize::How::kUnknown)
    json["within_deadline"] = largest_json(series.within_deadline);
  if (series.within_memory.how != LargestSize::How::kUnknown)
    json["within_memory"] = largest_json(series.within_memory);
  if (!series.finding.empty()) json["finding"] = series.finding;
  return json;
}

nlohmann::json sweep_json(const ScalingSweep& sweep) {
  nlohmann::json json{{"suite", sweep.suite},     {"sweep", sweep.sweep},
                      {"over", sweep.over},       {"dtype", sweep.dtype},
                      {"threads", sweep.threads}, {"series", nlohmann::json::array()}};
  if (sweep.deadline_ns) json["deadline_ns"] = *sweep.deadline_ns;
  if (sweep.memory_bytes) json["memory_bytes"] = *sweep.memory_bytes;
  for (const ScalingSeries& series : sweep.series) json["series"].push_back(series_json(series));
  return json;
}

nlohmann::json pair_json(const ScalingPair& pair) {
  nlohmann::json crossings = nlohmann::json::array();
  for (const core::Crossing& crossing : pair.found.crossings)
    crossings.push_back({{"last", crossing.last},
                         {"first", crossing.first},
                         {"faster_before", crossing.first_was_less ? pair.first : pair.second}});
  return {{"first", pair.first},
          {"second", pair.second},
          {"sweeps", {pair.first_sweep, pair.second_sweep}},
          {"sizes", pair.found.sizes},
          {"at_end", pair.found.at_end},
          {"crossings", std::move(crossings)}};
}

nlohmann::json strong_json(const StrongScaling& strong) {
  nlohmann::json steps = nlohmann::json::array();
  for (const StrongScaling::Step& step : strong.steps)
    steps.push_back({{"threads", step.threads},
                     {"median_ns", step.time_ns.value},
                     {"speedup", core::number(step.speedup)},
                     {"efficiency", core::number(step.efficiency)},
                     {"efficiency_low", core::number(step.efficiency_low)},
                     {"efficiency_high", core::number(step.efficiency_high)}});
  return {{"suite", strong.suite},    {"sweep", strong.sweep}, {"over", strong.over},
          {"dtype", strong.dtype},    {"impl", strong.impl},   {"value", strong.value},
          {"steps", std::move(steps)}};
}

}  // namespace

std::string print_scaling(const Scaling& scaling) {
  if (scaling.sweeps.empty()) return "no record is of a sweep; attest scale makes such records\n";
  std::string text, findings;
  for (const ScalingSweep& sweep : scaling.sweeps) {
    text += (text.empty() ? "" : "\n") + print_sweep(sweep);
    for (const ScalingSeries& series : sweep.series)
      if (!series.finding.empty())
        findings += fmt::format("  {}: {}: {}\n", sweep.title(), series.impl, series.finding);
  }
  text += print_pairs(scaling);
  if (!scaling.strong.empty()) text += "\nscaling over threads\n";
  for (const StrongScaling& strong : scaling.strong) text += print_strong(strong);
  if (!findings.empty()) text += "\nfindings\n" + findings;
  return text + "\n" + kLegend;
}

nlohmann::json to_json(const Scaling& scaling) {
  nlohmann::json json{{"type", "scaling"},
                      {"sweeps", nlohmann::json::array()},
                      {"pairs", nlohmann::json::array()},
                      {"strong", nlohmann::json::array()}};
  for (const ScalingSweep& sweep : scaling.sweeps) json["sweeps"].push_back(sweep_json(sweep));
  for (const ScalingPair& pair : scaling.pairs) json["pairs"].push_back(pair_json(pair));
  for (const StrongScaling& strong : scaling.strong) json["strong"].push_back(strong_json(strong));
  return json;
}

}  // namespace attest::reports
