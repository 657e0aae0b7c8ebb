// Reading: of many records only those are kept that a page shows, and what it says of all is true.
#include "reports/reading.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/tensor/error.hpp"
#include "reports/coverage.hpp"
#include "reports/formats/printers.hpp"
#include "reports/summary.hpp"
#include "reports/testing/golden.hpp"
#include "reports/testing/records.hpp"

namespace attest::reports {
namespace {

using attest::testing::passed;
using core::Record;
using core::Results;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Reading : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const std::string& path : paths_) std::filesystem::remove(path);
  }

  /// Writes a file of a run. Runs that start at another time are different ones.
  void write(const std::vector<Record>& records, const std::string& started = "2026-01-01") {
    const std::string& path = paths_.emplace_back(
        fmt::format("{}reading_{}_{}.jsonl", ::testing::TempDir(), getpid(), paths_.size()));
    std::ofstream out(path);
    out << to_json(attest::testing::file({}, started + "T00:00:00Z").header).dump() << '\n';
    for (const Record& record : records) out << to_json(record).dump() << '\n';
    out << to_json(core::Closing::of(records, started + "T01:00:00Z")).dump() << '\n';
  }
  Input whole() const {
    std::vector<Results> files;
    for (const std::string& path : paths_) files.push_back(core::read_results(path));
    return make_input(std::move(files));
  }

  std::vector<std::string> paths_;
};

Record judged_case(const std::string& name, const std::string& impl = "naive") {
  Record record = passed(impl);
  record.case_name = name;
  record.operation = "softmax", record.plugin = impl + ".so";
  record.spec = "softmax seq_len_q=64 head_dim=" + std::to_string(8 * (name[0] - '`'));
  record.time->median_ns = 1e6, record.time->q1_ns = 0.9e6, record.time->q3_ns = 1.2e6;
  record.roofline = core::RooflineRecord{.share = 1.5, .limit = "f32", .least_ns = 1e6};
  return record;
}

Record failing(Record record) {
  record.outcome = {core::ReasonCode::kFailNan, "a NaN"};
  return record;
}

std::vector<std::string> kept_names(const Input& input) {
  std::vector<std::string> names;
  for (const Results& run : input.runs)
    for (const Record& record : run.records) names.push_back(record.case_name + " " + record.impl);
  return names;
}

TEST_F(Reading, KeepsAllOfFewRecords) {
  write({judged_case("a"), failing(judged_case("b"))});
  const Input input = read_input(paths_, 2);
  EXPECT_THAT(kept_names(input), ElementsAre("a naive", "b naive"));
  EXPECT_EQ(input.left_out.records(), 0u);
}

TEST_F(Reading, OfManyRecordsKeepsBadCasesAndCountsAll) {
  write({judged_case("a"), judged_case("a", "flash"), judged_case("b"), judged_case("b", "flash")});
  write({judged_case("c"), judged_case("c", "flash"), judged_case("d", "late"),
         failing(judged_case("c", "late"))},
        "2026-01-02");
  const Input all = whole(), some = read_input(paths_, 5);
  EXPECT_THAT(kept_names(some), ElementsAre("a naive", "a flash", "c naive", "c flash", "c late"));
  EXPECT_EQ(some.left_out.records(), 3u);
  EXPECT_EQ(summary_of(some).sentence, summary_of(all).sentence);
  EXPECT_EQ(summary_of(some).all.verdicts, summary_of(all).all.verdicts);
  const std::vector<AxisCoverage> axes = axes_of(some);
  ASSERT_EQ(axes.size(), axes_of(all).size());
  for (size_t i = 0; i < axes.size(); ++i) EXPECT_EQ(axes[i].values, axes_of(all)[i].values);
  ASSERT_EQ(some.warnings.size(), all.warnings.size());
  EXPECT_THAT(some.warnings, ::testing::Contains(HasSubstr("8 of 8 times are noisy")));
  EXPECT_THAT(some.warnings, ::testing::Contains(HasSubstr("4 records are faster than")));
  const std::string page = print_html(some, {.charts = false});
  EXPECT_THAT(page, HasSubstr("this page holds 5 of 8 records"));
  EXPECT_THAT(page, HasSubstr("late.so 00ff00ff00ff00ff"));
}

TEST_F(Reading, ARaceThatIsFoundLateMakesEarlierPassesBad) {
  Record race = failing(judged_case("c", "racy"));
  race.fills[0].reruns = core::RerunRecord{.runs = 1, .apart = true};
  write({judged_case("a"), judged_case("b", "racy"), race});
  const Input some = read_input(paths_, 2);
  EXPECT_THAT(kept_names(some), ElementsAre("b racy", "c racy"));
  EXPECT_EQ(some.runs[0].records[0].outcome.code, core::ReasonCode::kSuspectRace);
  EXPECT_EQ(summary_of(some).sentence, summary_of(whole()).sentence);
}

TEST_F(Reading, KeepsAllWhereAllAreNeeded) {
  write({judged_case("a"), judged_case("b")});
  write({judged_case("a"), judged_case("b"), judged_case("c")});
  EXPECT_THAT(kept_names(read_input(paths_, 1)), ElementsAre("a naive", "b naive", "c naive"));
  TearDown();
  paths_.clear();
  Record point = judged_case("b");
  point.sweep = core::SweepPoint{"sizes", "seq_len_q", 64, {}, {}};
  write({judged_case("a"), point});
  EXPECT_EQ(read_input(paths_, 1).runs[0].records.size(), 2u);
}

TEST_F(Reading, WhatIsLeftOutTakesHardlyAnyMemory) {
  std::vector<Record> records(2000, judged_case("a"));
  for (size_t i = 0; i < records.size(); ++i) records[i].case_name = fmt::format("case{}", i);
  write(records);
  records = {};
  const size_t before = mallinfo2().uordblks;
  const Input input = read_input(paths_, 10);
  const size_t grown = mallinfo2().uordblks - before;
  EXPECT_EQ(input.left_out.records(), 1990u);
  EXPECT_LT(grown / 1990, 100u) << "bytes for each record that was left out";
}

TEST_F(Reading, AFileWithoutRunIsRefused) {
  std::ofstream(paths_.emplace_back(::testing::TempDir() + "reading_empty.jsonl")).flush();
  EXPECT_THROW(read_input(paths_, 1), core::Error);
}

}  // namespace
}  // namespace attest::reports
