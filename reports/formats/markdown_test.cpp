// The Markdown summary against what a person should read.
#include "reports/formats/markdown.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "reports/formats/printers.hpp"
#include "reports/testing/count.hpp"
#include "reports/testing/on_cores.hpp"
#include "reports/testing/records.hpp"
#include "reports/testing/slower_series.hpp"

namespace attest::reports {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

core::Record record(const std::string& case_name, const std::string& impl, core::ReasonCode code,
                    const std::string& reason) {
  core::Record r;
  r.suite = "onnx";
  r.case_name = case_name;
  r.dtype = "f32";
  r.impl = impl;
  r.outcome = {code, reason};
  r.repro = "attest repro " + impl;
  if (code == core::ReasonCode::kPass || code == core::ReasonCode::kFailTolerance) {
    core::FillRecord fill;
    fill.judgement.exact_elements = 10;
    r.fills.push_back(fill);
    r.max_ratio = code == core::ReasonCode::kPass ? 0.25 : 7;
  }
  return r;
}

Input results(std::vector<core::Record> records) {
  core::Results made;
  made.header.command = "attest run onnx";
  made.header.environment = {{"build", {{"version", "1.2"}, {"commit", "abc"}}},
                             {"cpu", {{"model", "a CPU"}, {"threads", "4"}}}};
  made.records = std::move(records);
  made.begun = made.complete = true;
  return make_input({made});
}

std::string print(std::vector<core::Record> records) {
  return print_markdown(results(std::move(records)), {});
}

TEST(Markdown, SaysWhatBecameOfFrames) {
  core::Record paced = record("a", "flash", core::ReasonCode::kPass, "");
  EXPECT_THAT(print({paced}), Not(HasSubstr("Frames and energy")));
  paced.paced = core::PacedRecord{.period_ns = 5e7};
  paced.paced->alone.policies = {
      {.policy = "queue-all", .frames = 10, .never_ran = 5, .missed = 6}};
  EXPECT_THAT(print({paced}), AllOf(HasSubstr("<summary>Frames and energy</summary>"),
                                    HasSubstr("- `onnx/a f32 flash`: 20Hz alone, queue-all: 6 of "
                                              "10 frames missed, 5 of them never ran")));
}

TEST(Markdown, NamesTheStepsOfAHistory) {
  Input input = results({record("a", "flash", core::ReasonCode::kPass, "")});
  EXPECT_THAT(print_markdown(input, {}), Not(HasSubstr("History")));
  HistorySeries series = attest::testing::slower_series("a|b", "c");
  input.histories = {history_of(series)};
  const std::string text = print_markdown(input, {});
  EXPECT_THAT(text, HasSubstr("<details open><summary>History: 1 of 1 series have a step"));
  EXPECT_THAT(text, HasSubstr("time | step | day12 | c12 | 1.00 ms | 1.10 ms | +10.0 % | after "));
  EXPECT_THAT(text, Not(HasSubstr("a|b"))) << "a bar ends a cell";
  for (HistoryPoint& point : series.points) point.time_ns = 1e6;
  input.histories = {history_of(series)};
  EXPECT_THAT(print_markdown(input, {}), HasSubstr("History: 0 of 1 series have a step"));
}

TEST(Markdown, ComparesWithAnEarlierBuild) {
  using attest::testing::passed;
  const auto side = [](double ns) {
    return std::vector{attest::testing::file({passed("same"), passed("changed", ns)})};
  };
  Input input = make_input(side(2e6));
  input.comparison = compare(side(1e6), side(2e6), {.rule = {.floor = 0.03}});
  const std::string text = print_markdown(input, {});
  EXPECT_THAT(text, HasSubstr("Comparison with an earlier build: 1 of 2 cases got worse"));
  EXPECT_THAT(text, HasSubstr("| SLOWER x2.0"));
  EXPECT_THAT(text, Not(HasSubstr("same (same binary)"))) << "a case that did not change";
  EXPECT_THAT(text, HasSubstr("2 compared: 0 regressed"));
}

// A run of implementations on the cores of a machine.
core::Results cores_of(const std::string& model, const std::string& path,
                       const std::vector<std::string>& impls) {
  std::vector<core::Record> records;
  for (const std::string& impl : impls) records.push_back(attest::testing::on_cores(impl));
  core::Results run = attest::testing::file(records, "2026-01-01 " + path);
  run.header.environment["cpu"]["model"] = model;
  run.path = path;
  return run;
}

Input projected(std::vector<core::Results> runs) {
  Input input = make_input(std::move(runs));
  input.projection = ProjectionTarget{.board = find_board_mode("orin-agx64-maxn")};
  return input;
}

TEST(Markdown, KeepsProjectionsOfRunsApart) {
  Input input =
      projected({cores_of("One", "a.jsonl", {"first"}), cores_of("Two", "b.jsonl", {"second"})});
  Calibration calibration{.from = std::string(1500, 'x'), .to = "other", .spreads = {}};
  calibration.spreads[{.device = "cpu"}].ratios = std::vector<double>(9, 2.0);
  input.projection->calibration = calibration;
  const std::string text = print_markdown(input, {});
  size_t at = text.find("<summary>Figures of the board and their sources</summary>");
  const char* in_this_order[] = {
      "204.8 GB/s",
      "data sheet",
      "<summary>PROJECTION to orin-agx64-maxn: Jetson AGX Orin 64GB, power mode MAXN from One of "
      "a.jsonl</summary>\n\nNo run on this board was measured.",
      "both measured: cpu arithmetic: 9 cases",
      "within a factor of 2.00\n\n| case |",
      "| first |",
      "</details>",
      "MAXN from Two of b.jsonl</summary>\n\nNo run on this board was measured.",
      "| second |",
      "</details>"};
  for (const char* part : in_this_order) {
    at = text.find(part, at);
    ASSERT_NE(at, text.npos) << part;
  }
  EXPECT_EQ(attest::testing::count(text, "| PROJECTION "), 2u);
}

TEST(Markdown, ShowsNoProjectionWithoutSayingWhatItIs) {
  const Input input =
      projected({cores_of("One", "a.jsonl", std::vector<std::string>(20, "flash_cpu"))});
  size_t shorter = 0, least = 20;
  for (size_t bytes = 500; bytes < 6000; bytes += 100) {
    const std::string text = print_markdown_within(input, bytes);
    const size_t times = attest::testing::count(text, "| PROJECTION ");
    if (times == 0) continue;
    EXPECT_LT(text.find("No run on this board was measured"), text.find("| PROJECTION ")) << bytes;
    least = std::min(least, times);
    shorter += times < 20;
  }
  EXPECT_GT(shorter, 0u) << "so that some pages were full";
  EXPECT_LT(least, 10u);
}

TEST(Markdown, EscapesNamesOfProjections) {
  const Input input = projected({cores_of("<i>\n\n# cpu", "a<u>.jsonl", {"a|b<b>\n\nc"}),
                                 cores_of("Two", "b.jsonl", {"second"})});
  const std::string text = print_markdown(input, {});
  const size_t begin = text.find("<summary>Figures of the board");
  ASSERT_NE(begin, text.npos);
  const std::string shown = text.substr(begin, text.find("<summary>vit") - begin);
  for (const char* markup : {"a|b", "<b>", "<i>", "<u>", "\n# cpu", "\nc"})
    EXPECT_THAT(shown, Not(HasSubstr(markup)));
  EXPECT_THAT(shown, HasSubstr("| a\\|b&lt;b"));
}

TEST(Markdown, SaysHowARunScales) {
  std::vector<core::Record> records;
  for (const int64_t value : {0, 512, 1024, 2048}) {
    core::Record r = record("dense", "fl|ash", core::ReasonCode::kPass, "");
    r.sweep = core::SweepPoint{"dense", value == 0 ? "" : "seq_len_q", value, 5e7, {}};
    r.time = core::TimeRecord{.median_ns = double(value * value + 10)};
    records.push_back(r);
  }
  const std::string text = print(records);
  EXPECT_THAT(text, HasSubstr("<details open><summary>Scaling of onnx/dense f32 over seq_len_q, 1 "
                              "thread</summary>\n\n| implementation | time grows as |"));
  EXPECT_THAT(text, HasSubstr("\n| fl\\|ash | n^2.00 "));
  EXPECT_THAT(text, HasSubstr(", extrapolated |"));
}

TEST(Markdown, ARowACaseAColumnAnImplementation) {
  core::Record gelu = record("gelu", "reference", core::ReasonCode::kUnsupportedQuery, "Gelu");
  gelu.outcome.code = core::ReasonCode::kUnsupportedVector;
  gelu.dtype = "";
  EXPECT_EQ(
      print({record("a", "reference", core::ReasonCode::kPass, ""),
             record("a", "naive", core::ReasonCode::kFailTolerance, "o[0] is 1|2"), gelu,
             record("b", "reference", core::ReasonCode::kPass, ""),
             record("b", "naive", core::ReasonCode::kUnsupportedQuery, "takes no MASK")}),
      "# 1 of 2 judged implementations does not pass (naive): 1 of 3 judged records are bad (1 "
      "fail); 2 more were not judged (2 unsupported).\n\n"
      "- `attest run onnx`: attest 1.2, commit abc, on a CPU with 4 threads\n\n"
      "| implementation | judged | pass | fail | unsupported |\n"
      "| --- | --- | --- | --- | --- |\n"
      "| reference | 2 | 2 | 0 | 1 |\n"
      "| naive | 1 | 0 | 1 | 1 |\n"
      "\n## Bad records: 1\n\n"
      "- **fail:tolerance** `onnx/a f32 naive`: o[0\\] is 1\\|2\n"
      "  - `attest repro naive`\n"
      "\n<details><summary>onnx: 5 records</summary>\n\n"
      "| case | dtype | reference | naive |\n"
      "| --- | --- | --- | --- |\n"
      "| a | f32 | pass 0.25 | **fail** 7 |\n"
      "| gelu |  | unsupported: Gelu |  |\n"
      "| b | f32 | pass 0.25 | unsupported |\n"
      "\n</details>\n"
      "\n<details><summary>Why</summary>\n\n"
      "- naive: fail: o[0\\] is 1\\|2 (onnx/a)\n"
      "- naive: unsupported: takes no MASK (onnx/b)\n"
      "- reference: unsupported: Gelu (onnx/gelu)\n"
      "\n</details>\n"
      "\nNumbers: the largest error as a share of its gate, <= 1 passes; the median time "
      "where a case was timed.\n");
}

TEST(Markdown, ReasonsThatManyCasesShareStandOnce) {
  std::vector<core::Record> records;
  for (const char* name : {"a", "b", "c", "d", "e"})
    records.push_back(record(name, "naive", core::ReasonCode::kSkippedTime, "too long"));
  EXPECT_THAT(print(records),
              HasSubstr("- naive: skipped: too long (onnx/a, onnx/b, onnx/c and 2 more)\n"));
}

TEST(Markdown, SuitesAndDtypesStandApart) {
  core::Record other = record("a", "naive", core::ReasonCode::kPass, ""), half = other;
  other.suite = "vit";
  half.dtype = "f16";
  half.time = core::TimeRecord{.median_ns = 1.5e6};
  const std::string text = print({record("a", "naive", core::ReasonCode::kPass, ""), other, half});
  EXPECT_THAT(text, HasSubstr("<summary>vit: 1 records</summary>"));
  EXPECT_THAT(text, HasSubstr("| a | f16 | pass 0.25, 1.50 ms |\n"));
}

TEST(Markdown, TheWorstTwentyAreShown) {
  std::vector<core::Record> records;
  for (int i = 0; i < 34; ++i) {
    records.push_back(
        record("case" + std::to_string(i), "naive", core::ReasonCode::kFailTolerance, "far off"));
    records.back().max_ratio = i;
  }
  const std::string text = print(records);
  EXPECT_THAT(text, HasSubstr("## The worst 20 of 34 bad records"));
  EXPECT_THAT(text, HasSubstr("`onnx/case14 f32 naive`"));
  EXPECT_THAT(text, Not(HasSubstr("`onnx/case13 f32 naive`")));
}

// GitHub refuses what is larger than 1 MiB.
TEST(Markdown, RowsThatDoNotFitAreLeftOutAndCounted) {
  std::vector<core::Record> records;
  for (int i = 0; i < 1000; ++i)
    records.push_back(record("case" + std::to_string(i), "naive", core::ReasonCode::kPass, ""));
  const Input input = results(records);
  EXPECT_THAT(print_markdown(input, {}), HasSubstr("case999"));
  const std::string text = print_markdown_within(input, 10'000);
  EXPECT_LE(text.size(), 10'000u);
  EXPECT_THAT(text, HasSubstr("case100 "));
  EXPECT_THAT(text, ::testing::ContainsRegex(
                        "\n[0-9]+ rows are left out, since this page would be larger than 10 kB"));
}

}  // namespace
}  // namespace attest::reports
