// What keys weigh, from scores that are written by hand.
#include "core/operations/softmax/golden/passes/tile_weights.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "core/operations/softmax/golden/row_expectation.hpp"
#include "core/operations/softmax/problem/geometry.hpp"
#include "core/operations/softmax/testing/make_case.hpp"

namespace attest::core::passes {
namespace {

constexpr int64_t kWeightKeys = 4, kWeightRow = 2;

// Row kWeightRow of a tile, of scores that are made in one step or in several.
struct WeightsTrial {
  core::testing::Case c;
  Geometry geometry;
  BlockShape shape;
  TileScores scores;
  TileWeights weights;

  explicit WeightsTrial(float softcap)
      : c(core::testing::make_case("", [=](attest_softmax_params& p) { p.softcap = softcap; })),
        geometry(c.problem, c.tensors),
        shape(c.params()),
        scores(c.params(), geometry, shape),
        weights(shape) {
    write(scores.scores, {1, kHidden, -3, 0.5});
    write(scores.magnitudes, {2, 3, 5, 7});
    write(scores.staged_squares, {11, 13, 17, 19});
    write(scores.lesser_sizes, {1, 0, 4, 16});
    write(scores.sloped_dots, {-8, 9, 10, 6});
  }
  static void write(Matrix& to, const std::vector<double>& row) {
    std::copy(row.begin(), row.end(), to.row(kWeightRow));
  }
  kernels::WeightSums find() {
    return weights.find(scores, kWeightRow, {.lse = 2, .score2 = 3, .q1 = 1}, kWeightKeys);
  }
};

// In f8e5m2 scores err by 0.1 of the magnitude of their products, B. Keys: one of nearly all the
// weight, a hidden one, one whose exp four errors of 1 multiply by 55, and one that errs by 0.1.
TEST(TileWeights, AreNotLinearInLargeErrorsOfScores) {
  const SigmaModel model({.qk = ATTEST_F8E5M2, .probability = ATTEST_F16}, ATTEST_F32, 4);
  const RowScores row{.least = -3, .largest = 1, .lse = 1.01, .keys = 3};
  const double b = 1 / std::sqrt(model.qk_variance(1));
  WeightsTrial trial(0);
  WeightsTrial::write(trial.scores.magnitudes, {100 * b * b, b * b, b * b, 0.01 * b * b});
  trial.weights.find(trial.scores, kWeightRow, weight_model(model, row), kWeightKeys);
  const std::vector<double> linear(trial.weights.error_squares.row(kWeightRow),
                                   trial.weights.error_squares.row(kWeightRow) + kWeightKeys);
  const double p = std::exp(-3 - 1.01);
  ASSERT_NEAR(linear[2], p * p, 1e-3 * p * p);
  const TileWeights::Bent found =
      trial.weights.bend_errors(trial.scores, kWeightRow, row.lse, model, kWeightKeys);
  const double* squares = trial.weights.error_squares.row(kWeightRow);
  EXPECT_EQ(squares[0], linear[0]) << "more than a quarter already";
  EXPECT_EQ(squares[1], 0);
  EXPECT_NEAR(std::sqrt(squares[2]), p * (std::exp(4) - 1) / 4, 1e-3);
  EXPECT_EQ(squares[3], linear[3]);
  EXPECT_NEAR(found.more, squares[2] - linear[2], 1e-12);
  const double all = std::pow((1 - 1.01 + 40) / 4, 2), own = std::pow(10 * std::exp(-0.01), 2);
  EXPECT_NEAR(found.rise, std::sqrt(all - own), 1e-3) << "of the first key";
}

// A key without any weight may take all of it.
TEST(TileWeights, ErrAtMostByAllOfTheWeight) {
  const SigmaModel model({.qk = ATTEST_F8E5M2}, ATTEST_F32, 4);
  const double b2 = 1 / model.qk_variance(1);
  const RowScores row{.least = 0, .largest = 1000, .lse = 1000, .keys = 4};
  WeightsTrial trial(0);
  WeightsTrial::write(trial.scores.scores, {1000, 0, 0, 0});
  WeightsTrial::write(trial.scores.magnitudes, {0, 240 * 240 * b2, 260 * 260 * b2, 0});
  trial.weights.find(trial.scores, kWeightRow, weight_model(model, row), kWeightKeys);
  const TileWeights::Bent found =
      trial.weights.bend_errors(trial.scores, kWeightRow, row.lse, model, kWeightKeys);
  const double* squares = trial.weights.error_squares.row(kWeightRow);
  EXPECT_LT(squares[1], 1e-30);
  EXPECT_NEAR(squares[2], 1.0 / 16, 1e-12);
  EXPECT_NEAR(found.rise, (1040.0 - 1000) / 4, 0.1);
}

TEST(TileWeights, FollowFromTheStepsOfAScore) {
  for (const bool staged : {false, true}) {
    WeightsTrial trial(staged ? 1 : 0);
    const kernels::WeightSums sums = trial.find();
    const double p = std::exp(-5), square = staged ? 17 : 9;
    EXPECT_NEAR(trial.weights.probabilities.row(kWeightRow)[2], p, 1e-16);
    EXPECT_NEAR(trial.weights.probability_squares.row(kWeightRow)[2], p * p, 1e-16);
    EXPECT_NEAR(trial.weights.error_squares.row(kWeightRow)[2], p * p * (3 * square + 5), 1e-15);
    EXPECT_EQ(trial.weights.probabilities.row(kWeightRow)[1], 0);
    EXPECT_EQ(trial.weights.probabilities.row(kWeightRow - 1)[0], 0) << "another row";
    EXPECT_NEAR(sums.p2t,
                staged ? std::exp(-2) * 11 + std::exp(-10) * 17 + std::exp(-3) * 19
                       : std::exp(-2) + std::exp(-10) * 9 + std::exp(-3) * 0.25,
                1e-14);
  }
}

TEST(TileWeights, SumsForTheLseAddUp) {
  for (const bool staged : {false, true}) {
    WeightsTrial trial(staged ? 1 : 0);
    trial.find();
    const double p[] = {std::exp(-1), 0, std::exp(-5), std::exp(-1.5)};
    double common = 100, mean_dot = 200, sizes = 300;
    add_common(trial.scores, trial.weights, kWeightRow, kWeightKeys, common);
    add_mean_dot(trial.scores, trial.weights, kWeightRow, kWeightKeys, mean_dot);
    add_sizes(trial.scores, trial.weights, kWeightRow, kWeightKeys, sizes);
    EXPECT_NEAR(common, 100 + p[0] * 1 + p[2] * 4 + p[3] * 16, 1e-13);
    EXPECT_NEAR(mean_dot,
                200 + (staged ? p[0] * 8 + p[2] * 10 + p[3] * 6 : p[0] * 1 + p[2] * 3 + p[3] * 0.5),
                1e-13);
    EXPECT_NEAR(sizes,
                300 + (staged ? p[0] * std::sqrt(11) + p[2] * std::sqrt(17) + p[3] * std::sqrt(19)
                              : p[0] * 1 + p[2] * 3 + p[3] * 0.5),
                1e-13);
  }
}

// Hidden keys between two that are equal do not part them.
TEST(TileWeights, EqualNeighboursAreCounted) {
  WeightsTrial trial(0);
  const double given[] = {7, kHidden, 7, -7};
  std::copy(std::begin(given), std::end(given), trial.scores.scores.row(kWeightRow));
  double sum = 10;
  add_equal_neighbours(trial.scores, kWeightRow, kWeightKeys, sum);
  EXPECT_EQ(sum, 11);
  trial.scores.scores.row(kWeightRow)[3] = 7;
  add_equal_neighbours(trial.scores, kWeightRow, kWeightKeys, sum);
  EXPECT_EQ(sum, 13);
}

// Probabilities of exp(-5), exp(-1.5), exp(-1).
TEST(TileWeights, TellWhatIsLostFromWhatMayBe) {
  WeightsTrial trial(0);
  trial.find();
  TileWeights& weights = trial.weights;
  weights.find_lost(kWeightRow, {.gone = 0.1, .kept = 0.3, .apart = 3}, kWeightKeys);
  EXPECT_TRUE(weights.any_lost);
  EXPECT_TRUE(weights.any_unsure);
  EXPECT_TRUE(weights.any_apart);
  EXPECT_NEAR(weights.lost.row(kWeightRow)[2], std::exp(-5), 1e-16);
  EXPECT_EQ(weights.lost.row(kWeightRow)[3], 0);
  EXPECT_NEAR(weights.lost_squares.row(kWeightRow)[2], 3 * std::exp(-10), 1e-19);
  EXPECT_EQ(weights.lost_squares.row(kWeightRow)[3], 0);
  EXPECT_EQ(weights.unsure.row(kWeightRow)[2], 0);
  EXPECT_NEAR(weights.unsure.row(kWeightRow)[3], std::exp(-1.5), 1e-15);
  EXPECT_NEAR(weights.unsure_squares.row(kWeightRow)[3], std::exp(-3), 1e-15);
  EXPECT_EQ(weights.unsure.row(kWeightRow)[0], 0);
  weights.clear_lost();
  weights.find_lost(kWeightRow, {.gone = 0.1, .kept = 0.1}, kWeightKeys);
  EXPECT_TRUE(weights.any_lost);
  EXPECT_FALSE(weights.any_unsure || weights.any_apart);
  weights.clear_lost();
  weights.find_lost(kWeightRow, {.gone = 1e-9, .kept = 1e-9, .apart = 3}, kWeightKeys);
  EXPECT_FALSE(weights.any_lost || weights.any_unsure || weights.any_apart);
}

}  // namespace
}  // namespace attest::core::passes
