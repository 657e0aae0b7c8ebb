// Known exponents under noise, launch costs and cliffs: what the fit finds, how often its interval
// holds the truth, and what it refuses to say.
#include "core/statistics/power_law.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <vector>

#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

using How = LargestSize::How;

std::vector<Sized> points(std::vector<double> sizes, const std::function<double(double)>& value) {
  std::vector<Sized> all;
  for (const double size : sizes) all.push_back({size, value(size), value(size), value(size)});
  return all;
}

PowerLaw fit(std::span<const Sized> points, double floor) {
  return fit_power_law(points, {.floor = floor});
}

const std::vector<double> kSizes{1024, 2048, 4096, 8192, 16384, 32768, 65536};

TEST(PowerLaw, FindsAnExactExponent) {
  for (const double exponent : {0.0, 1.0, 2.0, 2.5}) {
    const PowerLaw law =
        fit(points(kSizes, [&](double n) { return 3 * std::pow(n, exponent); }), 0);
    ASSERT_TRUE(law.fitted());
    EXPECT_NEAR(law.exponent, exponent, 1e-12);
    EXPECT_NEAR(law.low, exponent, 1e-12);
    EXPECT_NEAR(law.high, exponent, 1e-12);
    EXPECT_GE(law.coverage, 0.95);
    EXPECT_EQ(law.from, 1024);
    EXPECT_EQ(law.to, 65536);
    EXPECT_EQ(law.points, 7u);
    EXPECT_FALSE(law.is_loose(0.05));
  }
}

TEST(PowerLaw, TheIntervalHoldsTheExponentAsOftenAsItSays) {
  for (const size_t n : {3u, 4u, 5u, 7u}) {
    const std::vector<double> sizes(kSizes.begin(), kSizes.begin() + std::ptrdiff_t(n));
    int held = 0;
    const int trials = 2000;
    double coverage = 0;
    for (int t = 0; t < trials; ++t) {
      uint64_t next = 0;
      const PowerLaw law =
          fit(points(sizes,
                     [&](double size) {
                       const double noise = double(random_normal(uint64_t(t) + 1, next++));
                       return size * size * std::exp(0.03 * noise * noise);  // skewed, as times are
                     }),
              0);
      held += law.low <= 2 && 2 <= law.high;
      coverage = law.coverage;
    }
    EXPECT_GE(double(held) / trials, coverage - 0.02) << n;
    EXPECT_LE(double(held) / trials, coverage + 0.03) << n;
  }
}

// One size of seven falls out of a cache, say.
TEST(PowerLaw, OneBadPointHardlyMoves) {
  std::vector<Sized> all = points(kSizes, [](double n) { return n * n; });
  all[3].value *= 3;
  const PowerLaw law = fit(all, 0);
  EXPECT_NEAR(law.exponent, 2, 0.02);
  EXPECT_LE(law.low, 2);
  EXPECT_GE(law.high, 2);
}

TEST(PowerLaw, AFixedCostIsLeftOut) {
  const auto with_cost = [](double cost) {
    return points(kSizes, [cost](double n) { return cost + n * n; });
  };
  EXPECT_LT(fit(with_cost(5e6), 0).low, 1.5) << "with the fixed cost it looks flatter";
  const PowerLaw law = fit(with_cost(5e6), 5e6);
  EXPECT_EQ(law.from, 8192) << "the first size above ten times the cost";
  ASSERT_TRUE(law.fitted());
  EXPECT_EQ(law.points, 4u);
  EXPECT_NEAR(law.exponent, 2, 0.05);
  EXPECT_EQ(fit(with_cost(5e7), 5e7).code, "few-points");
  EXPECT_EQ(fit(with_cost(5e7), 5e7).from, 32768);
}

// A value that comes below the floor again takes all sizes before it with it.
TEST(PowerLaw, HoldsFromTheSizeFromWhichAllAreAboveTheFloor) {
  std::vector<Sized> all = points(kSizes, [](double n) { return n; });
  all[2].value = 100;
  EXPECT_EQ(fit(all, 50).from, 8192);
  all[6].value = 400;
  EXPECT_EQ(fit(all, 50).code, "few-points");
}

