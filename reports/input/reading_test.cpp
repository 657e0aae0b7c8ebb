// Reading: of many records only those are kept that a page shows, and what it says of all is true.
#include "reports/input/reading.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

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
    core::Header header = attest::testing::file({}, started + "T00:00:00Z").header;
    header.environment["cuda"]["name"] = gpu_;
    out << to_json(header).dump() << '\n';
    for (const Record& record : records) out << to_json(record).dump() << '\n';
    out << to_json(core::Closing::of(records, started + "T01:00:00Z")).dump() << '\n';
  }
  Input whole() const {
    std::vector<Results> files;
    for (const std::string& path : paths_) files.push_back(core::read_results(path));
    return make_input(std::move(files));
  }

  std::vector<std::string> paths_;
  std::string gpu_ = "H200";
};

Record judged_case(const std::string& name, const std::string& impl = "naive") {
  Record record = passed(impl);
  record.case_name = name;
  record.operation = "softmax";
  record.plugin = impl + ".so";
  record.spec = "softmax seq_len_q=64 head_dim=" + std::to_string(8 * (name[0] - '`'));
  record.time->median_ns = 1e6;
  record.time->q1_ns = 0.9e6;
  record.time->q3_ns = 1.2e6;
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

// The heap is looked at while the files are read: a reader that keeps all records until it has
// chosen would need the memory all the same. Sanitizers have another heap, of which this sees none.
TEST_F(Reading, WhatIsLeftOutTakesHardlyAnyMemory) {
  constexpr size_t kRecords = 4000;
  std::vector<Record> records(kRecords, judged_case("a"));
  for (size_t i = 0; i < kRecords; ++i) records[i].case_name = fmt::format("case{}", i);
  write(records);
  records = {};
  const size_t before = mallinfo2().uordblks;
  size_t most = before;
  std::atomic<bool> done = false;
  std::thread watch([&] {
    while (!done) {
      most = std::max(most, mallinfo2().uordblks);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  const Input input = read_input(paths_, 10);
  done = true;
  watch.join();
  EXPECT_EQ(input.left_out.records(), kRecords - 10);
  EXPECT_LT((most - before) / kRecords, 500u) << "bytes for each record";
}

// What a run has written since the first look is in no figure of the page.
TEST_F(Reading, ARunThatGoesOnIsReadAsItWasAtFirst) {
  write({judged_case("a"), judged_case("b", "racy"), failing(judged_case("c"))});
  Survey survey(paths_, 1);
  Record race = failing(judged_case("b", "racy"));
  race.fills[0].reruns = core::RerunRecord{.runs = 1, .apart = true};
  std::ofstream(paths_[0], std::ios::app) << to_json(race).dump() << '\n'
                                          << to_json(judged_case("d")).dump() << '\n';
  const Input input = survey.input();
  EXPECT_THAT(kept_names(input), ElementsAre("c naive"));
  EXPECT_EQ(input.left_out.records(), 2u);
  EXPECT_EQ(summary_of(input).all.of(core::Verdict::kPass), 2u);
}

TEST_F(Reading, AFileThatIsReplacedMeanwhileIsRefused) {
  const std::vector<Record> records{judged_case("a"), judged_case("b")};
  const auto refusal = [&](const std::vector<Record>& later, const std::string& started) {
    paths_.clear();
    write(records);
    Survey survey(paths_, 1);
    const std::string path = paths_[0];
    paths_.clear();
    write(later, started);
    EXPECT_EQ(paths_[0], path);
    try {
      survey.input();
      return std::string();
    } catch (const core::Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(refusal(records, "2026-01-01"), "") << "it is the same";
  for (const std::string& text :
       {refusal(records, "2026-01-02"), refusal({judged_case("a")}, "2026-01-01"),
        refusal({judged_case("a"), judged_case("z")}, "2026-01-01")})
    EXPECT_THAT(text, HasSubstr(".jsonl: was replaced by another file while it was read"));
}

// A pipe is empty when it is read again. `attest report /dev/stdin` reads one.
TEST_F(Reading, OfAPipeAllRecordsAreKept) {
  write({judged_case("a"), judged_case("b"), judged_case("c")});
  std::ostringstream text;
  text << std::ifstream(paths_[0]).rdbuf();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string content = text.str();
  ASSERT_LT(content.size(), 65536u) << "what a pipe holds";
  ASSERT_EQ(::write(ends[1], content.data(), content.size()), ssize_t(content.size()));
  close(ends[1]);
  const Input input = read_input({fmt::format("/dev/fd/{}", ends[0])}, 1);
  close(ends[0]);
  EXPECT_THAT(kept_names(input), ElementsAre("a naive", "b naive", "c naive"));
}

// The GPUs of two machines whose CPUs have one name, as in input_test.cpp.
TEST_F(Reading, MachinesAreToldApartByTheDevicesOfWhatIsLeftOut) {
  Record cpu = failing(judged_case("z"));
  cpu.device = "cpu";
  for (const char* name : {"H100", "A100"}) {
    gpu_ = name;
    write({judged_case("a"), judged_case("b"), cpu}, name[0] == 'H' ? "2026-01-01" : "2026-01-02");
  }
  const Input all = whole(), some = read_input(paths_, 2);
  EXPECT_THAT(kept_names(some), ElementsAre("z naive", "z naive"));
  const auto machines = HasSubstr("from 2 machines: A100 with EPYC; H100 with EPYC");
  EXPECT_THAT(all.warnings, ::testing::Contains(machines));
  EXPECT_THAT(some.warnings, ::testing::Contains(machines));
  const std::string page = print_html(some, {.charts = false});
  EXPECT_THAT(page, HasSubstr(": H100 with EPYC, "));
  EXPECT_THAT(page, HasSubstr("\"machine\":\"A100 with EPYC\""));
  EXPECT_THAT(page, HasSubstr("[\"H100 with EPYC\"")) << "the texts that records share";
}

// Else one would compare an old run with nothing.
TEST_F(Reading, ACaseIsShownOfAllRunsOrOfNone) {
  write({judged_case("a"), judged_case("b")});
  write({judged_case("a"), judged_case("b")}, "2026-01-02");
  const Input some = read_input(paths_, 2);
  EXPECT_THAT(kept_names(some), ElementsAre("a naive", "a naive"));
  EXPECT_EQ(shown_records(whole(), 3).size(), 2u);
}

TEST_F(Reading, AFileWithoutRunIsRefused) {
  std::ofstream(paths_.emplace_back(::testing::TempDir() + "reading_empty.jsonl")).flush();
  EXPECT_THROW(read_input(paths_, 1), core::Error);
}

}  // namespace
}  // namespace attest::reports
