// History: which records form a series, what the index keeps, and what it refuses.
#include "reports/history/history.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <thread>

#include "core/tensor/error.hpp"
#include "reports/history/history_text.hpp"
#include "reports/history/index.hpp"
#include "reports/testing/records.hpp"

namespace attest::reports {
namespace {

using core::Record;
using core::Results;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The run of a day, whose record takes `ns`. Its commit is that of the day.
Results day(int number, double ns, const std::string& commit = "") {
  Record record = testing::passed("flash", ns);
  record.time->median_ns = ns;
  Results run = testing::file({record}, fmt::format("2026-01-{:02}T00:00:00Z", number));
  run.path = fmt::format("day{}.jsonl", number);
  run.header.environment["build"]["commit"] = commit.empty() ? fmt::format("c{}", number) : commit;
  run.closing.finished = fmt::format("2026-01-{:02}T01:00:00Z", number);
  return run;
}

std::vector<Results> days(int count, int step_at, double factor) {
  std::vector<Results> all;
  for (int i = 1; i <= count; ++i)
    all.push_back(day(i, (1e6 + 1e3 * (i * 7 % 5)) * (i >= step_at ? factor : 1.0)));
  return all;
}

class History : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fmt::format("{}history_{}", ::testing::TempDir(), getpid());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    path_ = folder_ + "/history.sqlite";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  HistoryIndex with(const std::vector<Results>& files) {
    auto [index, added] = HistoryIndex::add(path_, files);
    added_ = std::move(added);
    return std::move(index);
  }
  std::vector<HistorySeries> all(const HistoryIndex& index) {
    std::vector<HistorySeries> series;
    for (const SeriesKey& key : index.keys()) series.push_back(index.series(key));
    return series;
  }
  std::string refusal() {
    try {
      const HistoryIndex index = HistoryIndex::open(path_);
      all(index);
    } catch (const core::Error& error) {
      return error.what();
    }
    return "";
  }
  bool only_the_index_is_left() const {
    const std::filesystem::directory_iterator files(folder_);
    return std::distance(begin(files), end(files)) == 1;
  }
  void execute(const std::string& statement) {
    sqlite3* handle = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &handle), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(handle, statement.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(handle);
  }

