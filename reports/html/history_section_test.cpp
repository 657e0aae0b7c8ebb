// The part of the page about history: lines, levels and steps inside their pictures.
#include "reports/html/history_section.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/testing/count.hpp"
#include "reports/testing/slower_series.hpp"

namespace attest::reports::html {
namespace {

using attest::testing::count;
using ::testing::HasSubstr;

TEST(HistorySection, IsLinesWithSteps) {
  EXPECT_EQ(history_section({}), "");
  const CaseHistory history =
      history_of(attest::testing::slower_series("</h3><script>alert(1)</script>", "commit"));
  CaseHistory level = history;
  level.lines.erase(level.lines.begin());  // whose memory has no step
  const std::string text = history_section({history, level});
  EXPECT_THAT(text, HasSubstr("History: 1 of 2 series have a step"));
  EXPECT_EQ(count(text, "<svg class=\"history\""), 1u) << "of the time alone";
  EXPECT_EQ(count(text, "<circle "), 20u);
  EXPECT_EQ(count(text, "class=\"level\""), 2u);
  EXPECT_THAT(text, HasSubstr("text-anchor=\"middle\">commit12</text>"));
  EXPECT_THAT(text, HasSubstr("<td>+10.0 %</td><td>after commit commit11</td>"));
  EXPECT_THAT(text, HasSubstr("Series without a picture: 1"));
  EXPECT_EQ(count(text, "<script"), 0u) << "names are escaped";
}

void expect_levels_inside(const std::string& text) {
  for (size_t at = 0; (at = text.find("<line class=\"level\"", at)) != std::string::npos; ++at)
    for (const char* name : {" y1=\"", " y2=\""}) {
      const double y = std::stod(text.substr(text.find(name, at) + 5));
      EXPECT_TRUE(y >= 34 && y <= 150) << y << ", outside the frame";
    }
}

TEST(HistorySection, OfManyRunsShowsTheLast) {
  HistorySeries series;
  series.key.case_name = "long";
  const auto level_of = [](int run) { return run < 100 ? 9e6 : run < 550 ? 1e6 : 2e6; };
  for (int run = 0; run < 600; ++run)
    series.points.push_back({.started = std::to_string(run),
                             .commit = "c" + std::to_string(run),
                             .plugin_hash = "",
                             .verdict = "pass",
                             .time_ns = level_of(run) + run % 3,
                             .memory_bytes = {},
                             .error_ratio = {}});
  const CaseHistory history = history_of(series);
  ASSERT_EQ(history.lines[0].steps.steps.size(), 2u);
  const std::string text = history_section({history});
  EXPECT_EQ(count(text, "<line class=\"step\""), 1u);
  EXPECT_EQ(count(text, ">c550</text>"), 1u);
  EXPECT_EQ(count(text, ">c100</text>"), 0u) << "left of the picture";
  expect_levels_inside(text);
}

// Its line begins left of the picture, and where it enters it lies below all values that are shown.
TEST(HistorySection, ShowsADriftAtThePicturesEdge) {
  CaseHistory history = history_of(attest::testing::slower_series("drifts", "c"));
  HistoryLine& line = history.lines[0];
  history.series.points.resize(600, history.series.points[0]);
  line.values.clear();
  line.at.clear();
  for (size_t run = 0; run < 600; ++run) {
    line.at.push_back(run);
    line.values.push_back(2e6 + double(run % 3));
  }
  line.steps.steps = {
      {.from = 0, .at = 50, .to = 600, .before = 1e6, .after = 2e6, .p = 0.001, .drift = true}};
  const std::string text = history_section({history});
  EXPECT_EQ(count(text, "<line class=\"level\""), 1u);
  EXPECT_EQ(count(text, "x1=\"10.0\" y1=\"150.0\""), 1u) << "it begins in the lower left corner";
  expect_levels_inside(text);
}

TEST(HistorySection, CountsTheSeriesThatItDoesNotList) {
  CaseHistory one = history_of(attest::testing::slower_series("a", "c"));
  for (HistoryLine& line : one.lines) line.steps.steps.clear();
  EXPECT_THAT(history_section(std::vector(501, one)),
              HasSubstr("Series without a picture: 501, of which the first 500 are listed"));
}

}  // namespace
}  // namespace attest::reports::html
