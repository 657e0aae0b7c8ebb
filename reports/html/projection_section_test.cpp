// The part of the page about projections: each projected time has its label and its ink.
#include "reports/html/projection_section.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/formats/printers.hpp"
#include "reports/testing/count.hpp"
#include "reports/testing/on_cores.hpp"
#include "reports/testing/records.hpp"

namespace attest::reports::html {
namespace {

using attest::testing::count;
using attest::testing::on_cores;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

ProjectionTarget target() { return {.board = find_board_mode("orin-agx64-maxn")}; }

TEST(ProjectionSection, LabelsAndInksEachProjectedTime) {
  const core::Results file =
      attest::testing::file({on_cores("</td><script>alert(1)</script>", "f32 AVX3"),
                             on_cores("of_reads", "L2 reads<b>")});
  ProjectionTarget to = target();
  const std::string text = projection_section(project_all({&file, 1}, to));
  EXPECT_THAT(text, AllOf(HasSubstr(">PROJECTION to orin-agx64-maxn: Jetson AGX Orin 64GB"),
                          HasSubstr("<td class=\"projected\">PROJECTION 2.84 ms</td>"),
                          HasSubstr("<td>1.00 ms on 2 threads</td>"),
                          HasSubstr("<td>on 2 of 12 cores, 50 % of the peak in f32</td>"),
                          HasSubstr("Intervals: from AMD EPYC (Zen 5)"),
                          HasSubstr("Not projected, and why: 1"), HasSubstr("204.8 GB/s")));
  EXPECT_EQ(count(text, "PROJECTION 2.84"), count(text, "class=\"projected\">PROJECTION"));
  for (const char* markup : {"<script", "<b>"}) EXPECT_THAT(text, Not(HasSubstr(markup)));
  EXPECT_EQ(count(text, "<td>refused</td>"), 1u) << "which has the ink of what was measured";

  to.calibration = Calibration{.from = "one", .to = "<i>other", .spreads = {}};
  to.calibration->spreads[{.device = "cpu"}].ratios = std::vector<double>(9, 2.0);
  const std::string calibrated = projection_section(project_all({&file, 1}, to));
  EXPECT_THAT(calibrated,
              AllOf(HasSubstr("<td class=\"projected\">1.42 ms to 5.68 ms</td>"),
                    HasSubstr("nine of ten within a factor of 2.00"), Not(HasSubstr("<i>"))));
}

TEST(ProjectionSection, NamesTheFileOfEachTable) {
  std::vector<core::Results> files(2, attest::testing::file({on_cores("flash_cpu")}));
  files[0].path = "runs/first.jsonl";
  files[1].path = "runs/second<b>.jsonl";
  const ProjectionTarget to = target();
  const std::string text = projection_section(project_all(files, to));
  EXPECT_THAT(text, AllOf(HasSubstr("<caption>Projected from first.jsonl, EPYC: 1</caption>"),
                          HasSubstr("<caption>Projected from second&lt;b&gt;.jsonl, EPYC: 1<")));
}

TEST(ProjectionSection, OfManyListsTheFirst) {
  const core::Results file = attest::testing::file(
      std::vector<core::Record>(kMostProjectedRows + 1, on_cores("many", "f32 AVX3")));
  const ProjectionTarget to = target();
  const std::string text = projection_section(project_all({&file, 1}, to));
  EXPECT_THAT(text, HasSubstr(": 1001, of which the first 1000 are listed"));
  EXPECT_EQ(count(text, "<td>many</td>"), kMostProjectedRows);
}

// A page that was not asked for projections has none, and no time of a board.
TEST(ProjectionSection, IsThereWhereItIsAskedFor) {
  Input input = make_input({attest::testing::file({on_cores("flash_cpu", "f32 AVX3")})});
  const Style style{.charts = false};
  EXPECT_THAT(print_html(input, style), Not(HasSubstr("id=\"projection\"")));
  EXPECT_THAT(print_markdown(input, style), Not(HasSubstr("PROJECTION")));
  input.projection = target();
  EXPECT_THAT(print_html(input, style), HasSubstr("<section id=\"projection\""));
  EXPECT_THAT(print_markdown(input, style),
              HasSubstr("| 1.00 ms on 2 threads | PROJECTION 2.84 ms |"));
}

}  // namespace
}  // namespace attest::reports::html