  std::string folder_, path_;
  std::vector<Added> added_;  // by the last with()
};

TEST_F(History, FindsTheCommitOfAStep) {
  const CaseHistory history = history_of(all(with(days(20, 11, 1.05)))[0]);
  ASSERT_EQ(history.lines.size(), 3u);
  EXPECT_EQ(history.lines[0].quantity, Quantity::kTime);
  ASSERT_EQ(history.lines[0].steps.steps.size(), 1u);
  const core::Step& step = history.lines[0].steps.steps[0];
  EXPECT_EQ(history.after(history.lines[0], step).commit, "c11");
  EXPECT_EQ(history.before(history.lines[0], step).commit, "c10");
  EXPECT_EQ(print_change(step.before, step.after), "+5.0 %");
  EXPECT_TRUE(history.lines[1].steps.steps.empty()) << "memory";
  EXPECT_TRUE(history.lines[2].steps.steps.empty()) << "error";
  EXPECT_TRUE(history.warnings.empty());
}

TEST_F(History, MemoryAndErrorsHaveStepsToo) {
  std::vector<Results> files = days(20, 99, 1);
  for (size_t i = 8; i < files.size(); ++i) files[i].records[0].memory.workspace_bytes *= 2;
  for (size_t i = 14; i < files.size(); ++i) files[i].records[0].max_ratio = 0.6;
  for (size_t i = 0; i < 14; ++i) files[i].records[0].max_ratio = 0.4;
  const CaseHistory history = history_of(all(with(files))[0]);
  EXPECT_TRUE(history.lines[0].steps.steps.empty());
  ASSERT_EQ(history.lines[1].steps.steps.size(), 1u);
  EXPECT_EQ(history.after(history.lines[1], history.lines[1].steps.steps[0]).commit, "c9");
  ASSERT_EQ(history.lines[2].steps.steps.size(), 1u);
  EXPECT_EQ(history.after(history.lines[2], history.lines[2].steps.steps[0]).commit, "c15");
}

TEST_F(History, IsInOrderOfTimeWhateverWasAddedFirst) {
  const std::vector<HistorySeries> series = all(with({day(9, 3), day(2, 1), day(5, 2)}));
  ASSERT_EQ(series.size(), 1u);
  std::vector<double> times;
  for (const HistoryPoint& point : series[0].points) times.push_back(*point.time_ns);
  EXPECT_THAT(times, ElementsAre(1, 2, 3));
}

TEST_F(History, OtherCircumstancesAreOtherSeries) {
  const std::vector<std::function<void(Results&)>> changes{
      [](Results& r) { r.header.environment["cuda"]["name"] = "H100"; },
      [](Results& r) { r.header.environment["system"]["power_mode"] = "15W"; },
      [](Results& r) { r.header.environment["build"]["build_type"] = "Debug"; },
      [](Results& r) { r.header.environment["build"]["sanitizers"] = "thread"; },
      [](Results& r) { r.records[0].threads = 1; },
      [](Results& r) { r.records[0].dtype = "f32"; },
      [](Results& r) { r.records[0].impl = "naive"; },
      [](Results& r) { r.records[0].suite = "bev"; },
      [](Results& r) { r.records[0].case_name = "b"; },
      [](Results& r) { r.records[0].spec = "softmax seq_len_q=128"; },
      [](Results& r) { r.records[0].inputs = "lidar"; },
      [](Results& r) { r.records[0].device = "cpu"; }};
  std::vector<Results> files{day(1, 1e6)};
  for (size_t i = 0; i < changes.size(); ++i) {
    files.push_back(day(int(i) + 2, 1e6));
    changes[i](files.back());
  }
  EXPECT_EQ(with(files).keys().size(), changes.size() + 1);
}

TEST_F(History, AnotherBuildOfTheLibraryIsTheSameSeries) {
  std::vector<Results> files{day(1, 1e6), day(2, 1e6)};
  files[1].records[0].plugin_hash = "1111111111111111";
  const std::vector<HistorySeries> series = all(with(files));
  ASSERT_EQ(series.size(), 1u);
  EXPECT_EQ(series[0].points.size(), 2u);
  EXPECT_FALSE(series[0].points[0].same_build(series[0].points[1]));
}

TEST_F(History, SaysWhatDiffersAcrossAStep) {
  const auto remark = [&](const std::function<void(Results&, bool after)>& change) {
    std::filesystem::remove(path_);
    std::vector<Results> files = days(20, 11, 1.05);
    for (size_t i = 0; i < files.size(); ++i) {
      files[i].header.environment["build"]["commit"] = "c";
      change(files[i], i >= 10);
    }
    return history_rows(history_of(all(with(files))[0]))[0].remark;
  };
  EXPECT_EQ(remark([](Results&, bool) {}),
            "the same build on both sides: something outside it changed");
  EXPECT_EQ(
      remark([](Results& run, bool after) { run.records[0].plugin_hash = after ? "22" : "11"; }),
      "another build of the library: 22, before 11");
  EXPECT_EQ(remark([](Results& run, bool after) {
              run.header.environment["build"]["commit"] = after ? "d" : "c";
            }),
            "after commit c");
  EXPECT_EQ(remark([](Results& run, bool after) {
              run.header.environment["build"]["commit"] = after ? "d" : "c";
              run.records[0].plugin_hash = after ? "22" : "11";
            }),
            "after commit c, and another build of the library");
}

TEST_F(History, ADriftHasItsFirstAndLastRun) {
  std::vector<Results> files;
  for (int i = 1; i <= 28; ++i) files.push_back(day(i, 1e6 * (1 + 0.02 * i)));
  const HistoryRow row = history_rows(history_of(all(with(files))[0]))[0];
  EXPECT_EQ(row.what, "drift");
  EXPECT_EQ(row.started, "2026-01-01T00:00:00Z");
  EXPECT_EQ(row.commit, "c1");
  EXPECT_EQ(row.remark, "until 2026-01-28T00:00:00Z, commit c28");
  EXPECT_EQ(row.change, "+52.9 %") << "from 1.02 ms to 1.56 ms";
}

TEST_F(History, ARunCountsOnce) {
  with({day(1, 1e6)});
  Results copy = day(1, 1e6);
  copy.path = "copy.jsonl";
  copy.records.push_back(testing::passed("naive", 2e6));
  const HistoryIndex index = with({day(1, 1e6), copy});
  EXPECT_TRUE(added_[0].known_run);
  EXPECT_EQ(added_[0].fresh, 0u);
  EXPECT_EQ(added_[1].fresh, 1u) << "a run that went on since";
  ASSERT_EQ(index.keys().size(), 2u);
  for (const SeriesKey& key : index.keys()) EXPECT_EQ(index.series(key).points.size(), 1u);
}

TEST_F(History, RecordsOfOneRunAreOnePoint) {
  Results run = day(1, 1e6);
  for (const double ns : {2e6, 4e6}) {
    run.records.push_back(run.records[0]);
    run.records.back().time->median_ns = ns;
  }
  const std::vector<HistorySeries> series = all(with({run}));
  ASSERT_EQ(series[0].points.size(), 1u);
  EXPECT_EQ(series[0].points[0].time_ns, 2e6);
}

TEST_F(History, WhatDidNotPassHasNoValue) {
  std::vector<Results> files{day(1, 1e6), day(2, 1e6), day(3, 1e6)};
  files[1].records[0].outcome = {core::ReasonCode::kFailTolerance, "wrong"};
  files[2].records[0].time->median_ns = 0;  // a clock that stood still
  const CaseHistory history = history_of(all(with(files))[0]);
  EXPECT_EQ(history.series.points[1].verdict, "fail");
  EXPECT_FALSE(history.series.points[1].time_ns || history.series.points[1].memory_bytes ||
               history.series.points[1].error_ratio);
  EXPECT_FALSE(history.series.points[2].time_ns);
  EXPECT_THAT(history.lines[0].at, ElementsAre(0));
  EXPECT_THAT(history.warnings, ElementsAre(HasSubstr("1 of 3 runs have no value")));
}

TEST_F(History, SaysWhereAClockWentBack) {
  Results run = day(5, 1e6);
  run.closing.finished = "2026-01-04T00:00:00Z";
  with({run});
  EXPECT_THAT(added_[0].warnings, ElementsAre(HasSubstr("its clock was set back")));
  with({day(6, 1e6)});
  EXPECT_THAT(added_[0].warnings, ElementsAre());
  const auto index = with({day(1, 1e6, "a"), day(2, 1e6, "b"), day(3, 1e6, "a")});
  EXPECT_THAT(history_of(all(index)[0]).warnings,
              ElementsAre(HasSubstr("commit a was measured before and after another one")));
}

TEST_F(History, RefusesWhatIsNoRun) {
  Results empty, baseline = day(2, 1e6);
  empty.path = "empty.jsonl";
  baseline.header.environment["baseline"]["from"] = "day1.jsonl";
  EXPECT_THROW(with({day(1, 1e6), empty}), core::Error);
  EXPECT_THROW(with({day(1, 1e6), baseline}), core::Error);
  EXPECT_FALSE(std::filesystem::exists(path_)) << "all files or none, and no empty index";
  with({day(1, 1e6)});
  EXPECT_THROW(HistoryIndex::rebuild(path_, {empty}), core::Error);
  EXPECT_EQ(HistoryIndex::open(path_).keys().size(), 1u) << "it stays as it was";
}

TEST_F(History, IsRebuiltFromTheSameFiles) {
  const std::vector<Results> files = days(5, 3, 1.1);
  std::vector<SeriesKey> keys;
  std::vector<std::string> names;
  {
    const HistoryIndex index = with(files);
    keys = index.keys();
    names = index.files();
  }
  EXPECT_EQ(names.size(), 5u);
  const HistoryIndex again = HistoryIndex::rebuild(path_, files).index;
  EXPECT_EQ(again.keys(), keys);
  EXPECT_EQ(again.files(), names);
  EXPECT_EQ(again.series(keys[0]).points.size(), 5u);
  EXPECT_TRUE(only_the_index_is_left());
}

TEST_F(History, SaysHowToMendADamagedIndex) {
  with(days(8, 3, 1.1));
  {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);
    file << std::string(8000, '\x5a');
  }
  EXPECT_THAT(refusal(), AllOf(HasSubstr("is damaged"),
                               HasSubstr("attest history rebuild RESULTS.jsonl... --index ")));
  EXPECT_EQ(HistoryIndex::rebuild(path_, {day(1, 1e6)}).index.keys().size(), 1u);
  EXPECT_TRUE(only_the_index_is_left());
}

