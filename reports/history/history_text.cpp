#include "reports/history/history_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/statistics/statistics.hpp"
#include "reports/words/escape.hpp"

namespace attest::reports {
namespace {

using core::Step;
using nlohmann::json;

std::string remark_of(const CaseHistory& history, const HistoryLine& line, const Step& step) {
  const HistoryPoint &before = history.before(line, step), &after = history.after(line, step);
  std::string remark = fmt::format("after commit {}", before.commit);
  if (step.drift)
    remark = fmt::format("until {}, commit {}", after.started, after.commit);
  else if (before.same_build(after))
    remark = "the same build on both sides: something outside it changed";
  else if (before.commit == after.commit)
    remark = fmt::format("another build of the library: {}, before {}", after.plugin_hash,
                         before.plugin_hash);
  if (!step.drift && before.commit != after.commit && before.plugin_hash != after.plugin_hash)
    remark += ", and another build of the library";
  if (step.uncertain) remark += "; uncertain, near an end of the series";
  return remark;
}

HistoryRow row_of(const CaseHistory& history, const HistoryLine& line, const Step& step) {
  const HistoryPoint& first = step.drift ? history.before(line, step) : history.after(line, step);
  return {.quantity = name(line.quantity),
          .what = step.drift ? "drift" : "step",
          .started = first.started,
          .commit = first.commit,
          .before = print_value(line.quantity, step.before),
          .after = print_value(line.quantity, step.after),
          .change = print_change(step.before, step.after),
          .remark = remark_of(history, line, step),
          .is_step = true};
}

HistoryRow level_row(const HistoryLine& line) {
  HistoryRow row{.quantity = name(line.quantity), .what = "no step"};
  row.after = print_value(line.quantity, core::summarise(line.values).median);
  if (!line.steps.long_enough) {
    row.what = "too few runs";
    row.remark = fmt::format("{} of at least {}", line.values.size(), core::least_values());
  }
  return row;
}

std::string print_rows(const std::vector<HistoryRow>& rows) {
  std::vector<std::vector<std::string>> lines{history_columns()};
  for (const HistoryRow& row : rows) {
    lines.push_back(cells_of(row));
    for (std::string& cell : lines.back()) cell = printable(cell);
  }
  std::vector<size_t> widths(lines[0].size());
  for (const auto& line : lines)
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  std::string text;
  for (const auto& line : lines) {
    std::string one;
    for (size_t i = 0; i < line.size(); ++i) one += fmt::format("  {:<{}}", line[i], widths[i]);
    one.erase(one.find_last_not_of(' ') + 1);
    text += one + "\n";
  }
  return text;
}

json point_json(const HistoryPoint& point) {
  json one{{"started", point.started},
           {"commit", point.commit},
           {"plugin_hash", point.plugin_hash},
           {"verdict", point.verdict}};
  if (point.time_ns) one["time_ns"] = *point.time_ns;
  if (point.memory_bytes) one["memory_bytes"] = *point.memory_bytes;
  if (point.error_ratio) one["error_ratio"] = *point.error_ratio;
  return one;
}

json step_json(const CaseHistory& history, const HistoryLine& line, const Step& step) {
  const HistoryPoint &before = history.before(line, step), &after = history.after(line, step);
  return {{"kind", step.drift ? "drift" : "step"},
          {"point", line.at[step.drift ? step.to - 1 : step.at]},
          {"started", after.started},
          {"commit", after.commit},
          {"commit_before", before.commit},
          {"before", step.before},
          {"after", step.after},
          {"p", step.p},
          {"same_build", before.same_build(after)},
          {"uncertain", step.uncertain}};
}

json line_json(const CaseHistory& history, const HistoryLine& line) {
  json steps = json::array();
  for (const Step& step : line.steps.steps) steps.push_back(step_json(history, line, step));
  return {{"quantity", name(line.quantity)},
          {"values", line.values.size()},
          {"median", core::summarise(line.values).median},
          {"long_enough", line.steps.long_enough},
          {"unseen_at_ends", line.steps.unseen},
          {"steps", std::move(steps)}};
}

json series_json(const CaseHistory& history) {
  const SeriesKey& key = history.series.key;
  json one{{"suite", key.suite},
           {"case", key.case_name},
           {"dtype", key.dtype},
           {"impl", key.impl},
           {"spec", key.spec},
           {"inputs", key.inputs},
           {"device", key.device},
           {"machine", key.machine},
           {"build", key.build},
           {"threads", key.threads},
           {"points", json::array()},
           {"quantities", json::array()},
           {"warnings", history.warnings}};
  for (const HistoryPoint& point : history.series.points)
    one["points"].push_back(point_json(point));
  for (const HistoryLine& line : history.lines)
    one["quantities"].push_back(line_json(history, line));
  return one;
}

}  // namespace

std::vector<std::string> history_columns() {
  return {"quantity", "what", "first run", "commit", "before", "after", "change", "remark"};
}

std::vector<std::string> cells_of(const HistoryRow& row) {
  return {row.quantity, row.what,  row.started, row.commit,
          row.before,   row.after, row.change,  row.remark};
}

std::vector<HistoryRow> history_rows(const CaseHistory& history) {
  std::vector<HistoryRow> rows;
  for (const HistoryLine& line : history.lines) {
    for (const Step& step : line.steps.steps) rows.push_back(row_of(history, line, step));
    if (line.steps.steps.empty()) rows.push_back(level_row(line));
  }
  return rows;
}

std::string history_title(const CaseHistory& history) {
  const SeriesKey& key = history.series.key;
  const std::vector<HistoryPoint>& points = history.series.points;
  std::string text = fmt::format("{}, {}, {} thread{}, {}: {} run{}", key.name(), key.machine,
                                 key.threads, key.threads == 1 ? "" : "s", key.build, points.size(),
                                 points.size() == 1 ? "" : "s");
  if (points.size() == 1) text += ", " + points.front().started;
  if (points.size() > 1)
    text += fmt::format(", {} to {}", points.front().started, points.back().started);
  return text;
}

std::vector<std::string> history_legend() {
  const core::StepRule rule;
  return {fmt::format("A step: from this run on, the values are on another level, which differs by "
                      "more than {:.0f} % and lasts at least {} runs; a single spike is none.",
                      100 * rule.band, rule.least_segment),
          "A drift: the values went there little by little, so no single commit is at fault.",
          fmt::format("The first and the last {} runs of a series cannot show a step yet. A "
                      "quantity without any shows one with a chance of at most {:.1f} %.",
                      rule.least_segment - 1, 100 * rule.significance)};
}

std::string print_history(const std::vector<CaseHistory>& all, bool steps_only) {
  std::string text;
  size_t left_out = 0;
  for (const CaseHistory& history : all) {
    if (steps_only && !history.has_steps()) {
      ++left_out;
      continue;
    }
    text += fmt::format("{}{}\n", text.empty() ? "" : "\n", printable(history_title(history)));
    if (const std::vector<HistoryRow> rows = history_rows(history); !rows.empty())
      text += print_rows(rows);
    for (const std::string& warning : history.warnings)
      text += fmt::format("  warning: {}\n", printable(warning));
  }
  if (!text.empty()) text += "\n";
  if (left_out > 0) text += fmt::format("{} of {} series have no step.\n", left_out, all.size());
  for (const std::string& sentence : history_legend()) text += sentence + "\n";
  return text;
}

json to_json(const std::vector<CaseHistory>& all) {
  json series = json::array();
  for (const CaseHistory& history : all) series.push_back(series_json(history));
  return {{"type", "history"}, {"schema", 1}, {"series", std::move(series)}};
}

}  // namespace attest::reports
