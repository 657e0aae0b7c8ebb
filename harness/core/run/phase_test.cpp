// Phases by hand: what delays a start is latency under each policy and at each rate.
#include "core/run/phase.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace attest::core {
namespace {

constexpr double kFramePeriod_ns = 50e6, kFrameRun_ns = 50e3;

// Sixty frames at 20 Hz. The machine is away from just before frame 10 arrives until 133 ms later,
// when frames 11 and 12 have arrived too.
PhaseRecord phase_with_a_late_start() {
  std::vector<double> starts, ends;
  for (int i = 0; i < 60; ++i) {
    double start = i * kFramePeriod_ns;
    if (i == 10) start += 133e6;
    if (i == 11 || i == 12) start = ends.back() + 10e3;
    starts.push_back(start);
    ends.push_back(start + kFrameRun_ns);
  }
  return phase_record(starts, ends, kFramePeriod_ns, 60);
}

TEST(Phase, ALateStartIsLatencyUnderEachPolicy) {
  const PhaseRecord phase = phase_with_a_late_start();
  ASSERT_EQ(phase.policies.size(), 2u);
  const PolicyRecord &all = phase.policies[0], &latest = phase.policies[1];
  EXPECT_EQ(all.missed, 2) << "frames 10 and 11";
  EXPECT_EQ(all.max_latency_ns, 133e6 + kFrameRun_ns);
  EXPECT_EQ(latest.dropped, 1) << "frame 11: frame 12 has arrived";
  EXPECT_EQ(latest.missed, 2);
  EXPECT_EQ(latest.max_latency_ns, 133e6 + kFrameRun_ns);
  EXPECT_EQ(latest.max_age_ns, 133e6);
}

TEST(Phase, ALateStartIsLatencyAtEachRate) {
  const PhaseRecord phase = phase_with_a_late_start();
  EXPECT_EQ(phase.missed_by_hz.at("20"), phase.policies[0].missed) << "the rate that was measured";
  EXPECT_EQ(phase.missed_by_hz.at("10"), 1) << "the frame itself is 133 ms late";
  EXPECT_EQ(phase.missed_by_hz.at("30"), 3) << "133, 100 and 66 ms; then 33.4 ms, then none";
}

// Twenty frames at 20 Hz of 130 ms each. The series is cut at 1 s, after eight of them.
TEST(Phase, FramesThatNeverRanAreMissed) {
  std::vector<double> starts, ends;
  for (int i = 0; i < 8; ++i) {
    starts.push_back(i * 130e6);
    ends.push_back((i + 1) * 130e6);
  }
  const PhaseRecord phase = phase_record(starts, ends, kFramePeriod_ns, 20);
  const PolicyRecord &all = phase.policies[0], &latest = phase.policies[1];
  EXPECT_EQ(all.frames, 20);
  EXPECT_EQ(all.never_ran, 12);
  EXPECT_EQ(all.missed, 20);
  EXPECT_EQ(all.dropped, 0);
  EXPECT_EQ(phase.latency_ns.size(), 8u) << "as measured";
  // Latencies are 130, 210 ... 690 ms. The ninth frame arrived at 400 ms and had waited 640 ms by
  // 1,040 ms; the last one 90 ms.
  EXPECT_EQ(all.max_latency_ns, 690e6);
  const PercentileRecord &p50 = all.percentiles[0], &p99 = all.percentiles[2];
  EXPECT_TRUE(p50.value_at_least && p99.value_at_least);
  EXPECT_TRUE(p50.high_at_least);
  EXPECT_FALSE(p50.claimed_ns || p99.claimed_ns);
  EXPECT_GE(p50.value_ns, 340e6);
  EXPECT_EQ(phase.missed_by_hz.at("10"), 8) << "of the eight that ran";
  EXPECT_EQ(latest.never_ran, 0);
  EXPECT_EQ(latest.frames, 8 + latest.dropped);
  EXPECT_FALSE(latest.percentiles[0].value_at_least);
}

// The last of ninety frames that ran takes six seconds; two more arrive meanwhile.
TEST(Phase, PercentilesBelowFramesThatNeverRanAreKnown) {
  std::vector<double> starts, ends;
  for (int i = 0; i < 90; ++i) {
    starts.push_back(i * kFramePeriod_ns);
    ends.push_back(starts.back() + kFrameRun_ns);
  }
  ends.back() += 6e9;
  const PhaseRecord phase = phase_record(starts, ends, kFramePeriod_ns, 92);
  const PolicyRecord& all = phase.policies[0];
  EXPECT_EQ(all.never_ran, 2);
  EXPECT_EQ(all.missed, 3);
  EXPECT_EQ(phase.missed_by_hz.at("10"), 1) << "whether the other two would be late is not known";
  EXPECT_EQ(all.percentiles[0].value_ns, kFrameRun_ns);
  EXPECT_FALSE(all.percentiles[0].value_at_least || all.percentiles[0].high_at_least);
  EXPECT_EQ(all.percentiles[0].claimed_ns, kFrameRun_ns);
  EXPECT_FALSE(all.percentiles[1].value_at_least) << "p90";
  EXPECT_TRUE(all.percentiles[1].high_at_least);
  EXPECT_TRUE(all.percentiles[2].value_at_least) << "p99";
}

PhaseRecord phase_of(int frames, double run_ns) {
  std::vector<double> starts, ends;
  for (int i = 0; i < frames; ++i) {
    starts.push_back(i * kFramePeriod_ns);
    ends.push_back(starts.back() + run_ns + i);
  }
  return phase_record(starts, ends, kFramePeriod_ns, frames);
}

PacedRecord compared(PhaseRecord alone, PhaseRecord contended) {
  PacedRecord record{
      .period_ns = kFramePeriod_ns, .alone = std::move(alone), .contended = std::move(contended)};
  set_slowdown(record);
  return record;
}

TEST(Slowdown, IsOfThePercentileThatTheFramesSupport) {
  const std::tuple<int, int, std::optional<double>> series[] = {
      {5000, 5000, 0.999}, {5000, 700, 0.99}, {600, 5000, 0.99}, {458, 458, 0.9},
      {44, 5000, 0.9},     {43, 5000, 0.5},   {7, 7, 0.5},       {6, 5000, std::nullopt}};
  for (const auto& [alone, contended, share] : series) {
    const PacedRecord record = compared(phase_of(alone, 1e6), phase_of(contended, 3e6));
    EXPECT_EQ(record.slowdown_share, share) << alone << " and " << contended;
    EXPECT_EQ(record.slowdown.has_value(), share.has_value());
    EXPECT_EQ(record.slowdown_refusal.empty(), share.has_value());
    if (share) {
      EXPECT_NEAR(*record.slowdown, 3, 0.02);
    }
  }
  EXPECT_EQ(compared(phase_of(6, 1e6), phase_of(9, 1e6)).slowdown_refusal,
            "6 frames alone and 9 beside neighbours support no percentile: p50 needs 7");
}

TEST(Slowdown, HasAnIntervalWhereBothPercentilesHaveOne) {
  const PacedRecord record = compared(phase_of(700, 1e6), phase_of(700, 3e6));
  ASSERT_TRUE(record.slowdown_low && record.slowdown_high);
  EXPECT_LT(*record.slowdown_low, *record.slowdown);
  EXPECT_GT(*record.slowdown_high, *record.slowdown);
  EXPECT_NEAR(*record.slowdown_low, 3, 0.01);
  // 459 frames support p99, but the interval of p99 has no upper end among them.
  const PacedRecord few = compared(phase_of(459, 1e6), phase_of(700, 3e6));
  EXPECT_EQ(few.slowdown_share, 0.99);
  EXPECT_FALSE(few.slowdown_low || few.slowdown_high);
}

// p50 of 92 frames has a claim by the 58th, and its interval ends at the 59th, which never ran.
TEST(Slowdown, HasNoIntervalFromALowerBound) {
  std::vector<double> starts, ends;
  for (int i = 0; i < 59; ++i) {
    starts.push_back(i * kFramePeriod_ns);
    ends.push_back(starts.back() + 1e6);
  }
  ends.back() += 6e9;
  const PhaseRecord alone = phase_record(starts, ends, kFramePeriod_ns, 92);
  ASSERT_TRUE(alone.policies[0].percentiles[0].claimed_ns);
  ASSERT_TRUE(alone.policies[0].percentiles[0].high_at_least);
  const PacedRecord record = compared(alone, phase_of(92, 3e6));
  EXPECT_EQ(record.slowdown_share, 0.5);
  EXPECT_FALSE(record.slowdown_low || record.slowdown_high);
}

TEST(Slowdown, IsRefusedWhereANeighbourDied) {
  PhaseRecord contended = phase_of(700, 3e6);
  contended.neighbours = {{"compute:1", 5, "GFLOP/s"},
                          {"same:1", 0, "runs/s", "a process ended: SIGABRT"}};
  const PacedRecord record = compared(phase_of(700, 1e6), contended);
  EXPECT_EQ(record.slowdown_refusal, "same:1: a process ended: SIGABRT");
  EXPECT_FALSE(record.slowdown || record.slowdown_share || record.slowdown_low);
}

TEST(Slowdown, IsRefusedWhereFramesNeverRan) {
  std::vector<double> starts, ends;
  for (int i = 0; i < 8; ++i) {
    starts.push_back(i * 130e6);
    ends.push_back((i + 1) * 130e6);
  }
  const PacedRecord record =
      compared(phase_of(50, 1e6), phase_record(starts, ends, kFramePeriod_ns, 20));
  EXPECT_FALSE(record.slowdown);
  EXPECT_EQ(record.slowdown_refusal,
            "12 of 20 frames beside neighbours never ran, so no percentile has a claim in both "
            "series");
}

}  // namespace
}  // namespace attest::core