TEST_F(History, TwoMakersOfOneIndexBothAdd) {
  std::string error;  // of either
  const auto add = [&](int first) {
    try {
      for (int i = first; i < first + 5; ++i) {
        HistoryIndex::add(path_, {day(i, 1e6)});
      }
    } catch (const core::Error& one) {
      static std::mutex mutex;
      const std::lock_guard lock(mutex);
      error = one.what();
    }
  };
  for (int round = 0; round < 10; ++round) {
    std::filesystem::remove(path_);
    std::thread other(add, 1);
    add(11);
    other.join();
    ASSERT_EQ(error, "");
    const std::vector<HistorySeries> series = all(HistoryIndex::open(path_));
    ASSERT_EQ(series.size(), 1u);
    EXPECT_EQ(series[0].points.size(), 10u) << round;
  }
}

TEST_F(History, FilesAreFoundThroughALinkToTheFolder) {
  namespace fs = std::filesystem;
  fs::create_directories(folder_ + "/deep/er");
  fs::create_directory_symlink(folder_ + "/deep/er", folder_ + "/link");
  path_ = folder_ + "/link/history.sqlite";
  Results run = day(1, 1e6);
  run.path = folder_ + "/day1.jsonl";
  std::ofstream(run.path) << "results\n";
  const HistoryIndex index = with({run});
  ASSERT_EQ(index.files().size(), 1u);
  EXPECT_TRUE(fs::equivalent(index.files()[0], run.path)) << index.files()[0];
}

