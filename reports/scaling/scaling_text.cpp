#include "reports/scaling/scaling_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "reports/scaling/scaling_words.hpp"
#include "reports/words/units.hpp"

namespace attest::reports {
namespace {

using Cell = std::function<std::string(const ScalingSeries&)>;

constexpr size_t kLabelWidth = 16, kLeastWidth = 14;

std::string print_point(const ScalingSeries& series, int64_t value) {
  const auto at = std::ranges::find(series.points, value, &ScalingPoint::value);
  if (at == series.points.end()) return {};
  return at->time_ns ? print_time(at->time_ns->value) : std::string(name(at->verdict));
}

/// The table of one sweep. Implementations that support none of its sizes have no column.
class Table {
 public:
  explicit Table(const ScalingSweep& sweep)
      : over_(sweep.over), columns_(supporting_series(sweep)) {}

  /// Left out if no implementation has anything there, unless it is the row of a size.
  void row(const std::string& label, const Cell& cell, bool always = false) {
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
  for (const ScalingFact& fact : scaling_facts(sweep)) table.row(fact.label, fact.cell);
  return sweep.title() + "\n" + table.print() + print_reasons(sweep);
}

std::string print_pairs(const Scaling& scaling) {
  std::string text;
  for (const ScalingPair* pair : told_pairs(scaling))
    text += fmt::format("  {}: {}\n", scaling.sweeps[pair->first_sweep].title(), print_pair(*pair));
  return text.empty() ? text : "\ncrossovers\n" + text;
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
  for (const StrongScaling& strong : scaling.strong) text += "  " + print_strong(strong) + "\n";
  if (!findings.empty()) text += "\nfindings\n" + findings;
  text += "\n";
  for (const std::string& sentence : scaling_legend()) text += sentence + "\n";
  return text;
}

}  // namespace attest::reports
