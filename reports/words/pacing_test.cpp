// The lines about frames and energy.
#include "reports/words/pacing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/formats.hpp"
#include "reports/summary.hpp"
#include "reports/table.hpp"
#include "reports/testing/readers.hpp"
#include "reports/words/units.hpp"

namespace attest::reports {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

core::PhaseRecord a_phase() {
  return {.processing_time_ns = {3e6},
          .latency_ns = {3e6},
          .policies = {{.policy = "queue-all",
                        .frames = 500,
                        .missed = 2,
                        .max_latency_ns = 9e7,
                        .max_age_ns = 4e7,
                        .percentiles = {{.share = 0.5,
                                         .value_ns = 3e6,
                                         .low_ns = 2.9e6,
                                         .high_ns = 3.1e6,
                                         .coverage = 0.991,
                                         .claimed_ns = 3e6},
                                        {.share = 0.99,
                                         .value_ns = 8e6,
                                         .low_ns = 5e6,
                                         .high_ns = 9e7,
                                         .coverage = 0.98,
                                         .claimed_ns = 9e7},
                                        {.share = 0.999, .value_ns = 9e7, .needed = 4603}}},
                       {.policy = "latest-only",
                        .frames = 502,
                        .dropped = 2,
                        .missed = 3,
                        .percentiles = {{.share = 0.5, .value_ns = 3e6, .claimed_ns = 3e6}}}},
          .missed_by_hz = {{"12", 1}, {"30", 7}}};
}

TEST(PacingLines, AreNoneWhereNothingWasPaced) {
  EXPECT_THAT(pacing_lines(core::Record{}), IsEmpty());
}

TEST(PacingLines, SayWhatIsSupported) {
  core::Record record;
  record.paced = core::PacedRecord{.period_ns = 5e7, .alone = a_phase()};
  EXPECT_THAT(
      pacing_lines(record),
      ElementsAre(
          "20Hz alone, queue-all: 2 of 500 frames missed; p50 3.00 ms [2.90 ms 3.10 ms], "
          "p99 8.00 ms (at most 90.0 ms at 99 % confidence), p99.9 90.0 ms (not supported by 500 "
          "frames: 4603 "
          "needed), max 90.0 ms; oldest frame used 40.0 ms",
          HasSubstr("20Hz alone, latest-only: 3 of 502 frames missed, 2 of them dropped;"),
          "the same delays and processing times, none dropped, would miss: 1 at 12Hz, 7 at 30Hz"));
}

TEST(PacingLines, NameNeighboursAndTheirWork) {
  core::Record record;
  record.paced = core::PacedRecord{
      .period_ns = 5e7, .alone = a_phase(), .contended = a_phase(), .slowdown = 1.456};
  record.paced->contended->neighbours = {{"stream:2", 9.51, "GB/s"},
                                         {"same:1", 0, "runs/s", "a process ended: SIGABRT"}};
  const std::vector<std::string> lines = pacing_lines(record);
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_THAT(lines[3], HasSubstr("20Hz beside stream:2 (9.51 GB/s), same:1 (0 runs/s; a process "
                                  "ended: SIGABRT), queue-all"));
  EXPECT_EQ(lines[6], "slowdown: p99.9 beside neighbours is 1.46 times that alone") << "as of old";
}

core::Record a_contended_record() {
  core::Record record;
  record.paced = core::PacedRecord{.period_ns = 5e7,
                                   .alone = a_phase(),
                                   .contended = a_phase(),
                                   .slowdown = 1.456,
                                   .slowdown_share = 0.5};
  return record;
}

TEST(PacingLines, SayWhichPercentileASlowdownIsOf) {
  core::Record record = a_contended_record();
  EXPECT_EQ(pacing_lines(record).back(),
            "slowdown: p50 beside neighbours is 1.46 times that alone (the highest percentile that "
            "both series support)");
  record.paced->slowdown_low = 1.2;
  record.paced->slowdown_high = 1.789;
  EXPECT_THAT(pacing_lines(record).back(), HasSubstr("1.46 times that alone [1.20 1.79] (the"));
  record.paced->slowdown.reset();
  record.paced->slowdown_refusal = "same:1: a process ended: SIGABRT";
  EXPECT_EQ(pacing_lines(record).back(),
            "no slowdown beside neighbours is known: same:1: a process ended: SIGABRT");
}

TEST(PacingLines, FramesThatNeverRanAreNotLeftOut) {
  core::Record record;
  record.paced = core::PacedRecord{.period_ns = 5e7, .alone = a_phase()};
  core::PolicyRecord& all = record.paced->alone.policies[0];
  all.never_ran = 200;
  all.missed = 202;
  all.percentiles[0].high_at_least = true;
  all.percentiles[1].value_at_least = true;
  all.percentiles[1].claimed_ns.reset();
  const std::vector<std::string> lines = pacing_lines(record);
  EXPECT_THAT(lines[0],
              HasSubstr("202 of 500 frames missed, 200 of them never ran, because the series was "
                        "cut while they were in the queue; p50 3.00 ms [2.90 ms 3.10 ms or more], "
                        "p99 at least 8.00 "
                        "ms (no limit is known: frames never ran), p99.9 90.0 ms (not supported by "
                        "500 frames: 4603 needed), max at least 90.0 ms;"));
  record.paced->alone.latency_ns.assign(300, 3e6);
  EXPECT_THAT(pacing_lines(record)[2],
              HasSubstr("would miss: 1 at 12Hz, 7 at 30Hz of the 300 that ran"));
}

TEST(PacingLines, SayThatTheClockStoodStill) {
  core::Record record;
  record.paced = core::PacedRecord{.period_ns = 5e7, .alone = a_phase()};
  record.paced->alone.latency_ns.assign(20, 3e6);  // in a second
  record.paced->alone.clock_held_ns = 0.04e9;
  EXPECT_EQ(pacing_lines(record).size(), 3u);
  record.paced->alone.clock_held_ns = 0.4e9;
  EXPECT_EQ(
      pacing_lines(record).at(2),
      "the clock that releases frames stood still for 400 ms in all, while attest prepared frames "
      "that were due; no latency includes that");
}

TEST(PacingLines, EnergyThatIsUnknownIsNotZero) {
  core::Record record;
  record.spec = "softmax batch=2 num_heads=8 seq_len_q=100 head_dim=64";
  record.energy = {{.sensor = "rapl package-0",
                    .covers = "CPU package 0",
                    .method = "counter",
                    .window_ns = 1.5e9,
                    .runs = 30,
                    .joules = 60,
                    .run_joules = 2,
                    .idle_watts_before = 10,
                    .idle_watts_after = 12,
                    .net_run_joules = 1.45,
                    .polled_joules = 102},
                   {.sensor = "NVML", .covers = "the first CUDA device", .refusal = "no answer"}};
  EXPECT_THAT(
      pacing_lines(record),
      ElementsAre(
          "energy by rapl package-0 (CPU package 0): 2 J a run (0.01 J a token), 1.45 J of it "
          "above idle; 30 runs in 1.50 s; idle 10 W before, 12 W after; by polled power 1.70 times "
          "as much",
          "energy by NVML (the first CUDA device): unknown: no answer"));
}

TEST(PacingLines, AMachineWithoutSensorsIsSaid) {
  core::Record record;
  record.energy.emplace();
  EXPECT_THAT(pacing_lines(record), ElementsAre(HasSubstr("this machine has no sensor")));
}

TEST(PacingLines, AreBelowTheRowOfTheTable) {
  core::Record record;
  record.case_name = "c";
  record.dtype = "f16";
  record.impl = "mine";
  record.paced = core::PacedRecord{.period_ns = 5e7, .alone = a_phase()};
  record.energy.emplace();
  const std::string table = print_table({record}, false);
  EXPECT_THAT(table,
              HasSubstr("\n                  20Hz alone: 2 of 500 frames missed (queue-all), 3 "
                        "of 502 (latest-only); p50 3.00 ms, p99 8.00 ms, max 90.0 ms\n\n"))
      << "in one line, and what nobody measured has none";
  EXPECT_THAT(
      table, HasSubstr("\nframes were missed: c f16 mine: 3 of 502 frames (latest-only, alone)\n"));
  EXPECT_THAT(table, HasSubstr("\nenergy of 1 record: unknown: this machine has no sensor"));
}

TEST(PacingLines, OfATableAreOneForEachPhaseAndOneForSensors) {
  core::Record record = a_contended_record();
  record.paced->contended->neighbours = {{"stream:2", 9.51, "GB/s"}};
  record.paced->contended->policies[0].never_ran = 1;
  record.energy = {{.sensor = "A", .run_joules = 2, .net_run_joules = 1.45},
                   {.sensor = "NVML", .refusal = "no answer"}};
  EXPECT_THAT(short_pacing_lines(record),
              ElementsAre(HasSubstr("20Hz alone: "),
                          ::testing::AllOf(
                              HasSubstr("20Hz beside stream:2 (9.51 GB/s): 2 of 500 frames missed"),
                              HasSubstr("max at least 90.0 ms; p50 is 1.46 times that alone")),
                          "energy: A 2 J a run, 1.45 J of it above idle; NVML unknown: no answer"));
}

core::Record a_paced_record(int64_t missed) {
  core::Record record;
  record.suite = "s";
  record.case_name = "c";
  record.dtype = "f16";
  record.impl = "mine";
  record.outcome.code = core::ReasonCode::kPass;
  record.paced = core::PacedRecord{.period_ns = 5e7, .alone = a_phase()};
  for (core::PolicyRecord& policy : record.paced->alone.policies) policy.missed = missed;
  return record;
}

TEST(FrameCounts, NameTheRecordThatMissedMost) {
  FrameCounts counts;
  EXPECT_EQ(counts.print(), "");
  counts.add(a_paced_record(0));
  EXPECT_EQ(counts.print(), "the one paced record missed no frame");
  counts.add(a_paced_record(0));
  EXPECT_EQ(counts.print(), "none of 2 paced records missed a frame");
  counts.add({a_paced_record(1), a_paced_record(7)});
  EXPECT_EQ(
      counts.print(),
      "2 of 4 paced records missed frames, the worst s/c f16 mine: 7 of 500 frames (queue-all, "
      "alone)");
}

TEST(FrameCounts, AreInJUnitAndInTheHeadline) {
  core::Results run;
  run.begun = run.complete = true;
  run.records = {a_paced_record(7)};
  const Input input = make_input({run});
  EXPECT_EQ(summary_of(input).sentence,
            "The one judged record passes. Frames were missed: s/c f16 mine: 7 of 500 frames "
            "(queue-all, alone).");
  const std::string junit = find_format("junit").print(input, {});
  EXPECT_EQ(testing::junit_errors(junit), "");
  EXPECT_THAT(junit, HasSubstr("<system-out>20Hz alone, queue-all: 7 of 500 frames missed"));
  EXPECT_THAT(junit, HasSubstr("failures=\"0\""));
}

}  // namespace
}  // namespace attest::reports
