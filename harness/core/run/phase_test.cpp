// Phases by hand: what delays a start is latency under each policy and at each rate.
#include "core/run/phase.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  return phase_record(starts, ends, kFramePeriod_ns);
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

}  // namespace
}  // namespace attest::core
