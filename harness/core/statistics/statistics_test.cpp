// Summaries against hand-computed ones, and the interval's promise against simulation.
#include "core/statistics/statistics.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

TEST(Statistics, KnownQuantiles) {
  const std::vector<double> samples{4, 1, 3, 2};
  const Summary s = summarise(samples);
  EXPECT_EQ(s.median, 2.5);
  EXPECT_EQ(s.q1, 1.75);
  EXPECT_EQ(s.q3, 3.25);
  EXPECT_EQ(s.min, 1);
  EXPECT_EQ(s.max, 4);
  EXPECT_EQ(s.mean, 2.5);
  EXPECT_EQ(s.coverage, 1 - 2.0 / 16);  // four samples cannot promise 95 %
}

TEST(Statistics, KnownIntervals) {
  // n: the order statistics (from 1) of the 95 % interval, e.g. from the tables of the sign test.
  for (const auto& [n, low] : std::vector<std::pair<size_t, double>>{
           {6, 1}, {8, 1}, {9, 2}, {12, 3}, {20, 6}, {100, 40}}) {
    std::vector<double> samples(n);
    for (size_t i = 0; i < n; ++i) samples[i] = double(i + 1);
    const Summary s = summarise(samples);
    EXPECT_EQ(s.median_low, low) << n;
    EXPECT_EQ(s.median_high, double(n) + 1 - low) << n;
    EXPECT_GE(s.coverage, 0.95) << n;
  }
}

// Eight samples are the fewest whose extremes cover 99 %: 1 - 2 / 2^8.
TEST(Statistics, WiderIntervalsTakeMoreSamples) {
  for (const auto& [n, low] :
       std::vector<std::pair<size_t, double>>{{7, 1}, {8, 1}, {11, 1}, {12, 2}, {20, 4}}) {
    std::vector<double> samples(n);
    for (size_t i = 0; i < n; ++i) samples[i] = double(i + 1);
    const Summary s = summarise(samples, 0.99);
    EXPECT_EQ(s.median_low, low) << n;
    EXPECT_EQ(s.coverage >= 0.99, n >= 8) << n;
  }
}

TEST(Statistics, SignTestCountsTails) {
  EXPECT_DOUBLE_EQ(sign_test(10, 10), 1.0 / 1024);
  EXPECT_DOUBLE_EQ(sign_test(10, 9), 11.0 / 1024);
  EXPECT_NEAR(sign_test(5, 3), 0.5, 1e-15);
  EXPECT_DOUBLE_EQ(sign_test(4, 0), 1);
}

TEST(Statistics, HolmAdjustsTheSmallestMost) {
  const double p[] = {0.02, 0.001, 0.5, 0.021};
  const std::vector<double> adjusted = holm(p);
  EXPECT_DOUBLE_EQ(adjusted[1], 0.004);
  EXPECT_DOUBLE_EQ(adjusted[0], 0.06);
  EXPECT_DOUBLE_EQ(adjusted[3], 0.06);  // 2 x 0.021, but never below a smaller one's
  EXPECT_DOUBLE_EQ(adjusted[2], 0.5);
  EXPECT_TRUE(holm({}).empty());
}

TEST(Statistics, OneSampleCoversNothing) {
  const double one[] = {7};
  EXPECT_EQ(summarise(one).coverage, 0);
  EXPECT_EQ(summarise(one).median, 7);
}

TEST(Statistics, NothingSaysNothing) {
  EXPECT_EQ(summarise({}).count, 0u);
  EXPECT_EQ(summarise({}).median, 0);
}

TEST(Statistics, TailsLieBetweenOrderStatistics) {
  std::vector<double> samples(101);
  for (size_t i = 0; i < samples.size(); ++i) samples[i] = double((i * 37) % 101);
  EXPECT_DOUBLE_EQ(summarise(samples).p10, 10);
  EXPECT_DOUBLE_EQ(summarise(samples).p90, 90);
  EXPECT_DOUBLE_EQ(summarise(samples).p99, 99);
  EXPECT_DOUBLE_EQ(quantile(std::vector<double>{0, 10}, 0.99), 9.9);
}

// Beyond 1,074 samples 2^-n alone is 0 in double precision.
TEST(Statistics, ManySamplesKeepTheirInterval) {
  std::vector<double> samples(10000);
  for (size_t i = 0; i < samples.size(); ++i) samples[i] = double(i + 1);
  const Summary s = summarise(samples);
  EXPECT_NEAR(s.median_low, 5000 - 98, 2);  // n / 2 - 1.96 sqrt(n) / 2
  EXPECT_NEAR(s.median_high, 5001 + 98, 2);
  EXPECT_GE(s.coverage, 0.95);
  EXPECT_LE(s.coverage, 0.952);
}

TEST(Statistics, TheIntervalHoldsTheMedianAsOftenAsItSays) {
  for (const size_t n : {5u, 9u, 30u, 1500u}) {
    int held = 0;
    const int trials = n > 1000 ? 300 : 2000;
    double coverage = 0;
    for (int t = 0; t < trials; ++t) {
      std::vector<double> samples(n);
      for (size_t i = 0; i < n; ++i) {
        const double u = double(random_uniform(uint64_t(t) + 1, i + n * 10000));
        samples[i] = u * u;  // skewed, median 1/4
      }
      const Summary s = summarise(samples);
      held += s.median_low <= 0.25 && 0.25 <= s.median_high;
      coverage = s.coverage;
    }
    EXPECT_GE(double(held) / trials, coverage - 0.03) << n;
    EXPECT_LE(double(held) / trials, coverage + 0.03) << n;
  }
}

}  // namespace
}  // namespace attest::core
