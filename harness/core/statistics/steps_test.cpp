// Steps of simulated series: each is found where it is, and what is no step is not called one. The
// series are the medians of launches, with noise of 1 %.
#include "core/statistics/steps.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

constexpr double kNoise = 0.01;

/// `count` launches around `level`; where a spike comes, a launch takes half as long again.
std::vector<double> flat(uint64_t seed, size_t count, double level = 1e6, double spikes = 0) {
  std::vector<double> values;
  for (uint64_t i = 0; i < count; ++i) {
    const bool spike = double(random_uniform(seed + 1000, i)) < spikes;
    values.push_back(level * std::exp(kNoise * double(random_normal(seed, i))) *
                     (spike ? 1.5 : 1.0));
  }
  return values;
}

/// The same, slower by `change` from `at` on.
std::vector<double> stepped(uint64_t seed, size_t count, size_t at, double change) {
  std::vector<double> values = flat(seed, count);
  for (size_t i = at; i < count; ++i) values[i] *= 1 + change;
  return values;
}

double false_share(size_t count, double spikes, int trials = 1000) {
  int found = 0;
  StepRule rule;
  rule.band = 0;  // which would hide most of them
  for (int t = 0; t < trials; ++t)
    found += !find_steps(flat(uint64_t(t) * 7 + 1, count, 1e6, spikes), rule).steps.empty();
  return double(found) / trials;
}

TEST(Steps, NoiseAloneHasNone) {
  for (const size_t count : {12, 20, 40, 80}) EXPECT_LE(false_share(count, 0), 0.01) << count;
}

TEST(Steps, SpikesAmongNoiseAreNone) {
  for (const size_t count : {20, 40}) {
    EXPECT_LE(false_share(count, 0.05), 0.01) << count;
    EXPECT_LE(false_share(count, 0.2), 0.01) << count;
  }
}

TEST(Steps, AreFoundWhereTheyAre) {
  int found = 0, exact = 0;
  constexpr int kTrials = 200;
  for (int t = 0; t < kTrials; ++t) {
    const size_t at = 8 + size_t(t) % 24;
    const Steps steps = find_steps(stepped(uint64_t(t) + 1, 40, at, 0.05));
    if (steps.steps.size() != 1) continue;
    ++found;
    exact += steps.steps[0].at == at;
    EXPECT_NEAR(steps.steps[0].after / steps.steps[0].before, 1.05, 0.02) << t;
    EXPECT_FALSE(steps.steps[0].uncertain) << t;
  }
  EXPECT_GE(found, kTrials * 0.95);
  EXPECT_GE(exact, kTrials * 0.9);
}

TEST(Steps, ASpikeHidesNoStepAndIsNone) {
  int found = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    std::vector<double> values = stepped(seed, 40, 20, 0.05);
    values[7] *= 3;
    values[31] *= 3;
    const std::vector<Step> steps = find_steps(values).steps;
    found += steps.size() == 1 && steps[0].at == 20;
  }
  EXPECT_GE(found, 45);
}

TEST(Steps, UpAndDownAreTwo) {
  std::vector<double> values = flat(3, 45);
  for (size_t i = 15; i < 30; ++i) values[i] *= 1.1;
  const std::vector<Step> steps = find_steps(values).steps;
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].at, 15u);
  EXPECT_EQ(steps[1].at, 30u);
  EXPECT_EQ(steps[0].to, 30u);
  EXPECT_EQ(steps[1].from, 15u);
  EXPECT_LT(steps[1].after, steps[1].before);
}

TEST(Steps, NeedThreeValuesALevel) {
  std::vector<double> two = flat(5, 30), three = two;
  two[28] *= 1.2;
  two[29] *= 1.2;
  three[27] *= 1.2;
  three[28] *= 1.2;
  three[29] *= 1.2;
  EXPECT_TRUE(find_steps(two).steps.empty());
  EXPECT_EQ(find_steps(two).unseen, 2u);
  const std::vector<Step> steps = find_steps(three).steps;
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].at, 27u);
  EXPECT_TRUE(steps[0].uncertain) << "three values at the end of the series";
}

TEST(Steps, ADriftIsNotAStep) {
  int called_steps = 0, called_drifts = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    std::vector<double> values = flat(seed, 40);
    for (size_t i = 0; i < values.size(); ++i) values[i] *= 1 + 0.1 * double(i) / 40;
    const std::vector<Step> steps = find_steps(values).steps;
    for (const Step& step : steps) called_steps += !step.drift;
    called_drifts += !steps.empty() && steps[0].drift;
  }
  EXPECT_LE(called_steps, 5);
  EXPECT_GE(called_drifts, 90);
}

