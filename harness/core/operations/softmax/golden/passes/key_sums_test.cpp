// Sums over keys, from weights and values that are written by hand.
#include "core/operations/softmax/golden/passes/key_sums.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/operations/softmax/testing/make_case.hpp"

namespace attest::core::passes {
namespace {

constexpr int64_t kSumsKeys = 130,
                  kSumsRow = 1;  // keys of a block; the row of its tile that is looked at

// A tile of two rows, whose keys are at places 40 to 169 of a sequence.
struct KeySumsTrial {
  core::testing::Case c = core::testing::make_case("", [](attest_softmax_params& p) {
    p.num_heads = 1;
    p.head_dim = 4;
    p.seq_len_q = 2;
    p.seq_len_kv = 200;
  });
  Geometry geometry{c.problem, c.tensors};
  BlockShape shape{c.params()};
  KeyOrder order{{40, 40 + kSumsKeys}, {}};
  std::vector<JudgedRow> rows{2, JudgedRow{.b = 0, .h = 0, .i = 0, .output_row = 0, .keys = {}}};
  Tile tile{.first = 0, .rows = rows};
  Values values{c.tensors[ATTEST_V], geometry, shape};
  TileScores scores{c.params(), geometry, shape};
  TileWeights weights{shape};
  KeySums sums{shape};