// A score matrix of n^2 beside rows of n: the law of exact values is that of the large sizes.
TEST(PowerLaw, ExactValuesFollowTheLawAboveTheBend) {
  const std::vector<Sized> bent =
      points(kSizes, [](double n) { return 4 * n * n + 4096 * n + 1e6; });
  EXPECT_LT(fit(bent, 0).exponent, 1.9);
  const PowerLaw law = fit_power_law(bent, {.is_exact = true});
  EXPECT_EQ(law.from, 8192) << "below, slopes differ by more than 0.05";
  EXPECT_EQ(law.points, 4u);
  EXPECT_NEAR(law.exponent, 2, 0.05);
  EXPECT_GT(law.exponent, fit(bent, 0).exponent);
  // Nothing is left out of a straight line, nor of one that bends up to its end.
  const std::vector<Sized> straight = points(kSizes, [](double n) { return 3 * n; });
  EXPECT_EQ(fit_power_law(straight, {.is_exact = true}).points, 7u);
  const std::vector<Sized> bends = points(kSizes, [](double n) { return std::exp(n / 3e4); });
  EXPECT_EQ(fit_power_law(bends, {.is_exact = true}).points, 7u);
}

TEST(PowerLaw, ScatterIsThatOfTheNoise) {
  std::vector<double> found;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    uint64_t next = 0;
    std::vector<Sized> all = points(kSizes, [&](double n) {
      return n * n * std::exp(0.04 * double(random_normal(seed, next++)));
    });
    all[3].value *= 2;  // one bad point
    found.push_back(scatter(all, fit(all, 0)));
  }
  std::ranges::sort(found);
  EXPECT_NEAR(found[100], 0.04, 0.012);
  const std::vector<Sized> exact = points(kSizes, [](double n) { return 3 * n; });
  EXPECT_NEAR(scatter(exact, fit(exact, 0)), 0, 1e-12);
  EXPECT_EQ(scatter(exact, {}), 0);
}

TEST(PowerLaw, FewPointsSaySo) {
  const auto square = [](double n) { return n * n; };
  EXPECT_EQ(fit({}, 0).code, "few-points");
  EXPECT_EQ(fit(points({1024, 2048}, square), 0).code, "few-points");
  const PowerLaw three = fit(points({1024, 2048, 4096}, square), 0);
  EXPECT_TRUE(three.fitted());
  EXPECT_NEAR(three.coverage, 1 - 2.0 / 6, 1e-12);
  EXPECT_TRUE(three.is_loose(0.05)) << "three points cannot promise 95 %";
  EXPECT_EQ(fit(points({1024, 2048, 4096}, [](double) { return 0; }), 0).code, "zero");
}

TEST(PowerLaw, IsLooseWhereTheSlopesDiffer) {
  std::vector<Sized> all = points(kSizes, [](double n) { return n; });
  for (size_t i = 0; i < all.size(); i += 2) all[i].value *= 1.3;
  EXPECT_TRUE(fit(all, 0).is_loose(0.05));
}

TEST(LargestWithin, LiesBetweenMeasuredSizes) {
  const std::vector<Sized> all = points(kSizes, [](double n) { return n * n; });
  const LargestSize largest = largest_within(all, fit(all, 0), 3000.0 * 3000);
  EXPECT_EQ(largest.how, How::kBetween);
  EXPECT_EQ(largest.low, 2048);
  EXPECT_EQ(largest.high, 4096);
  EXPECT_NEAR(largest.size, 3000, 1e-6);
  EXPECT_EQ(largest_within(all, fit(all, 0), 1024.0 * 1024).low, 1024);
}

TEST(LargestWithin, SaysWhatIsExtrapolated) {
  std::vector<Sized> all = points(kSizes, [](double n) { return n * n; });
  all[3].value *= 1.05;
  const LargestSize largest = largest_within(all, fit(all, 0), 4 * 65536.0 * 65536);
  EXPECT_EQ(largest.how, How::kExtrapolated);
  EXPECT_NEAR(largest.size, 2 * 65536, 1500);
  EXPECT_LT(largest.low, largest.size + 1e-6);
  EXPECT_GT(largest.high, largest.size - 1e-6);
}

TEST(LargestWithin, HasAnAnswerAtEitherEnd) {
  const std::vector<Sized> all = points(kSizes, [](double n) { return n * n; }),
                           flat = points(kSizes, [](double) { return 7; });
  const PowerLaw law = fit(all, 0);
  EXPECT_EQ(largest_within({}, law, 1).how, How::kUnknown);
  EXPECT_EQ(largest_within(all, law, 5).how, How::kBelow);
  EXPECT_EQ(largest_within(all, law, 5).high, 1024);
  EXPECT_EQ(largest_within(all, law, 0).how, How::kBelow);
  const LargestSize unlimited = largest_within(flat, fit(flat, 0), 8);
  EXPECT_EQ(unlimited.how, How::kUnlimited);
  EXPECT_EQ(unlimited.low, 65536);
  EXPECT_EQ(largest_within(std::span(all).first(2), {}, 1e12).how, How::kUnlimited)
      << "without a law nothing is extrapolated";
}

}  // namespace
}  // namespace attest::core
