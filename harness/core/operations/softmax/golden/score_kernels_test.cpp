// The vector loops against long double, on every target of this machine.
#include "core/operations/softmax/golden/score_kernels.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Kernels, ExpIsWithinTwoUlp) {
  std::vector<double> x;
  for (uint64_t i = 0; i < 200000; ++i)
    x.push_back(double(random_uniform(1, i)) * (i % 3 == 0 ? 1e-3 : 1453.0) -
                (i % 3 == 0 ? 5e-4 : 744.0));
  x.insert(x.end(), {0.0, -0.0, 1e-300, -708.4, -745.1, 709.7});
  std::vector<double> y(x.size());
  kernels::exp(x.data(), y.data(), int64_t(x.size()));
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const long double exact = std::exp(static_cast<long double>(x[i]));
    if (exact > static_cast<long double>(std::numeric_limits<double>::max())) continue;
    const double ulp = std::max(std::nextafter(double(exact), kInfinity) - double(exact),
                                std::numeric_limits<double>::denorm_min());
    worst = std::max(worst, double(std::fabs(static_cast<long double>(y[i]) - exact)) / ulp);
  }
  EXPECT_LE(worst, 2.0);
  RecordProperty("worst_ulp", std::to_string(worst));
}

TEST(Kernels, ExpAtTheEnds) {
  const double x[] = {0, -kInfinity, kInfinity, std::nan(""), -746, 711, -1e300, 1e300};
  double y[8];
  kernels::exp(x, y, 8);
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], 0);
  EXPECT_EQ(y[2], kInfinity);
  EXPECT_TRUE(std::isnan(y[3]));
  EXPECT_EQ(y[4], 0);
  EXPECT_EQ(y[5], kInfinity);
  EXPECT_EQ(y[6], 0);
  EXPECT_EQ(y[7], kInfinity);
}

TEST(Kernels, SoftcapAndItsSlope) {
  for (const double cap : {0.5, 30.0}) {
    double s[5] = {-100, -1, 0, 0.25, 40}, slope[5];
    const std::vector<double> before(s, s + 5);
    kernels::softcap(s, slope, cap, 5);
    for (size_t k = 0; k < 5; ++k) {
      const double t = std::tanh(before[k] / cap);
      EXPECT_NEAR(s[k], cap * t, 1e-14 * cap);
      EXPECT_NEAR(slope[k], 1 - t * t, 1e-14);
    }
  }
}

TEST(Kernels, RangesAndSumsPassOverHiddenScores) {
  for (int64_t count = 1; count < 40; ++count) {
    std::vector<double> s(static_cast<size_t>(count));
    double least = kInfinity, largest = -kInfinity, sum = 0;
    int64_t visible = 0;
    for (size_t k = 0; k < s.size(); ++k) {
      s[k] = random_below(uint64_t(count), k, 3) == 0 ? -kInfinity : double(random_normal(3, k));
      if (s[k] == -kInfinity) continue;
      least = std::min(least, s[k]), largest = std::max(largest, s[k]), sum += std::exp(s[k] - 0.5),
      ++visible;
    }
    const kernels::Range range = kernels::range(s.data(), count);
    EXPECT_EQ(range.least, least);
    EXPECT_EQ(range.largest, largest);
    EXPECT_EQ(range.count, visible);
    EXPECT_FALSE(range.nan);
    EXPECT_NEAR(kernels::sum_exp(s.data(), 0.5, count), sum, 1e-12);
    s.back() = std::nan("");
    EXPECT_TRUE(kernels::range(s.data(), count).nan);
    EXPECT_TRUE(std::isnan(kernels::sum_exp(s.data(), 0.5, count)));
  }
}

TEST(Kernels, WeightsOfHiddenKeysAreZero) {
  const kernels::WeightModel model{.lse = 1.5,
                                   .u_p = 0.1,
                                   .eta_kappa = 0.01,
                                   .score2 = 0.2,
                                   .q0 = 0.3,
                                   .q1 = 0.4,
                                   .q2 = 0.5,
                                   .a_share = 0.25,
                                   .small = 0.1,
                                   .squares = true};
  const double s[] = {0.5, -kInfinity, -1, 1, 0, 0.25, -2, 0.125, 0.75},
               m[] = {4, std::nan(""), 9, 1, 0, 0.25, 2, 3, 5};
  double p[9], p2[9], a2[9], e2[9];
  kernels::WeightSums sums;
  kernels::weights(s, nullptr, m, model, 9, p, p2, a2, e2, sums);
  double total = 0, px2 = 0, small = 0;
  for (int k = 0; k < 9; ++k) {
    const bool hidden = s[k] == -kInfinity;
    const double pk = hidden ? 0 : std::exp(s[k] - 1.5), x = std::sqrt(m[k]), a = 0.1 * pk + 0.01;
    const double e =
        hidden ? 0 : pk * pk * (0.2 * s[k] * s[k] + 0.3 + 0.4 * x + 0.5 * x * x) + 0.25 * a * a;
    EXPECT_NEAR(p[k], pk, 1e-15);
    EXPECT_NEAR(p2[k], pk * pk, 1e-15);
    EXPECT_NEAR(a2[k], hidden ? 0 : a * a, 1e-15);
    EXPECT_NEAR(e2[k], e, 1e-14);
    total += e, px2 += hidden ? 0 : pk * x * x, small += pk < 0.1 ? pk : 0;
  }
  EXPECT_NEAR(sums.e2, total, 1e-14);
  EXPECT_NEAR(sums.px2, px2, 1e-14);
  EXPECT_NEAR(sums.small, small, 1e-15);
  EXPECT_GT(small, 0);
}

}  // namespace
}  // namespace attest::core
