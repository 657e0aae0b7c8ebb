// Inputs: files that belong together, files that are cut, and what a reader is warned of.
#include "reports/input/input.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/tensor/error.hpp"

namespace attest::reports {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

core::Record record(const std::string& case_name, double max_ratio = 0.5) {
  core::Record r;
  r.case_name = case_name;
  r.impl = "mine";
  r.outcome = {};
  r.max_ratio = max_ratio;
  return r;
}

core::Results file(const std::string& path, std::vector<core::Record> records,
                   const std::string& started = "2026-01-01T00:00:00Z") {
  core::Results results;
  results.path = "folder/" + path;
  results.header.started = started;
  results.header.environment = {{"cpu", {{"model", "a CPU"}}}};
  results.records = std::move(records);
  results.begun = results.complete = true;
  return results;
}

TEST(Input, RunsStayApart) {
  const Input input = make_input(
      {file("a.jsonl", {record("x")}), file("b.jsonl", {record("x")}, "2026-01-02T00:00:00Z")});
  EXPECT_EQ(input.runs.size(), 2u);
  EXPECT_THAT(input.warnings, IsEmpty());
}

// A copy, or a copy that was made while the run went on.
TEST(Input, ARunInTwoFilesCountsOnce) {
  core::Results cut = file("cut.jsonl", {record("x")});
  cut.complete = false;
  const Input input = make_input({cut, file("whole.jsonl", {record("x"), record("y")})});
  ASSERT_EQ(input.runs.size(), 1u);
  EXPECT_EQ(input.runs[0].records.size(), 2u);
  EXPECT_TRUE(input.runs[0].complete);
  EXPECT_THAT(input.warnings, ElementsAre("cut.jsonl and whole.jsonl hold the same run, of "
                                          "2026-01-01T00:00:00Z; it counts once"));
}

TEST(Input, SaysWhereTwoFilesOfOneRunDiffer) {
  const Input input =
      make_input({file("a.jsonl", {record("x", 0.25)}), file("b.jsonl", {record("x", 0.75)})});
  ASSERT_EQ(input.runs.size(), 1u);
  ASSERT_EQ(input.runs[0].records.size(), 1u);
  EXPECT_EQ(input.runs[0].records[0].max_ratio, 0.25);
  EXPECT_THAT(input.warnings,
              ElementsAre(HasSubstr("1 of its records differ between the files; those of a.jsonl "
                                    "are shown")));
}

// One was copied before the race was seen: a pass that is overruled in the other is no difference.
TEST(Input, ARaceInOneOfTwoFilesOverrulesThePassesOfBoth) {
  core::Record race = record("y");
  race.outcome.code = core::ReasonCode::kFailTolerance;
  race.fills.push_back({.fill = "random", .reruns = core::RerunRecord{.runs = 1, .apart = true}});
  core::Record overruled = record("x");
  overruled.outcome.code = core::ReasonCode::kSuspectRace;
  const Input input =
      make_input({file("a.jsonl", {record("x")}), file("b.jsonl", {overruled, race})});
  ASSERT_EQ(input.runs[0].records.size(), 2u);
  EXPECT_EQ(input.runs[0].records[0].outcome.code, core::ReasonCode::kSuspectRace);
  EXPECT_THAT(input.warnings, ElementsAre(Not(HasSubstr("differ"))));
}

TEST(Input, AFileWithoutAHeaderIsRefused) {
  core::Results empty;
  empty.path = "empty.jsonl";
  try {
    make_input({empty});
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("empty.jsonl: holds no results"));
  }
}

TEST(Input, WarnsOfABoardThatIsThrottledOrWhoseClocksAreNotLocked) {
  core::Results run = file("a.jsonl", {record("x")});
  auto& board = run.header.environment["board"];
  board = {{"gpu_locked", "yes"},
           {"memory_locked", "yes"},
           {"cpu_locked", "yes"},
           {"throttling_gpu_throttle_alert", "no"}};
  EXPECT_THAT(warnings_of({run}), IsEmpty());
  board["cpu_locked"] = "no";
  board["throttling_gpu_throttle_alert"] = "yes";
  EXPECT_THAT(
      warnings_of({run}),
      ElementsAre(
          "a.jsonl: the board was throttled when the run began: throttling_gpu_throttle_alert",
          "a.jsonl: the board's clocks were not locked, so its times may not be had again: "
          "sudo jetson_clocks"));
}

TEST(Input, WarnsOfWhatWeakensTimes) {
  core::Results run = file("a.jsonl", {record("x")});
  run.complete = false;
  run.header.environment["build"] = {{"build_type", "Debug"}, {"sanitizers", ""}};
  run.header.environment["state"] = {{"cpu_pressure_percent", "99.9"}, {"throttling_now", "1"}};
  run.records[0].time = core::TimeRecord{.median_ns = 100, .q1_ns = 90, .q3_ns = 110};
  core::Results other = file("b.jsonl", {}, "2026-01-02T00:00:00Z");
  other.header.environment["cpu"]["model"] = "another CPU";
  other.header.environment["build"] = {{"sanitizers", "address"}};
  const std::vector<std::string> warnings = warnings_of({run, other});
  for (const char* part :
       {"a.jsonl: the run did not end; it has 1 records", "a.jsonl: attest was built without",
        "a CPU 100 % of the time", "a.jsonl: the CPU was throttled",
        "b.jsonl: attest was built with sanitizers (address)",
        "from 2 machines: a CPU; another CPU", "1 of 1 times is noisy"})
    EXPECT_THAT(warnings, Contains(HasSubstr(part)));
  EXPECT_EQ(warnings.size(), 7u);
}

// Their CPUs have one name, and the times are not of the CPUs.
TEST(Input, WarnsOfTwoGpusBehindOneCpu) {
  core::Results one = file("a.jsonl", {record("x")}),
                other = file("b.jsonl", {record("x")}, "2026-01-02T00:00:00Z");
  one.header.environment["cuda"] = {{"name", "H100"}, {"multiprocessors", "132"}};
  other.header.environment["cuda"] = {{"name", "A100"}, {"multiprocessors", "108"}};
  EXPECT_THAT(warnings_of({one, other}), IsEmpty()) << "nothing ran on them";
  one.records[0].device = other.records[0].device = "cuda";
  EXPECT_THAT(warnings_of({one, other}),
              ElementsAre(HasSubstr("from 2 machines: A100 (108 multiprocessors) with a CPU; H100 "
                                    "(132 multiprocessors) with a CPU; times")));
}

TEST(Input, WarnsOfReasonCodesOfANewerAttest) {
  core::Results run = file("a.jsonl", {record("x"), record("y")});
  run.records[1].outcome.code = core::read_reason_code("fail:later", "fail");
  EXPECT_THAT(warnings_of({run}),
              ElementsAre("a.jsonl: a newer attest wrote fail:later, which this one cannot "
                          "explain; the verdicts count"));
}

TEST(Input, ARunWithoutANameIsCalledThisRun) {
  core::Results run = file("", {record("x")});
  run.path = "";
  run.complete = false;
  EXPECT_THAT(warnings_of({run}), ElementsAre(HasSubstr("this run: the run did not end")));
}

}  // namespace
}  // namespace attest::reports
