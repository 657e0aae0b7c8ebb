// The numbers of MLPerf's early stopping; intervals that cover; queues by hand.
#include "core/statistics/deadline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace attest::core {
namespace {

using ::testing::ElementsAre;

TEST(BinomialAtMost, BySmallCases) {
  EXPECT_DOUBLE_EQ(binomial_at_most(3, 0.5, -1), 0);
  EXPECT_NEAR(binomial_at_most(3, 0.5, 0), 0.125, 1e-14);
  EXPECT_NEAR(binomial_at_most(3, 0.5, 1), 0.5, 1e-14);
  EXPECT_DOUBLE_EQ(binomial_at_most(3, 0.5, 3), 1);
  EXPECT_NEAR(binomial_at_most(10, 0.1, 1), std::pow(0.9, 10) + std::pow(0.9, 9), 1e-14);
}

TEST(FramesNeeded, AreThoseOfMlperf) {
  EXPECT_EQ(frames_needed(0.999, 0, 0.99), 4603);
  EXPECT_EQ(frames_needed(0.999, 1, 0.99), 6636);
  EXPECT_EQ(frames_needed(0.999, 2, 0.99), 8403);
  EXPECT_EQ(frames_needed(0.99, 0, 0.99), 459);
  EXPECT_EQ(frames_needed(0.99, 1, 0.99), 662);
  EXPECT_EQ(frames_needed(0.99, 2, 0.99), 838);
}

std::vector<double> first_numbers(int n) {
  std::vector<double> numbers;
  for (int i = 1; i <= n; ++i) numbers.push_back(i);
  return numbers;
}

TEST(Percentile, IsClaimedOnlyWhereTheFramesSupportIt) {
  EXPECT_FALSE(percentile(first_numbers(458), 0.99).claimed);
  EXPECT_EQ(percentile(first_numbers(459), 0.99).claimed, 459) << "no frame may be later";
  EXPECT_EQ(percentile(first_numbers(661), 0.99).claimed, 661);
  EXPECT_EQ(percentile(first_numbers(662), 0.99).claimed, 661) << "one frame may be later";
  EXPECT_EQ(percentile(first_numbers(662), 0.99).needed, 459);
  EXPECT_FALSE(percentile(first_numbers(4602), 0.999).claimed);
  EXPECT_EQ(percentile(first_numbers(4603), 0.999).claimed, 4603);
}

TEST(Percentile, OfOneSampleIsThatSample) {
  const std::vector<double> one = {7};
  const Percentile p = percentile(one, 0.5);
  EXPECT_EQ(p.value, 7);
  EXPECT_EQ(p.low, 7);
  EXPECT_EQ(p.high, 7);
  EXPECT_EQ(p.coverage, 0);
  EXPECT_FALSE(p.claimed);
}

TEST(Percentile, AllEqualSamplesHaveNoSpread) {
  const Percentile p = percentile(std::vector<double>(1000, 3.0), 0.9);
  EXPECT_EQ(p.value, 3);
  EXPECT_EQ(p.low, 3);
  EXPECT_EQ(p.high, 3);
  EXPECT_EQ(p.claimed, 3);
}

// From 90 on, numbers may be lower bounds: what depends on them is no more than a lower bound.
TEST(Percentile, OfSamplesThatAreLowerBounds) {
  const std::vector<double> samples = first_numbers(100);
  const auto of = [&](double share) { return percentile(samples, share, 0.99, 90); };
  EXPECT_FALSE(of(0.5).value_at_least || of(0.5).high_at_least);
  EXPECT_EQ(of(0.5).claimed, percentile(samples, 0.5).claimed);
  EXPECT_FALSE(of(0.85).value_at_least);
  EXPECT_TRUE(of(0.85).high_at_least);
  EXPECT_TRUE(percentile(samples, 0.85).claimed);
  EXPECT_FALSE(of(0.85).claimed);
  EXPECT_TRUE(of(0.9).value_at_least) << "between 90 and 91";
  EXPECT_TRUE(of(0.95).value_at_least);
  EXPECT_EQ(of(0.95).value, percentile(samples, 0.95).value);
}

// How often the interval of `n` uniform samples contains the true percentile, and how often the
// claim is wrong.
TEST(Percentile, IntervalsCoverAndClaimsHold) {
  std::mt19937_64 random(20261124);
  std::uniform_real_distribution<double> uniform;
  for (const double share : {0.5, 0.9, 0.99}) {
    constexpr int kTrials = 1000, kSamples = 700;
    int covered = 0, wrong = 0;
    double promised = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      std::vector<double> samples(kSamples);
      for (double& one : samples) one = uniform(random);
      std::ranges::sort(samples);
      const Percentile p = percentile(samples, share, 0.95);
      covered += p.low <= share && share <= p.high;
      ASSERT_TRUE(p.claimed);
      wrong += *p.claimed < share;
      promised = p.coverage;
    }
    EXPECT_GE(promised, 0.95) << share;
    EXPECT_NEAR(double(covered) / kTrials, promised, 0.02) << share;
    EXPECT_LE(double(wrong) / kTrials, 0.05 + 0.02) << share;
  }
}

