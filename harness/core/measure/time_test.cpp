// Timing on a workload of known length, and the rules by which it stops.
#include "core/measure/time.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>

namespace attest::core {
namespace {

void spin(double ns) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(int64_t(ns));
  while (std::chrono::steady_clock::now() < end) {}
}

TEST(Time, CountsEveryRun) {
  int64_t calls = 0;
  TimingRequest request{.run = [&] { ++calls, spin(20e3); }, .expected_ns = 20e3, .budget_ns = 60e6, .last_level_cache_bytes = 1 << 20};
  const Timing timing = measure_time(request);
  ASSERT_GE(timing.warm_ns.size(), 2u);
  ASSERT_GE(timing.cold_ns.size(), 2u);
  EXPECT_GT(timing.iterations_per_sample, 1);
  const int64_t timed = int64_t(timing.warm_ns.size()) * timing.iterations_per_sample + int64_t(timing.cold_ns.size());
  EXPECT_GT(calls, timed);  // the warm-up's
  for (const double ns : timing.warm_ns) EXPECT_GE(ns, 20e3);
  for (const double ns : timing.cold_ns) EXPECT_GE(ns, 20e3);
  EXPECT_GT(timing.warmup_ns, 0);
}

TEST(Time, ASlowRunIsTimedTwiceAndNoMore) {
  int calls = 0;
  const Timing timing = measure_time({.run = [&] { ++calls, spin(3e6); }, .expected_ns = 3e6, .budget_ns = 1e6, .slow_ns = 2e6});
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(timing.warm_ns.size(), 2u);
  EXPECT_TRUE(timing.cold_ns.empty());
  EXPECT_EQ(timing.iterations_per_sample, 1);
}

TEST(Time, StopsAtTheBudget) {
  int calls = 0;  // the length drifts, so that no interval gets tight
  const auto start = std::chrono::steady_clock::now();
  const Timing timing = measure_time({.run = [&] { spin(1e5 * (1 + ++calls % 50)); }, .expected_ns = 1e6, .budget_ns = 100e6, .precision = 1e-6, .last_level_cache_bytes = 1 << 20});
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 2);
  const double spent = std::accumulate(timing.warm_ns.begin(), timing.warm_ns.end(), 0.0) * double(timing.iterations_per_sample);
  EXPECT_GE(spent, 50e6);
}

TEST(Time, PrintsNothing) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  measure_time({.run = [] { spin(1e4); }, .expected_ns = 1e4, .budget_ns = 2e6, .last_level_cache_bytes = 1 << 20});
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace attest::core
