// Formats: golden files for each, and what holds for all of them: hostile text stays text, and runs
// without records or with one print as well.
#include "reports/formats.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "core/tensor/error.hpp"
#include "reports/testing/golden.hpp"
#include "reports/testing/readers.hpp"

namespace attest::reports {
namespace {

using testing::golden_input;
using ::testing::HasSubstr;
using ::testing::Not;

/// Throws, or fails the test, if `text` is not of the format.
void expect_readable(const Format& format, const std::string& text) {
  SCOPED_TRACE(format.name);
  if (format.extension.ends_with(".json") || format.name == "sarif") {
    EXPECT_TRUE(nlohmann::json::accept(text)) << text;
  }
  if (format.name == "junit") {
    EXPECT_EQ(testing::junit_errors(text), "");
  }
  if (format.name == "csv") {
    const auto rows = testing::csv_rows(text);
    ASSERT_FALSE(rows.empty());
    for (const auto& row : rows) EXPECT_EQ(row.size(), rows[0].size());
  }
}

Input without_records() {
  Input input = golden_input();
  input.runs[0].records.clear();
  return input;
}

Input with_records(size_t count, bool bad) {
  Input input = golden_input();
  std::erase_if(input.runs[0].records,
                [&](const core::Record& r) { return r.outcome.is_bad() != bad; });
  input.runs[0].records.resize(std::min(count, input.runs[0].records.size()));
  return input;
}

TEST(Formats, GoldenFiles) {
  const Input input = golden_input();
  for (const Format& format : formats()) {
    const std::string text = format.print(input, {});
    if (format.name == "html") continue;  // it has the script; html_test.cpp tests it
    testing::expect_golden(text, "results." + std::string(format.name));
    expect_readable(format, text);
  }
}

TEST(Formats, NamesAreUniqueAndFound) {
  std::set<std::string_view> names, extensions;
  for (const Format& format : formats()) {
    EXPECT_TRUE(names.insert(format.name).second) << format.name;
    EXPECT_TRUE(format.short_name.empty() || names.insert(format.short_name).second);
    EXPECT_TRUE(extensions.insert(format.extension).second) << format.extension;
    EXPECT_FALSE(format.summary.empty());
    EXPECT_EQ(&find_format(format.name), &format);
    EXPECT_EQ(format_of_file("build/report" + std::string(format.extension)), &format);
  }
  EXPECT_EQ(&find_format("md"), &find_format("markdown"));
  EXPECT_EQ(format_of_file("report.pdf"), nullptr);
  EXPECT_EQ(format_of_file("report"), nullptr);
}

TEST(Formats, OneThatIsNotThereIsNamedWithThoseThatAre) {
  for (const char* name : {"pdf", ""}) {
    try {
      find_format(name);
      FAIL();
    } catch (const core::Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(": no such format; choose one of terminal, bench"));
    }
  }
}

TEST(Formats, RunsWithoutRecordsPrint) {
  for (const Format& format : formats())
    expect_readable(format, format.print(without_records(), {}));
  EXPECT_THAT(find_format("md").print(without_records(), {}), HasSubstr("There are no records."));
  EXPECT_THAT(find_format("junit").print(without_records(), {}), HasSubstr("tests=\"0\""));
  EXPECT_EQ(nlohmann::json::parse(find_format("json").print(without_records(), {}))["passes"],
            false);
}

TEST(Formats, OneRecordAndOnlyFailuresPrint) {
  for (const Format& format : formats()) {
    expect_readable(format, format.print(with_records(1, false), {}));
    expect_readable(format, format.print(with_records(100, true), {}));
  }
}

TEST(Formats, ColourIsWhereItIsWanted) {
  for (const Format& format : formats())
    EXPECT_THAT(format.print(golden_input(), {}), Not(HasSubstr("\033"))) << format.name;
  EXPECT_THAT(find_format("terminal").print(golden_input(), {.colour = true}), HasSubstr("\033"));
}

TEST(Formats, HostileTextIsNoMarkup) {
  const Input input = golden_input();
  const std::string outside_code = std::regex_replace(
      find_format("md").print(input, {}), std::regex("(`+)[^`].*?[^`]\\1(?!`)"), "CODE");
  for (const char* part : {"<script", "<img", "<i>", "<b>", "@everyone"}) {
    EXPECT_THAT(outside_code, Not(HasSubstr(part)));
    EXPECT_THAT(find_format("junit").print(input, {}), Not(HasSubstr(std::string(part) + "<")));
  }
  EXPECT_THAT(outside_code, Not(::testing::ContainsRegex("[^\\\\]\\]\\(http")));
}

// A line that a record brings with it must not become a command of its own.
TEST(Formats, EachLineForGitHubIsOneCommand) {
  std::istringstream lines(find_format("github").print(golden_input(), {}));
  const std::regex command("::(error|warning|notice) title=[^:,]*::[^\r]*");
  size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    EXPECT_TRUE(std::regex_match(line, command)) << line;
  EXPECT_GT(count, 5u);
}

TEST(Formats, GitHubHasTenErrorsAtMost) {
  Input input = with_records(100, true);
  std::vector<core::Record>& records = input.runs[0].records;
  while (records.size() < 34) records.push_back(records[0]);
  const std::string text = find_format("github").print(input, {});
  size_t errors = 0;
  for (size_t at = 0; (at = text.find("::error ", at)) != std::string::npos; ++at) ++errors;
  EXPECT_EQ(errors, 10u);
  EXPECT_THAT(text, HasSubstr("::error title=25 more bad records::"));
}

// A spreadsheet takes no cell for a formula.
TEST(Formats, CsvCellsAreNoFormulas) {
  const auto rows = testing::csv_rows(find_format("csv").print(golden_input(), {}));
  const std::regex number("-?([0-9.e+-]+|inf|nan)");
  bool guarded = false;
  for (size_t r = 1; r < rows.size(); ++r)
    for (const std::string& cell : rows[r]) {
      guarded |= cell.starts_with("'=HYPERLINK");
      const bool formula = !cell.empty() && std::string("=+-@\t\r").find(cell[0]) != cell.npos;
      EXPECT_TRUE(!formula || std::regex_match(cell, number)) << cell;
    }
  EXPECT_TRUE(guarded);
}

// Runs of one case are repetitions; the names are the same in both.
TEST(Formats, BenchmarkRunsAreRepetitions) {
  Input input = golden_input();
  input.runs.push_back(input.runs[0]);
  const auto all = nlohmann::json::parse(find_format("gbench").print(input, {}))["benchmarks"];
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0]["name"], "vit/vit_b_16_224/self/f16/flash_cpu");
  EXPECT_EQ(all[0]["name"], all[2]["name"]);
  EXPECT_EQ(all[0]["family_index"], all[2]["family_index"]);
  EXPECT_EQ(all[2]["repetition_index"], 1);
  EXPECT_EQ(all[2]["repetitions"], 2);
}

}  // namespace
}  // namespace attest::reports
