// Errors of equal keys add before they are squared, those of the same score wholly.
#include "core/operations/softmax/golden/passes/equal_key_sums.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace attest::core::passes {
namespace {

constexpr int64_t kEqualRow = 2;
const SigmaModel::Flushing kNoneLost{.gone = 0, .kept = 0};

// Scores and probabilities are rounded to f16, which has subnormals: needs_a2.
SigmaModel f16_model() {
  return SigmaModel({.score = ATTEST_F16, .probability = ATTEST_F16}, ATTEST_F16, 4);
}

BlockShape shape() {
  attest_softmax_params params{};
  params.head_dim = 4;
  params.head_dim_v = 2;
  return BlockShape(params);
}

// Equal keys with values 1 and 3 in channel 0, -1 and 1 in channel 1.
struct EqualKeysTrial {
  KeySums sums{shape()};
  EqualKeySums equal{2, sums};
  double values[2][2] = {{1, -1}, {3, 1}};
  EqualKey first{.group = 7,
                 .score = 2,
                 .p = 0.25,
                 .rounding_square = 1e-6,
                 .magnitude = 3,
                 .staged_square = 4,
                 .value = values[0]};
  EqualKey second = first;

  EqualKeysTrial() { second.value = values[1]; }
  RowSums add(const SigmaModel& model, const SigmaModel::Flushing& flushing = kNoneLost) {
    equal.start(kEqualRow + 1);
    equal.add(kEqualRow, first, model, flushing);
    equal.add(kEqualRow, second, model, flushing);
    equal.finish(kEqualRow, model);
    return sums.row(kEqualRow);
  }
};

TEST(EqualKeySums, AddBeforeTheyAreSquared) {
  const SigmaModel model = f16_model();
  EqualKeysTrial trial;
  const RowSums row = trial.add(model);
  const double dot = 4 * model.score_square() + model.qk_variance(3),
               own = model.accumulation_variance(4, 3) / 16;
  ASSERT_GT(own, 0);
  EXPECT_NEAR(row.weights.p2, 0.25, 1e-15);  // (1/4 + 1/4)^2
  EXPECT_NEAR(row.weights.a2, 4e-6, 1e-18);  // (1e-3 + 1e-3)^2
  EXPECT_NEAR(row.weights.p2t, 0.25 * 4, 1e-15);
  EXPECT_NEAR(row.weights.p2q, 0.25 * model.qk_variance(3), 1e-24);
  EXPECT_NEAR(row.weights.e2, 0.25 * dot + 2 * own, 1e-18);
  EXPECT_EQ(row.repeated, 4);
  EXPECT_NEAR(row.a2v2[0], 16e-6, 1e-18);  // (1e-3 (1 + 3))^2
  EXPECT_NEAR(row.a2v2[1], 2e-6, 1e-18);   // they cancel: one by one
  EXPECT_NEAR(row.e2v[0], 4 * 0.25 * 0.5 * dot + own * 4, 1e-18);
  EXPECT_NEAR(row.e2v[1], 0, 1e-18);
  EXPECT_NEAR(row.e2v2[0], 16 * dot / 16 + own * 10, 1e-18);
  EXPECT_EQ(trial.sums.row(kEqualRow - 1).weights.p2, 0);
}

// Where something else is added to each, they share the error of their dot product alone.
TEST(EqualKeySums, OfTwoScoresShareTheDotProduct) {
  const SigmaModel model = f16_model();
  EqualKeysTrial trial;
  trial.first.added_square = 1;
  trial.first.staged_square = 5;
  trial.second.score = 2.5;
  trial.second.added_square = 9;
  trial.second.staged_square = 13;
  const RowSums row = trial.add(model);
  const double dot = 4 * model.score_square() + model.qk_variance(3),
               own = model.accumulation_variance(4, 3) / 16;
  EXPECT_NEAR(row.weights.p2, 2.0 / 16, 1e-15);
  EXPECT_NEAR(row.weights.a2, 2e-6, 1e-18);
  EXPECT_NEAR(row.weights.p2t, (1 + 9) / 16.0 + 0.25 * 4, 1e-15);
  EXPECT_NEAR(row.weights.e2, 0.25 * dot + (1 + 9) / 16.0 * model.score_square() + 2 * own, 1e-18);
  EXPECT_EQ(row.repeated, 0);
  EXPECT_NEAR(row.a2v2[0], 10e-6, 1e-18);  // 1 + 3^2
}

// A bias of few values: keys of one score come in any order.
TEST(EqualKeySums, OfOneScoreRoundAlikeWhateverLiesBetween) {
  const SigmaModel model = f16_model();
  EqualKeysTrial trial;
  trial.second.score = 2.5;
  trial.equal.start(kEqualRow + 1);
  for (int n = 0; n < 3; ++n)
    for (const EqualKey& key : {trial.first, trial.second})
      trial.equal.add(kEqualRow, key, model, kNoneLost);
  trial.equal.finish(kEqualRow, model);
  const RowSums row = trial.sums.row(kEqualRow);
  EXPECT_NEAR(row.weights.a2, 2 * 9e-6, 1e-18);  // (3 * 1e-3)^2
  EXPECT_NEAR(row.a2v2[0], 9e-6 * (1 + 9), 1e-18);
  EXPECT_EQ(row.repeated, 2 * 9);
}

// Distances: many scores, each of one key.
TEST(EqualKeySums, OfManyScoresEndOneAfterAnother) {
  const SigmaModel model = f16_model();
  EqualKeysTrial trial;
  trial.equal.start(kEqualRow + 1);
  for (int n = 0; n < 100; ++n) {
    trial.first.score = n;
    trial.equal.add(kEqualRow, trial.first, model, kNoneLost);
  }
  trial.equal.finish(kEqualRow, model);
  const RowSums row = trial.sums.row(kEqualRow);
  EXPECT_NEAR(row.weights.a2, 100 * 1e-6, 1e-15);
  EXPECT_NEAR(row.weights.p2q, 25 * 25 * model.qk_variance(3), 1e-20);
  EXPECT_EQ(row.repeated, 0);
}

TEST(EqualKeySums, OfTwoGroupsShareNothing) {
  const SigmaModel model = f16_model();
  EqualKeysTrial trial;
  trial.second.group = 9;
  const RowSums row = trial.add(model);
  const double dot = 4 * model.score_square() + model.qk_variance(3),
               own = model.accumulation_variance(4, 3) / 16;
  EXPECT_NEAR(row.weights.p2, 2.0 / 16, 1e-15);
  EXPECT_NEAR(row.weights.p2q, 2.0 / 16 * model.qk_variance(3), 1e-24);
  EXPECT_NEAR(row.weights.e2, 2.0 / 16 * dot + 2 * own, 1e-18);
  EXPECT_EQ(row.repeated, 0);
}

// theta = 1: the normaliser sums the rounded probabilities, so their roundings count by v - o.
TEST(EqualKeySums, RoundingsCountAsErrorsWhereTheNormaliserSumsThem) {
  const SigmaModel model(
      {.score = ATTEST_F16, .probability = ATTEST_F16, .ways = ATTEST_SUMS_ROUNDED_P}, ATTEST_F16,
      4);
  ASSERT_EQ(model.theta, 1);
  EqualKeysTrial trial;
  const RowSums row = trial.add(model);
  const double dot = 4 * model.score_square() + model.qk_variance(3),
               own = model.accumulation_variance(4, 3) / 16;
  EXPECT_NEAR(row.weights.e2, 0.25 * dot + 2 * own + (4e-6 + 2e-6) / 3, 1e-18);
  EXPECT_NEAR(row.e2v2[0], dot + own * 10 + (16e-6 + 10e-6) / 3, 1e-18);
}

TEST(EqualKeySums, MayBeLostTogether) {
  const auto unsure2 = [](const SigmaModel::Flushing& flushing) {
    EqualKeysTrial trial;
    trial.first.p = trial.second.p = 0.5;
    return trial.add(f16_model(), flushing).unsure2[0];
  };
  EXPECT_EQ(unsure2({.gone = 0.5, .kept = 0.6}), 4);  // (1/2 + 3/2)^2
  EXPECT_EQ(unsure2({.gone = 0.1, .kept = 0.5}), 0);
  EXPECT_EQ(unsure2({.gone = 0.51, .kept = 0.6}), 0);
}

}  // namespace
}  // namespace attest::core::passes