// Works that begin as soon as they can.
std::vector<FrameWork> without_delay(const std::vector<double>& times) {
  std::vector<FrameWork> works;
  for (const double time : times) works.push_back({.time = time});
  return works;
}

TEST(FrameWorks, ADelayIsWhatTheQueueDoesNotExplain) {
  // Frames arrive at 0, 10, 20, 30. The second starts 13 late, by itself; the third waits for it
  // and starts 1 after its end.
  const std::vector<double> starts = {0, 23, 26, 30}, ends = {1, 25, 27, 32};
  const std::vector<FrameWork> works = frame_works(starts, ends, 10);
  ASSERT_EQ(works.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(works[i].time, ends[i] - starts[i]) << i;
  EXPECT_EQ(works[0].delay, 0);
  EXPECT_EQ(works[1].delay, 13);
  EXPECT_EQ(works[2].delay, 1);
  EXPECT_EQ(works[3].delay, 0);
}

TEST(FrameWorks, PlayedAgainAtTheirRateAreWhatWasMeasured) {
  const std::vector<double> starts = {0, 23, 26, 30}, ends = {1, 25, 27, 32};
  const PlayedFrames played = queue_all(frame_works(starts, ends, 10), 10);
  EXPECT_THAT(played.latency, ElementsAre(1, 15, 7, 2));
  EXPECT_THAT(played.age, ElementsAre(0, 13, 6, 0));
}

TEST(QueueAll, ASlowFrameDelaysThoseBehindIt) {
  const PlayedFrames played = queue_all(without_delay({1, 25, 1, 1, 1}), 10);
  EXPECT_THAT(played.latency, ElementsAre(1, 25, 16, 7, 1));
  EXPECT_THAT(played.age, ElementsAre(0, 0, 15, 6, 0));
  EXPECT_EQ(played.dropped, 0);
  EXPECT_EQ(played.missed(10), 2);
  EXPECT_EQ(played.missed(25), 0);
}

TEST(PlayedFrames, WhatNeverRanIsMissed) {
  const PlayedFrames played{.latency = {1, 25}, .age = {0, 0}, .dropped = 1, .waited = {15, 5}};
  EXPECT_EQ(played.missed(10), 1 + 1 + 2);
}

TEST(LatestOnly, DropsWhatIsOld) {
  // Frames arrive at 0, 10, 20, 30, 40, 50. The second ends at 45: 40 is the newest then.
  const PlayedFrames played = latest_only(without_delay({1, 35, 1, 1}), 10);
  EXPECT_THAT(played.latency, ElementsAre(1, 35, 6, 1));
  EXPECT_THAT(played.age, ElementsAre(0, 0, 5, 0));
  EXPECT_EQ(played.dropped, 2);
  EXPECT_EQ(played.missed(10), 2 + 1);
}

TEST(LatestOnly, ALateStartIsLatency) {
  // The first work on a frame starts 34 late: at its end, at 35, the frame of 30 is the newest.
  const std::vector<FrameWork> works = {{.time = 1, .delay = 34}, {.time = 1}};
  const PlayedFrames played = latest_only(works, 10);
  EXPECT_THAT(played.latency, ElementsAre(35, 6));
  EXPECT_THAT(played.age, ElementsAre(34, 5));
  EXPECT_EQ(played.dropped, 2);
}

TEST(LatestOnly, IsNeverOlderThanAPeriodPlusTheWork) {
  const std::vector<FrameWork> works(50, {.time = 25});  // two and a half periods each
  const PlayedFrames latest = latest_only(works, 10), all = queue_all(works, 10);
  EXPECT_LT(*std::ranges::max_element(latest.latency), 25 + 10 + 1e-9);
  EXPECT_GT(all.latency.back(), 700) << "a queue that is never empty grows without end";
  EXPECT_GT(latest.dropped, 60);
}

}  // namespace
}  // namespace attest::core
