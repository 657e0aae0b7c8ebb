// What addends do to a sum over pairs and to its sigma, term by term; and a head's bounds.
#include "core/operations/softmax_backward/backward_rows.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/operations/softmax_backward/testing/backward_cases.hpp"
#include "core/operations/unsure.hpp"
#include "core/tensor/random.hpp"

namespace attest::core::backward {
namespace {

constexpr BackwardArithmetic kExact{.accumulator = ATTEST_F64, .output = ATTEST_F64};

/// The value and sigma of a sum of one channel.
struct Sum {
  double value = 0, sigma = 0;
};
Sum finished(GradientSum& sum, double scale = 1, double common = 1, double relative = 0) {
  Sum made;
  sum.finish(kExact, ATTEST_F64, scale, common, relative, &made.value, &made.sigma);
  return made;
}

/// The variance of three addends: two with equal rows, 1, and one with another, -1.
double variance_of(const Addend& addend, double scale = 1) {
  constexpr double kRows[] = {1, 1, -1};
  GradientSum sum(1);
  sum.add(addend, &kRows[0], false, false);
  sum.add(addend, &kRows[1], false, true);
  Addend other = addend;
  constexpr double kMinusOne = -1;
  if (addend.steps) other.steps = &kMinusOne;  // a step has the sign of its element
  sum.add(other, &kRows[2], true, true);
  const double sigma = finished(sum, scale).sigma;
  return sigma * sigma;
}

TEST(GradientSum, EachErrorAddsUpAsItsAddendSays) {
  constexpr double kStepOfOne = 1;
  const struct {
    const char* what;
    Addend addend;
    double variance;
  } terms[] = {
      {"each for itself, and equal rows in common", {.shared = 1}, 3 + 2 * 2},
      {"equal rows of one weight in common", {.own = 1}, 2 * 2 + 1},
      {"each for itself", {.alone = 1}, 3},
      {"all in common, with the signs of their rows", {.common = 1}, 1},
      {"lost with the signs of their rows", {.lost = 1}, 1},
      {"in common at the softcap", {.uniform = 1}, 1},
      {"of one sign in all pairs", {.one_way = 1}, 3 * 3},
      {"rows that are rounded: each, the equal ones beside, and all",
       {.weight = 1, .steps = &kStepOfOne},
       3 + (2 * 2 - 2) + 1},
  };
  for (const auto& [what, addend, variance] : terms) {
    EXPECT_NEAR(variance_of(addend), variance, 1e-9) << what;
    EXPECT_NEAR(variance_of(addend, 3), 9 * variance, 1e-9) << what;
  }
}

// Equal rows of other weights err for themselves, as rows of other groups do.
TEST(GradientSum, RowsOfOtherWeightsAndGroupsErrForThemselves) {
  constexpr double kRow = 1;
  const auto variance = [&](double second_weight, bool first_ends, double shared = 0) {
    GradientSum sum(1);
    const double own = 1 - shared;
    sum.add({.weight = 1e-9, .shared = shared, .own = own}, &kRow, false, first_ends);
    sum.add({.weight = second_weight, .shared = shared, .own = own}, &kRow, false, true);
    const double sigma = finished(sum).sigma;
    return sigma * sigma;
  };
  EXPECT_NEAR(variance(1e-9, false, 1), 2 + 4, 1e-9);
  EXPECT_NEAR(variance(1e-9, true, 1), 2 + 1 + 1, 1e-9);
  EXPECT_NEAR(variance(1e-9, false), 4, 1e-9);
  EXPECT_NEAR(variance(2e-9, false), 2, 1e-9);
  EXPECT_NEAR(variance(1e-9, true), 2, 1e-9);
}

double number(uint64_t index) { return double(random_normal(5, index)); }

// Classes of equal pairs (backward_classes.hpp) are added by their counts.
void expect_a_count_is_so_many(double errors) {
  constexpr int64_t kWidth = 3, kGroups = 5, kOfGroup = 3;
  std::vector<double> rows, steps;
  for (uint64_t n = 0; n < kGroups * kWidth; ++n) {
    rows.push_back(number(n));
    steps.push_back(0.1 * number(n));
  }
  GradientSum counted(kWidth), repeated(kWidth);
  for (int64_t group = 0; group < kGroups; ++group)
    for (int64_t n = 0; n < kOfGroup; ++n) {
      const auto random = [&, seed = 100 * uint64_t(kOfGroup * group + n)](uint64_t index) {
        return number(1000 + seed + index);
      };
      const Addend addend{.weight = random(0),
                          .shared = errors * random(1),
                          .own = errors * std::fabs(random(2)),
                          .alone = errors * std::fabs(random(3)),
                          .common = errors * random(4),
                          .lost = errors * random(5),
                          .one_way = errors * std::fabs(random(6)),
                          .uniform = errors * random(7),
                          .steps = errors > 0 ? &steps[size_t(group * kWidth)] : nullptr};
      const double* row = &rows[size_t(group * kWidth)];
      const int64_t count = 1 + (7 * group + 3 * n) % 5;
      const bool is_last = n + 1 == kOfGroup;
      counted.add(addend, row, false, is_last, count);
      for (int64_t i = 1; i <= count; ++i) repeated.add(addend, row, false, is_last && i == count);
    }
  double value[2][kWidth], sigma[2][kWidth];
  counted.finish({}, ATTEST_F64, 0.5, 2, 1e-3 * errors, value[0], sigma[0]);
  repeated.finish({}, ATTEST_F64, 0.5, 2, 1e-3 * errors, value[1], sigma[1]);
  for (size_t c = 0; c < kWidth; ++c) {
    EXPECT_NEAR(value[0][c], value[1][c], 1e-12);
    EXPECT_NEAR(sigma[0][c], sigma[1][c], 1e-9 * sigma[1][c]);
  }
}

TEST(GradientSum, ACountIsSoManyAddends) { expect_a_count_is_so_many(1); }
// Nothing but the additions errs.
TEST(GradientSum, ACountIsSoManyAdditions) { expect_a_count_is_so_many(0); }

// Of a key near the edge of top_k nobody can say whether its NaN counts.
TEST(GradientSum, NoNumberOfANearPairIsUnsureInItsChannelAlone) {
  const double row[] = {std::nan(""), 2, kInfinity}, plain[] = {1, 1, 1};
  for (const bool is_near : {true, false}) {
    GradientSum sum(3);
    sum.add({.weight = 3}, plain, true, true);
    sum.add({.weight = 5, .is_near = is_near}, row, true, true);
    double value[3], sigma[3];
    sum.finish(kExact, ATTEST_F64, 1, 0, 0, value, sigma);
    EXPECT_TRUE(std::isnan(value[0]));
    EXPECT_EQ(value[1], 13);
    EXPECT_LT(std::fabs(sigma[1]), 1e-5);
    EXPECT_EQ(value[2], kInfinity);
    EXPECT_EQ(sigma[0] == kUnsure, is_near);
    EXPECT_EQ(sigma[2] == kUnsure, is_near);
  }
}

// The rows of dQ that are not computed are compared with this bound.
TEST(HeadRows, NoPairExceedsTheBoundOfItsQuery) {
  for (const float softcap : {0.0f, 2.0f}) {
    const testing::BackwardCase c({.num_heads = 4,
                                   .num_kv_heads = 2,
                                   .seq_len_q = 23,
                                   .seq_len_kv = 37,
                                   .window_right = 0,
                                   .softcap = softcap},
                                  ATTEST_F32, {"random", 1});
    HeadRows rows(c.problem, c.tensors);
    const PairErrors errors(c.problem, {});
    rows.load(0, 1);
    const double largest_v = rows.largest_v();
    double nearest = 0;
    for (int64_t h = 0; h < rows.group(); ++h)
      for (int64_t i = 0; i < rows.length_q(); ++i) {
        const Query at{h, i};
        const double bound = rows.d_logit_bound(at, largest_v);
        for (int64_t j = 0; j < rows.length_kv(); ++j) {
          const std::optional<Pair> pair = rows.pair(errors, at, j, rows.pair_term(at, j));
          EXPECT_EQ(pair.has_value(), j <= i);
          if (!pair) continue;
          EXPECT_NEAR(pair->ds, pair->d_logit * pair->slope, 1e-15);
          const double gradient = pair->d_logit / pair->p;
          EXPECT_LE(std::fabs(gradient), bound);
          nearest = std::max(nearest, std::fabs(gradient) / bound);
        }
      }
    EXPECT_GT(nearest, 0.3) << "a bound that nothing comes near shows nothing";
  }
}

}  // namespace
}  // namespace attest::core::backward
