#include "reports/html/history_section.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/history/history_text.hpp"
#include "reports/html/static_table.hpp"
#include "reports/words/escape.hpp"

namespace attest::reports::html {
namespace {

using core::Step;

// Of a picture, in units of its own; the values lie inside the frame.
constexpr double kWidth = 720, kHeight = 190, kLeft = 10, kRight = 710, kTop = 34, kBottom = 150;
constexpr size_t kMostMarks = 400;  // points of a line; of longer ones the last

/// Where a value of a line is in its picture.
class Scale {
 public:
  explicit Scale(const HistoryLine& line)
      : first_(line.values.size() > kMostMarks ? line.values.size() - kMostMarks : 0),
        count_(line.values.size() - first_) {
    const auto [low, high] = std::ranges::minmax_element(
        line.values.begin() + std::ptrdiff_t(first_), line.values.end());
    low_ = *low;
    high_ = *high;
    for (const Step& step : line.steps.steps) {  // levels are medians, of values left out too
      if (step.to <= first_) continue;
      include(step.after);
      if (step.drift)
        include(start_of_drift(step));
      else if (step.at > first_)
        include(step.before);
    }
  }
  size_t first() const { return first_; }
  double low() const { return low_; }
  double high() const { return high_; }
  /// The middle of a place; a step is half a place before it.
  double x(double place) const {
    const double share = count_ > 1 ? (place - double(first_)) / double(count_ - 1) : 0.5;
    return kLeft + std::clamp(share, 0.0, 1.0) * (kRight - kLeft);
  }
  /// Where the line of a drift begins in the picture.
  double start_of_drift(const Step& step) const {
    const double from = double(std::max(step.from, first_) - step.from);
    return std::lerp(step.before, step.after, from / double(step.to - 1 - step.from));
  }
  double y(double value) const {
    return high_ > low_ ? kBottom - (value - low_) / (high_ - low_) * (kBottom - kTop)
                        : (kTop + kBottom) / 2;
  }

 private:
  void include(double value) {
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
  }

  size_t first_, count_;
  double low_ = 0, high_ = 0;
};

std::string stroke(const Scale& scale, double from, double before, double to, double after,
                   const char* kind) {
  return fmt::format(R"(<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>)", kind,
                     scale.x(from), scale.y(before), scale.x(to), scale.y(after));
}

std::string words(double x, double y, const std::string& text) {
  const char* anchor = x < kWidth / 3 ? "start" : x > kWidth * 2 / 3 ? "end" : "middle";
  return fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>)", x, y, anchor,
                     xml(text));
}

/// Levels as lines, and at each step a dashed line with its commit.
std::string levels(const CaseHistory& history, const HistoryLine& line, const Scale& scale) {
  std::string text;
  const std::vector<Step>& steps = line.steps.steps;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    if (step.to <= scale.first()) continue;  // left of the picture
    if (step.drift) {
      text += stroke(scale, double(std::max(step.from, scale.first())), scale.start_of_drift(step),
                     double(step.to) - 1, step.after, "level");
      continue;
    }
    const double at = double(step.at) - 0.5;
    text += stroke(scale, at, step.after, double(step.to) - 0.5, step.after, "level");
    if (step.at <= scale.first()) continue;
    if (i == 0) text += stroke(scale, double(step.from), step.before, at, step.before, "level");
    text += stroke(scale, at, scale.low(), at, scale.high(), "step");
    text += words(scale.x(at), kTop - 8, history.after(line, step).commit);
  }
  return text;
}

std::string marks(const CaseHistory& history, const HistoryLine& line, const Scale& scale) {
  std::string text;
  for (size_t i = scale.first(); i < line.values.size(); ++i) {
    const HistoryPoint& point = history.point(line, i);
    text += fmt::format(
        R"(<circle cx="{:.1f}" cy="{:.1f}" r="3"><title>{}, commit {}: {}</title></circle>)",
        scale.x(double(i)), scale.y(line.values[i]), xml(point.started), xml(point.commit),
        xml(print_value(line.quantity, line.values[i])));
  }
  return text;
}

std::string picture(const CaseHistory& history, const HistoryLine& line) {
  const Scale scale(line);
  const std::string label =
      fmt::format("{} of {}: {} runs, {} steps", name(line.quantity), history.series.key.name(),
                  line.values.size(), line.steps.steps.size());
  const std::string range =
      fmt::format("{}: {} to {}", name(line.quantity), print_value(line.quantity, scale.low()),
                  print_value(line.quantity, scale.high()));
  return fmt::format(R"(<svg class="history" viewBox="0 0 {} {}" role="img" aria-label="{}">)",
                     kWidth, kHeight, xml(label)) +
         levels(history, line, scale) + marks(history, line, scale) + words(kLeft, 14, range) +
         words(kLeft, kHeight - 16, history.point(line, scale.first()).started) +
         words(kRight, kHeight - 16, history.point(line, line.values.size() - 1).started) +
         "</svg>\n";
}

std::string one(const CaseHistory& history) {
  std::string text = fmt::format("<figure class=\"chart\"><figcaption><h3>{}</h3></figcaption>\n",
                                 xml(history_title(history)));
  for (const HistoryLine& line : history.lines)
    if (!line.steps.steps.empty()) text += picture(history, line);
  std::string rows;
  for (const HistoryRow& row : history_rows(history)) rows += table_row(cells_of(row));
  text += static_table("Steps of " + history.series.key.name(), history_columns(), rows);
  for (const std::string& warning : history.warnings)
    text += fmt::format("<p><span class=\"warn\">Warning:</span> {}</p>\n", xml(warning));
  return text + "</figure>\n";
}

/// The series that have no picture, in a part that opens on a click.
std::string others(const std::vector<const CaseHistory*>& all) {
  if (all.empty()) return {};
  std::string rows;
  for (size_t i = 0; i < std::min(all.size(), kMostHistoryRows); ++i) {
    std::vector<std::string> cells{history_title(*all[i])};
    for (const Quantity quantity : kQuantities) {
      cells.emplace_back();
      for (const HistoryRow& row : history_rows(*all[i]))
        if (row.quantity == name(quantity))
          cells.back() = fmt::format("{}, {}", row.what, row.after);
    }
    rows += table_row(cells);
  }
  std::string title = fmt::format("Series without a picture: {}", all.size());
  if (all.size() > kMostHistoryRows)
    title += fmt::format(", of which the first {} are listed", kMostHistoryRows);
  return opened(title, static_table(title, {"series", "time", "memory", "error"}, rows));
}

}  // namespace

std::string history_section(const std::vector<CaseHistory>& all) {
  if (all.empty()) return {};
  std::string pictures;
  size_t with_steps = 0;
  std::vector<const CaseHistory*> rest;
  for (const CaseHistory& history : all) {
    const bool has_steps = history.has_steps();
    if (has_steps && with_steps++ < kMostHistories)
      pictures += one(history);
    else
      rest.push_back(&history);
  }
  std::string text = fmt::format(
      "<section id=\"history\" aria-labelledby=\"history-title\">\n"
      "<h2 id=\"history-title\">History: {} of {} series have a step</h2>\n<p class=\"soft\">",
      with_steps, all.size());
  for (const std::string& sentence : history_legend()) text += xml(sentence) + " ";
  return text + "</p>\n" + pictures + others(rest) + "</section>\n";
}

}  // namespace attest::reports::html
