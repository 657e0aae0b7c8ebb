// The vector loops against long double and plain loops.
#include "core/operations/softmax/golden/score_kernels.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/tensor/constants.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

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
      least = std::min(least, s[k]);
      largest = std::max(largest, s[k]);
      sum += std::exp(s[k] - 0.5);
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

// Nine keys: whole vectors and a rest. The magnitude of a hidden key may be anything.
TEST(Kernels, WeightsAreThoseOfTheFormulasAndHiddenKeysWeighNothing) {
  const double s[] = {0.5, -kInfinity, -1, 1, 0, 0.25, -2, 0.125, 0.75},
               t[] = {1, 2, 3, 4, 5, 6, 7, 8, 9},
               magnitudes[] = {4, std::nan(""), 9, 1, 0, 0.25, 2, 3, 5};
  for (const bool squares : {false, true})
    for (const bool staged : {false, true}) {
      const kernels::WeightModel model{.lse = 1.5,
                                       .u_p = 0.1,
                                       .eta_kappa = 0.01,
                                       .score2 = 0.2,
                                       .q0 = 0.3,
                                       .q1 = 0.4,
                                       .q2 = 0.5,
                                       .a_share = 0.25,
                                       .small = 0.1,
                                       .squares = squares};
      double p[9], p2[9], a2[9], e2[9];
      const kernels::WeightSums sums =
          kernels::weights({s, staged ? t : nullptr, magnitudes}, model, 9, {p, p2, a2, e2});
      kernels::WeightSums expected;
      for (int k = 0; k < 9; ++k) {
        if (s[k] == -kInfinity) {
          EXPECT_EQ(p[k] + p2[k] + a2[k] + e2[k], 0);
          continue;
        }
        const double pk = std::exp(s[k] - 1.5), a = 0.1 * pk + 0.01;
        const double x = squares ? std::sqrt(magnitudes[k]) : magnitudes[k];
        const double square = staged ? t[k] : s[k] * s[k], q = 0.3 + 0.4 * x + 0.5 * x * x;
        const double e = pk * pk * (0.2 * square + q) + 0.25 * a * a;
        EXPECT_NEAR(p[k], pk, 1e-15);
        EXPECT_NEAR(p2[k], pk * pk, 1e-15);
        EXPECT_NEAR(a2[k], a * a, 1e-15);
        EXPECT_NEAR(e2[k], e, 1e-13);
        expected.p2 += pk * pk;
        expected.a2 += a * a;
        expected.e2 += e;
        expected.p2t += pk * pk * square;
        expected.p2q += pk * pk * q;
        expected.px2 += pk * x * x;
        expected.small += pk < 0.1 ? pk : 0;
      }
      EXPECT_NEAR(sums.p2, expected.p2, 1e-14);
      EXPECT_NEAR(sums.a2, expected.a2, 1e-14);
      EXPECT_NEAR(sums.e2, expected.e2, 1e-12);
      EXPECT_NEAR(sums.p2t, expected.p2t, 1e-13);
      EXPECT_NEAR(sums.p2q, expected.p2q, 1e-12);
      EXPECT_NEAR(sums.px2, expected.px2, 1e-12);
      EXPECT_NEAR(sums.small, expected.small, 1e-15);
      EXPECT_GT(expected.small, 0);
    }
}

}  // namespace
}  // namespace attest::core
