// One block of keys, lone or equal, from scores to sums.
#include "core/operations/softmax/golden/passes/second_pass.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "core/operations/softmax/testing/make_case.hpp"

namespace attest::core::passes {
namespace {

// One row and two keys of probability 1/2, places 0 and 1, with values of 1 and 3.
struct SecondPassTrial {
  core::testing::Case c = core::testing::make_case("", [](attest_softmax_params& p) {
    p.num_heads = 1;
    p.head_dim = 4;
    p.seq_len_q = 1;
    p.seq_len_kv = 2;
  });
  Geometry geometry{c.problem, c.tensors};
  BlockShape shape{c.params()};
  std::vector<JudgedRow> rows{{.b = 0, .h = 0, .i = 0, .output_row = 0, .keys = {0, 2}}};
  std::vector<RowScores> row_scores{
      {.least = 4, .largest = 4, .lse = 4 + std::log(2.0), .keys = 2}};
  TileScores scores{c.params(), geometry, shape};
  Values values{c.tensors[ATTEST_V], geometry, shape};
  SecondPass pass{geometry, shape};

  RowSums run(const EqualKeys& equal, const SigmaModel& model) {
    for (int64_t key = 0; key < 2; ++key) {
      scores.scores.row(0)[key] = 4;
      scores.magnitudes.row(0)[key] = 9;
      values.values.row(key)[0] = double(1 + 2 * key);
      values.squares.row(key)[0] = double((1 + 2 * key) * (1 + 2 * key));
    }
    const KeyOrder order({0, 2}, equal);
    pass.start(1, order.has_groups());
    pass.add(scores, values, KeyBlock(order, 0, shape.keys), {.first = 0, .rows = rows}, row_scores,
             model);
    pass.finish(model);
    return pass.sums().row(0);
  }
};

const EqualKeys kEqual{.place = {0, 1}, .group = {0, 0}};

TEST(SecondPass, SumsOfProbabilitiesDoNotAskWhetherKeysAreEqual) {
  const SigmaModel model({.qk = ATTEST_BF16}, ATTEST_F32, 4);
  for (const EqualKeys& equal : {EqualKeys{}, kEqual}) {
    SecondPassTrial trial;
    const RowSums row = trial.run(equal, model);
    EXPECT_NEAR(row.pv[0], 2, 1e-14);
    EXPECT_NEAR(row.reach[0], 2, 1e-14);
    EXPECT_NEAR(row.p2v2[0], 2.5, 1e-14);
    EXPECT_NEAR(row.weights.px2, 9, 1e-14);
  }
}

TEST(SecondPass, SquaresOfLoneKeysAndOfEqualOnesDiffer) {
  const SigmaModel model({.score = ATTEST_F16}, ATTEST_F32, 4);
  SecondPassTrial lone, equal;
  const RowSums apart = lone.run({}, model), together = equal.run(kEqual, model);
  EXPECT_NEAR(apart.weights.p2, 0.5, 1e-14);
  EXPECT_NEAR(together.weights.p2, 1, 1e-14);
  EXPECT_EQ(apart.repeated, 0);
  EXPECT_EQ(together.repeated, 4);
  EXPECT_NEAR(apart.weights.p2t, 8, 1e-13);
  EXPECT_NEAR(together.weights.p2t, 16, 1e-13);
  const double variance = model.score_variance(16, 9);
  EXPECT_NEAR(apart.e2v2[0], 2.5 * variance, 1e-6 * variance);
  EXPECT_NEAR(together.e2v2[0], 4 * variance + 2.5 * model.accumulation_variance(16, 9),
              1e-6 * variance);
}

// An accumulator of f16 that adds 2 keys loses nothing of 1/2; half of it would be lost of 1e-6.
TEST(SecondPass, KeysAreLostWhereTheSumDoesNotSeeThem) {
  const SigmaModel model({.accumulator = ATTEST_F16}, ATTEST_F32, 4);
  SecondPassTrial seen;
  EXPECT_EQ(seen.run({}, model).flushed[0], 0);
  SecondPassTrial unseen;
  unseen.row_scores[0].lse = 4 - std::log(1e-6);
  const RowSums row = unseen.run({}, model);
  EXPECT_NEAR(row.flushed[0], 4e-6, 1e-18);
  EXPECT_NEAR(row.weights.small, 2e-6, 1e-18);
}

}  // namespace
}  // namespace attest::core::passes