TEST(Steps, ADriftThatIsDividedIsToldOnce) {
  std::vector<double> values = flat(2, 80);
  for (size_t i = 0; i < values.size(); ++i) values[i] *= 1 + 0.3 * double(i) / 80;
  const std::vector<Step> steps = find_steps(values).steps;
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_TRUE(steps[0].drift);
  EXPECT_EQ(steps[0].from, 0u);
  EXPECT_EQ(steps[0].to, 80u);
  EXPECT_NEAR(steps[0].before, 1e6, 1e4) << "at its first value, not in its first part";
  EXPECT_NEAR(steps[0].after / steps[0].before, 1.3, 0.02);
}

TEST(Steps, AStairIsNoDrift) {
  int found = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    std::vector<double> values = stepped(seed, 45, 15, 0.05);
    for (size_t i = 30; i < values.size(); ++i) values[i] *= 1.05;
    const std::vector<Step> steps = find_steps(values).steps;
    found += steps.size() == 2 && !steps[0].drift && !steps[1].drift;
  }
  EXPECT_GE(found, 45);
}

TEST(Steps, FarBeyondMostValuesAreFoundToo) {
  int found = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    std::vector<double> values = flat(seed, 72);
    for (size_t i = 60; i < values.size(); ++i) values[i] *= i < 66 ? 1.1 : 1.2;
    values[30] *= 3;
    const std::vector<Step> steps = find_steps(values).steps;
    found += steps.size() == 2 && steps[0].at == 60 && steps[1].at == 66;
  }
  EXPECT_GE(found, 45) << "the fences of all values lie below both levels";
}

TEST(Steps, ADriftOfFewValuesIsUncertain) {
  const auto drift = [](size_t count) {
    std::vector<double> values = flat(2, count);
    for (size_t i = 0; i < count; ++i) values[i] *= 1 + 0.04 * double(i);
    return find_steps(values).steps;
  };
  const std::vector<Step> few = drift(11), many = drift(80);
  ASSERT_EQ(few.size(), 1u);
  EXPECT_TRUE(few[0].drift && few[0].uncertain);
  ASSERT_EQ(many.size(), 1u);
  EXPECT_TRUE(many[0].drift && !many[0].uncertain);
}

TEST(Steps, WithinTheBandDoNotMatter) {
  const std::vector<double> values = stepped(9, 60, 30, 0.03);
  EXPECT_EQ(find_steps(values).steps.size(), 1u);
  EXPECT_TRUE(find_steps(values, {.band = 0.05}).steps.empty());
}

TEST(Steps, OfExactValuesAreFound) {
  std::vector<double> bytes(20, 1 << 20);
  EXPECT_TRUE(find_steps(bytes).steps.empty());
  bytes[6] = 1 << 22;
  EXPECT_TRUE(find_steps(bytes).steps.empty()) << "a single spike";
  for (size_t i = 12; i < bytes.size(); ++i) bytes[i] = 2 << 20;
  const std::vector<Step> steps = find_steps(bytes).steps;
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].at, 12u);
  EXPECT_EQ(steps[0].after, 2 << 20);
}

TEST(Steps, FromNothingAreFound) {
  std::vector<double> bytes(20, 0.0);
  for (size_t i = 10; i < bytes.size(); ++i) bytes[i] = 4096;
  ASSERT_EQ(find_steps(bytes).steps.size(), 1u);
}

TEST(Steps, ShortSeriesSayThatTheyAreShort) {
  EXPECT_FALSE(find_steps({}).long_enough);
  EXPECT_FALSE(find_steps(std::vector<double>{1}).long_enough);
  const std::vector<double> six{1, 1.01, 1, 2, 2.01, 2};
  EXPECT_FALSE(find_steps(six).long_enough);
  EXPECT_TRUE(find_steps(six).steps.empty());
  EXPECT_TRUE(find_steps(stepped(1, 11, 5, 0.5)).long_enough);
  EXPECT_EQ(find_steps(stepped(1, 11, 5, 0.5)).steps.size(), 1u);
}

TEST(Steps, TheSameSeriesGivesTheSameSteps) {
  const std::vector<double> values = stepped(4, 40, 17, 0.02);
  const Steps once = find_steps(values), again = find_steps(values);
  ASSERT_EQ(once.steps.size(), again.steps.size());
  for (size_t i = 0; i < once.steps.size(); ++i) EXPECT_EQ(once.steps[i].p, again.steps[i].p);
}

}  // namespace
}  // namespace attest::core