  // In blocks of at most `most` keys, of which key n of the task weighs weight(n) and has the value
  // value(n) in channel 3.
  template <class Weight, class Value, class Add>
  void add_blocks(int64_t most, const Weight& weight, const Value& value, const Add& add) {
    for (int64_t begin = 0; begin < order.size();) {
      const KeyBlock block(order, begin, most);
      for (int64_t key = 0; key < block.count(); ++key) {
        const double w = weight(begin + key), v = value(begin + key);
        weights.probabilities.row(kSumsRow)[key] = w;
        weights.probability_squares.row(kSumsRow)[key] = w * w;
        weights.error_squares.row(kSumsRow)[key] = 3 * w;
        weights.rounding_squares.row(kSumsRow)[key] = 5 * w;
        values.values.row(key)[3] = v;
        values.squares.row(key)[3] = v * v;
      }
      add(block);
      begin += block.count();
    }
  }
};

double one(int64_t) { return 1; }

// Partial sums are 24, -40, 2 at places 64, 128, 170, and 60 at 72, where nobody looks.
TEST(KeySums, ReachIsWhatIsSeenAtFixedPlacesWhereverBlocksBegin) {
  const auto value = [](int64_t n) {
    return n < 24 ? 1.0 : n < 32 ? 4.5 : n < 88 ? -100.0 / 56 : 1;
  };
  for (const int64_t most : {256, 130, 32, 7, 1}) {
    KeySumsTrial trial;
    trial.add_blocks(most, one, value, [&](const KeyBlock& block) {
      trial.sums.add_probabilities(trial.weights, trial.values, block, trial.tile);
    });
    EXPECT_NEAR(trial.sums.pv.row(kSumsRow)[3], 2, 1e-12) << most;
    EXPECT_NEAR(trial.sums.reach.row(kSumsRow)[3], 40, 1e-12) << most;
    EXPECT_NEAR(trial.sums.p2v2.row(kSumsRow)[3], 24 + 8 * 4.5 * 4.5 + 1e4 / 56 + 42, 1e-11)
        << most;
    EXPECT_EQ(trial.sums.pv.row(kSumsRow - 1)[3], 0) << most;
    EXPECT_EQ(trial.sums.pv.row(kSumsRow)[2], 0) << most;
  }
}

TEST(KeySums, ErrorsHaveWeightsOfTheirOwn) {
  for (const bool own_a2v2 : {false, true}) {
    KeySumsTrial trial;
    const auto weight = [](int64_t n) { return double(n + 1); };
    const auto value = [](int64_t n) { return n == 2 ? 10.0 : n == 50 ? -1.0 : 0.0; };
    trial.add_blocks(32, weight, value, [&](const KeyBlock& block) {
      trial.sums.add_errors(trial.weights, trial.values, block, trial.tile, own_a2v2);
    });
    const RowSums row = trial.sums.row(kSumsRow);
    EXPECT_EQ(row.e2v[3], 3 * (3 * 10 - 51));
    EXPECT_EQ(row.e2v2[3], 3 * (3 * 100 + 51));
    EXPECT_EQ(row.a2v2[3], own_a2v2 ? 5 * (3 * 100 + 51) : 0);
  }
}

TEST(KeySums, NonFiniteValuesReachOnlyRowsThatSeeThem) {
  KeySumsTrial trial;
  const double infinity = std::numeric_limits<double>::infinity();
  trial.values.non_finite = {{.key = 5, .channel = 2, .value = infinity},
                             {.key = 6, .channel = 1, .value = infinity}};
  trial.scores.scores.row(0)[5] = -infinity;
  trial.scores.scores.row(0)[6] = -infinity;
  trial.scores.scores.row(1)[6] = -infinity;
  trial.weights.probabilities.row(1)[5] = 0.5;
  trial.sums.add_non_finite(trial.scores, trial.weights, trial.values, trial.tile);
  EXPECT_EQ(trial.sums.pv.row(1)[2], infinity);
  EXPECT_EQ(trial.sums.pv.row(1)[1], 0);
  EXPECT_EQ(trial.sums.pv.row(0)[2], 0);
}

// Equal keys that may be lost are lost together, so their squares are not summed here. Those that
// only a part of the keys loses are not.
TEST(KeySums, LostKeysAreSummedApart) {
  for (const bool grouped : {false, true}) {
    KeySumsTrial trial;
    const EqualKeys equal{.place = {41, 42, 43}, .group = {41, 41, 41}};
    const KeyOrder order({41, 44}, grouped ? equal : EqualKeys{});
    const double lost[] = {0.5, 0, 0}, unsure[] = {0, 2, 4};
    for (size_t key = 0; key < 3; ++key) {
      trial.weights.lost.row(kSumsRow)[key] = lost[key];
      trial.weights.lost_squares.row(kSumsRow)[key] = 3 * lost[key] * lost[key];
      trial.weights.unsure.row(kSumsRow)[key] = unsure[key];
      trial.weights.unsure_squares.row(kSumsRow)[key] = unsure[key] * unsure[key];
      trial.values.values.row(int64_t(key))[3] = 10;
      trial.values.squares.row(int64_t(key))[3] = 100;
    }
    const KeyBlock block(order, 0, 256);
    trial.sums.add_lost(trial.weights, trial.values, block, trial.tile);
    EXPECT_EQ(trial.sums.row(kSumsRow).flushed[3], 0) << "no row has said that it has any";
    trial.weights.any_lost = trial.weights.any_unsure = true;
    trial.sums.add_lost(trial.weights, trial.values, block, trial.tile);
    EXPECT_EQ(trial.sums.row(kSumsRow).flushed[3], 5);
    EXPECT_EQ(trial.sums.row(kSumsRow).unsure[3], 60);
    EXPECT_EQ(trial.sums.row(kSumsRow).unsure2[3], grouped ? 0 : 2000);
    trial.weights.any_lost = trial.weights.any_unsure = false;
    trial.weights.any_apart = true;
    trial.sums.add_lost(trial.weights, trial.values, block, trial.tile);
    EXPECT_EQ(trial.sums.row(kSumsRow).unsure2[3], grouped ? 75 : 2075);
  }
}

// The sum over all lost keys is nothing. That over those before place 128, where it is looked at,
// is not; place 72 is not looked at.
TEST(KeySums, RunsOfLostKeysAreSeenWhereverBlocksBegin) {
  for (const int64_t most : {7, 64, 256}) {
    KeySumsTrial trial;
    const auto value = [](int64_t n) { return n == 32 ? 1e6 : n == 33 ? -1e6 : n < 88 ? 42 : -84; };
    trial.add_blocks(most, one, value, [&](const KeyBlock& block) {
      for (int64_t key = 0; key < block.count(); ++key) trial.weights.lost.row(kSumsRow)[key] = 1;
      trial.weights.any_lost = true;
      trial.sums.add_lost(trial.weights, trial.values, block, trial.tile);
    });
    const RowSums row = trial.sums.row(kSumsRow);
    EXPECT_EQ(row.flushed[3], 86 * 42 - 42 * 84) << most;
    EXPECT_EQ(row.flushed_most[3], 86 * 42) << most;
    EXPECT_EQ(row.flushed_least[3], 0) << most;
  }
}

TEST(KeySums, StartAtZero) {
  KeySumsTrial trial;
  trial.sums.pv.row(kTaskRows - 1)[0] = 1;
  trial.sums.unsure2.row(0)[3] = 1;
  trial.sums.scalars[3] = {
      .weights = {.p2 = 1}, .repeated = 2, .common = 3, .mean_dot = 4, .sizes = 5};
  const RowSums row = trial.sums.row(3);
  EXPECT_EQ(row.weights.p2, 1);
  EXPECT_EQ(row.repeated, 2);
  EXPECT_EQ(row.common, 3);
  EXPECT_EQ(row.mean_dot, 4);
  EXPECT_EQ(row.sizes, 5);
  trial.sums.clear(kTaskRows);
  EXPECT_EQ(trial.sums.row(kTaskRows - 1).pv[0], 0);
  EXPECT_EQ(trial.sums.row(0).unsure2[3], 0);
  EXPECT_EQ(trial.sums.row(3).mean_dot, 0);
  trial.sums.pv.row(1)[0] = 1;
  trial.sums.clear(2);
  EXPECT_EQ(trial.sums.row(1).pv[0], 0);
}

}  // namespace
}  // namespace attest::core::passes
