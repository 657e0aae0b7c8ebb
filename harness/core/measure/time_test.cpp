// Timing on a workload of known length, and the rules by which it stops.
#include "core/measure/time.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <vector>

#include "core/measure/testing/pointer_chase.hpp"
#include "core/statistics/statistics.hpp"
#include "core/tensor/stopwatch.hpp"

namespace attest::core {
namespace {

void spin(double ns) {
  const auto end = Clock::now() + std::chrono::nanoseconds(int64_t(ns));
  while (Clock::now() < end) {
  }
}

TEST(Time, CountsEveryRun) {
  int64_t calls = 0, samples = 0;
  TimingRequest request{.run =
                            [&] {
                              ++calls;
                              spin(20e3);
                            },
                        .before = [&] { ++samples; },
                        .expected_ns = 20e3,
                        .budget_ns = 60e6,
                        .last_level_cache_bytes = 1 << 20};
  const Timing timing = measure_time(request);
  ASSERT_GE(timing.warm_ns.size(), 2u);
  ASSERT_GE(timing.cold_ns.size(), 2u);
  EXPECT_GT(timing.iterations_per_sample, 1);
  const int64_t timed = int64_t(timing.warm_ns.size()) * timing.iterations_per_sample +
                        int64_t(timing.cold_ns.size());
  const int64_t warm_ups = calls - timed;  // each with its own `before`, like each sample
  EXPECT_GT(warm_ups, 0);
  EXPECT_EQ(samples, int64_t(timing.warm_ns.size() + timing.cold_ns.size()) + warm_ups);
  for (const double ns : timing.warm_ns) EXPECT_GE(ns, 20e3);
  for (const double ns : timing.cold_ns) EXPECT_GE(ns, 20e3);
  EXPECT_GT(timing.warmup_ns, 0);
}

// What is done before a sample, flushing above all, must not be in its time.
TEST(Time, OnlyTheRunIsTimed) {
  const Timing timing = measure_time({.run = [] { spin(1e5); },
                                      .before = [] { spin(2e6); },
                                      .budget_ns = 20e6,
                                      .last_level_cache_bytes = 1 << 20});
  EXPECT_LT(summarise(timing.warm_ns).min, 1e6);
  EXPECT_LT(summarise(timing.cold_ns).min, 1e6);
}

TEST(Time, ASlowRunIsTimedTwiceAndNoMore) {
  int calls = 0;
  const Timing timing = measure_time({.run =
                                          [&] {
                                            ++calls;
                                            spin(3e6);
                                          },
                                      .expected_ns = 3e6,
                                      .budget_ns = 1e6,
                                      .slow_ns = 2e6});
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(timing.warm_ns.size(), 2u);
  EXPECT_TRUE(timing.cold_ns.empty());
  EXPECT_EQ(timing.iterations_per_sample, 1);
}

TEST(Time, ARunThatTurnsOutSlowCostsOneMore) {
  int calls = 0;
  const Timing timing = measure_time({.run =
                                          [&] {
                                            ++calls;
                                            spin(3e6);
                                          },
                                      .budget_ns = 1e9,
                                      .slow_ns = 2e6});
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(timing.warm_ns.size(), 2u);
  EXPECT_TRUE(timing.cold_ns.empty());
}

TEST(Time, StopsAtTheBudget) {
  int calls = 0;  // the length drifts, so that no interval gets tight
  const auto start = Clock::now();
  const Timing timing = measure_time({.run = [&] { spin(1e5 * (1 + ++calls % 50)); },
                                      .expected_ns = 1e6,
                                      .budget_ns = 100e6,
                                      .precision = 1e-6,
                                      .last_level_cache_bytes = 1 << 20});
  EXPECT_LT(seconds_since(start), 2);
  const double spent = std::accumulate(timing.warm_ns.begin(), timing.warm_ns.end(), 0.0) *
                       double(timing.iterations_per_sample);
  EXPECT_GE(spent, 50e6);
}

TEST(Time, StopsWhenPrecise) {
  const auto start = Clock::now();
  const Timing timing = measure_time({.run = [] { spin(1e5); },
                                      .budget_ns = 1000e9,
                                      .precision = 0.5,
                                      .last_level_cache_bytes = 1 << 20});
  EXPECT_LT(seconds_since(start), 20);
  EXPECT_GE(summarise(timing.warm_ns).coverage, 0.95);
}

TEST(Time, ColdRunsFindTheirDataGone) {
  const std::vector<uint64_t> chain = make_chain();
  const Timing timing = measure_time({.run = [&] { chase_ns(chain); }, .budget_ns = 100e6});
  EXPECT_GT(summarise(timing.cold_ns).min, 2 * summarise(timing.warm_ns).min);
}

TEST(Time, OverheadOfABlockIsSmall) {
  std::vector<double> gaps_ns;  // from the end of a run to the beginning of the next block
  auto last = Clock::now();
  auto gap = [&] { gaps_ns.push_back(nanoseconds_since(last)); };
  measure_time({.run =
                    [&] {
                      spin(1e6);
                      last = Clock::now();
                    },
                .before = gap,
                .budget_ns = 100e6,
                .precision = 0,
                .cold = false});
  EXPECT_LT(summarise(gaps_ns).q1, 1e5);
}

}  // namespace
}  // namespace attest::core