TEST_F(History, ADamagedIndexBehindALinkIsRebuiltInItsPlace) {
  with({day(1, 1e6)});
  {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);
    file << std::string(8000, '\x5a');
  }
  const std::string link = folder_ + "/link.sqlite";
  std::filesystem::create_symlink(path_, link);
  HistoryIndex::rebuild(link, {day(1, 1e6)});
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(refusal(), "") << "of the file behind the link";
}

TEST_F(History, WhatCannotBeReadOrWrittenIsTheMachinesFault) {
  std::filesystem::create_symlink("history.sqlite", path_);  // to itself
  EXPECT_THROW(HistoryIndex::open(path_), core::MachineError);
  path_ = folder_ + "/nowhere/history.sqlite";
  EXPECT_THROW(with({day(1, 1e6)}), core::MachineError);
  path_ = folder_;
  EXPECT_THAT(refusal(), HasSubstr("is a folder"));
}

TEST_F(History, SaysWhenATableIsMissingOrOfAnotherVersion) {
  with({day(1, 1e6)});
  execute("DROP TABLE points");
  EXPECT_THAT(refusal(), HasSubstr("is damaged"));
  execute("PRAGMA user_version = 1");
  EXPECT_THAT(refusal(), HasSubstr("was written by another attest (version 1 of the index, not 2): "
                                   "attest history rebuild RESULTS.jsonl... --index "));
  EXPECT_THROW(with({day(1, 1e6)}), core::Error) << "its machines have other names";
  execute("CREATE TABLE of_that_version (x)");
  EXPECT_EQ(HistoryIndex::rebuild(path_, {day(1, 1e6)}).index.keys().size(), 1u);
  EXPECT_EQ(refusal(), "");
}

TEST_F(History, DoesNotTouchFilesOfOthers) {
  EXPECT_THAT(refusal(), HasSubstr("is not there"));
  std::ofstream(path_).close();
  EXPECT_THAT(refusal(), HasSubstr("is empty; attest history add"));
  std::ofstream(path_) << "{\"type\": \"header\"}\n";
  EXPECT_THAT(refusal(), HasSubstr("is no index of attest"));
  EXPECT_THROW(with({day(1, 1e6)}), core::Error);
  EXPECT_THROW(HistoryIndex::rebuild(path_, {day(1, 1e6)}), core::Error);
  std::filesystem::remove(path_);
  execute("CREATE TABLE mine (x)");
  EXPECT_THAT(refusal(), HasSubstr("is no index of attest"));
  EXPECT_THROW(HistoryIndex::rebuild(path_, {day(1, 1e6)}), core::Error);
}

}  // namespace
}  // namespace attest::reports
