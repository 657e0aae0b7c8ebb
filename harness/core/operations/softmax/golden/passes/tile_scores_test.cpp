// Scores and what their errors follow from, step by step, against the formulas in plain loops.
#include "core/operations/softmax/golden/passes/tile_scores.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/operations/softmax/problem/geometry.hpp"
#include "core/operations/softmax/testing/make_case.hpp"

namespace attest::core::passes {
namespace {

using core::testing::Case;
using core::testing::make_case;
using Params = attest_softmax_params;

constexpr int64_t kRows = 7, kScoreKeys = 19, kHeadDim = 8;

// One head, keys 1 to 17 of 19 for all rows but the last, which sees 5 to 12.
struct ScoresTrial {
  Case c;
  Geometry geometry;
  BlockShape shape;
  std::vector<JudgedRow> rows;
  RowTask task{.b = 0, .kv_head = 0, .begin = 0, .end = size_t(kRows), .keys = {1, 18}};
  Queries queries;
  Keys keys;
  TileScores scores;

  ScoresTrial(float softcap, const std::vector<int32_t>& with)
      : c(make_case(
            "",
            [=](Params& p) {
              p.num_heads = 1;
              p.seq_len_q = kRows;
              p.seq_len_kv = kScoreKeys;
              p.head_dim = kHeadDim;
              p.softcap = softcap;
              p.softmax_scale = 1;
            },
            with)),
        geometry(c.problem, c.tensors),
        shape(c.params()),
        queries(c.tensors[ATTEST_Q], geometry, c.params()),
        keys(c.tensors[ATTEST_K], geometry, shape),
        scores(c.params(), geometry, shape) {
    for (int64_t i = 0; i < kRows; ++i) rows.push_back({0, 0, i, i, {1, 18}});
    rows.back().keys = {5, 13};
    queries.load(rows);
  }
  void find(const KeyOrder& order, int64_t begin, const SigmaModel& model) {
    const KeyBlock block(order, begin, shape.keys);
    keys.load(task, block);
    keys.find_magnitudes(model.squares(), block.count());
    queries.find_magnitudes(kRows, model.squares());
    scores.find_with_errors(queries, keys, block, {.first = 0, .rows = rows}, model);
  }
  double dot(int64_t i, int64_t j) const {
    double sum = 0;
    for (int64_t d = 0; d < kHeadDim; ++d) sum += product(i, j, d);
    return sum;
  }
  double magnitude(int64_t i, int64_t j, bool squares) const {
    double sum = 0;
    for (int64_t d = 0; d < kHeadDim; ++d)
      sum += squares ? std::pow(product(i, j, d), 2) : std::fabs(product(i, j, d));
    return sum;
  }
  double product(int64_t i, int64_t j, int64_t d) const {
    return c.tensors[ATTEST_Q].at({0, 0, i, d}) * c.tensors[ATTEST_K].at({0, 0, j, d});
  }
};

SigmaModel model_of(DType qk) { return SigmaModel({.qk = qk, .score = ATTEST_F16}, ATTEST_F32, 8); }

TEST(TileScores, AreDotProductsWithVisibleKeys) {
  ScoresTrial trial(0, {});
  EXPECT_FALSE(trial.scores.staged());
  trial.find(KeyOrder(trial.task.keys, {}), 0, model_of(ATTEST_F32));
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t key = 0; key < 17; ++key) {
      const bool visible = trial.rows[size_t(i)].keys.contains(1 + key);
      const double score = trial.scores.scores.row(i)[key];
      if (visible)
        ASSERT_NEAR(score, trial.dot(i, 1 + key), 1e-14);
      else
        ASSERT_EQ(score, kHidden);
      ASSERT_NEAR(trial.scores.magnitudes.row(i)[key], trial.magnitude(i, 1 + key, false), 1e-14);
    }
}

// A bias of 0 changes nothing, so nothing is rounded.
TEST(TileScores, NoteTheStepsOfAScore) {
  ScoresTrial trial(0.7f, {ATTEST_BIAS});
  ASSERT_TRUE(trial.scores.staged());
  const SigmaModel model = model_of(ATTEST_BF16);
  ASSERT_TRUE(model.squares());
  trial.find(KeyOrder(trial.task.keys, {}), 0, model);
  const double cap = double(0.7f);
  int zeros = 0, others = 0;
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t key = 0; key < 17; ++key) {
      const double score = trial.scores.scores.row(i)[key];
      if (score == kHidden) continue;
      const double t = std::tanh(trial.dot(i, 1 + key) / cap), slope = 1 - t * t,
                   sloped = trial.dot(i, 1 + key) * slope,
                   bias = trial.c.tensors[ATTEST_BIAS].at({0, 0, i, 1 + key}), sum = cap * t + bias;
      ASSERT_NEAR(score, sum, 1e-13);
      ASSERT_NEAR(trial.scores.sloped_dots.row(i)[key], sloped, 1e-13);
      ASSERT_NEAR(trial.scores.magnitudes.row(i)[key],
                  trial.magnitude(i, 1 + key, true) * slope * slope, 1e-13);
      const double added = bias == 0 ? 0 : model.staged_square(0, sum * sum);
      const double kept = sloped * sloped + cap * t * cap * t;
      ASSERT_NEAR(trial.scores.added_squares.row(i)[key], added, 1e-12);
      ASSERT_NEAR(trial.scores.staged_squares.row(i)[key],
                  model.staged_square(sloped * sloped, kept) + added, 1e-12);
      ASSERT_NEAR(trial.scores.lesser_sizes.row(i)[key],
                  bias == 0 ? 0 : std::min(std::fabs(cap * t), std::fabs(sum)), 1e-13);
      zeros += bias == 0;
      others += bias != 0;
    }
  EXPECT_GT(zeros, 0);
  EXPECT_GT(others, 20);
}

// An infinite dot product scores the cap, with no error; where nothing is added nothing is rounded.
TEST(TileScores, NothingIsLeftOfAnErrorAtTheCap) {
  ScoresTrial trial(0.7f, {});
  store(trial.c.tensors[ATTEST_K].data, ATTEST_F32, 4 * kHeadDim,
        std::numeric_limits<double>::infinity());
  trial.find(KeyOrder(trial.task.keys, {}), 0, model_of(ATTEST_F32));
  EXPECT_NEAR(std::fabs(trial.scores.scores.row(0)[3]), double(0.7f), 1e-15);
  EXPECT_EQ(trial.scores.magnitudes.row(0)[3], 0);
  EXPECT_EQ(trial.scores.sloped_dots.row(0)[3], 0);
  EXPECT_EQ(trial.scores.added_squares.row(0)[2], 0);
  EXPECT_EQ(trial.scores.lesser_sizes.row(0)[2], 0);
}

// Biases and hidden keys do not depend on the order in which keys are visited.
TEST(TileScores, AreThoseOfTheirPlacesWhereKeysAreEqual) {
  ScoresTrial trial(0, {ATTEST_BIAS, ATTEST_MASK});
  const SigmaModel model = model_of(ATTEST_F32);
  trial.find(KeyOrder(trial.task.keys, {}), 0, model);
  const std::vector<double> in_order(trial.scores.scores.numbers().begin(),
                                     trial.scores.scores.numbers().end());
  const EqualKeys equal{.place = {2, 14, 15, 6, 7}, .group = {2, 2, 2, 6, 6}};
  const KeyOrder order(trial.task.keys, equal);
  int64_t compared = 0;
  for (int64_t begin = 0; begin < order.size();) {
    const KeyBlock block(order, begin, trial.shape.keys);
    trial.find(order, begin, model);
    for (int64_t i = 0; i < kRows; ++i)
      for (int64_t key = 0; key < block.count(); ++key, ++compared)
        ASSERT_EQ(trial.scores.scores.row(i)[key],
                  in_order[size_t(i * trial.shape.key_stride + block.place(key) - 1)])
            << i << " " << block.place(key);
    begin += block.count();
  }
  EXPECT_EQ(compared, kRows * 17);
}

// What the first pass asks for is the same as what the second one does.
TEST(TileScores, AreTheSameWithoutErrors) {
  ScoresTrial trial(0.7f, {ATTEST_BIAS});
  const KeyOrder order(trial.task.keys, {});
  trial.find(order, 0, model_of(ATTEST_F32));
  const std::vector<double> with_errors(trial.scores.scores.row(0),
                                        trial.scores.scores.row(0) + 17);
  trial.scores.find(trial.queries, trial.keys, KeyBlock(order, 0, trial.shape.keys),
                    {.first = 0, .rows = trial.rows});
  for (size_t key = 0; key < 17; ++key)
    EXPECT_EQ(trial.scores.scores.row(0)[key], with_errors[key]);
}

}  // namespace
}  // namespace attest::core::passes
