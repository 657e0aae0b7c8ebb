// What roundings that many keys share move an output by, against sums that are written out here.
#include "core/operations/softmax/golden/roundings/shared_roundings.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "core/operations/numerics/rounding.hpp"
#include "core/operations/softmax/testing/make_case.hpp"

namespace attest::core::passes {
namespace {

constexpr int64_t kKeys = 40;

// Two rows and 40 keys, of which the last one is hidden, in blocks of `most`.
struct SharedTrial {
  explicit SharedTrial(int64_t head_dim, float softcap = 0)
      : c(core::testing::make_case("", [&](attest_softmax_params& p) {
          p.num_heads = 1;
          p.head_dim = head_dim;
          p.head_dim_v = 5;
          p.seq_len_q = 2;
          p.seq_len_kv = kKeys;
          p.softcap = softcap;
        })) {}

  core::testing::Case c;
  Geometry geometry{c.problem, c.tensors};
  BlockShape shape{c.params()};
  SigmaModel model =
      SigmaModel::of({.qk = ATTEST_BF16, .pv = ATTEST_BF16, .probability = ATTEST_F16}, c.problem);
  Queries queries{c.tensors[ATTEST_Q], geometry, c.params()};
  Keys keys{c.tensors[ATTEST_K], geometry, shape};
  Values values{c.tensors[ATTEST_V], geometry, shape};
  TileScores scores{c.params(), geometry, shape};
  SharedRoundings shared{shape};
  std::vector<JudgedRow> rows{{.b = 0, .h = 0, .i = 0, .output_row = 0, .keys = {0, kKeys}},
                              {.b = 0, .h = 0, .i = 1, .output_row = 1, .keys = {0, kKeys}}};

  double at(int32_t role, int64_t row, int64_t channel) const {
    return c.tensors[size_t(role)].at({0, 0, row, channel});
  }
  static double p(int64_t key) { return key == kKeys - 1 ? 0 : 1.0 / double(3 + key); }
  double o(int64_t d) const {
    double sum = 0;
    for (int64_t j = 0; j < kKeys; ++j) sum += p(j) * at(ATTEST_V, j, d);
    return sum;
  }
  double slope(int64_t row, int64_t j) const {
    double dot = 0;
    for (int64_t e = 0; e < c.params().head_dim; ++e)
      dot += double(c.params().softmax_scale) * at(ATTEST_Q, row, e) * at(ATTEST_K, j, e);
    const double cap = double(c.params().softcap);
    return cap > 0 ? 1 - std::pow(std::tanh(dot / cap), 2) : 1;
  }

  SharedRoundings::Variances run(int64_t row, int64_t most) {
    const KeyOrder order({0, kKeys}, {});
    const Tile tile{.first = 0, .rows = rows};
    queries.load(rows);
    queries.find_magnitudes(2, true);
    shared.start(queries, 2, model);
    Matrix probabilities(kTileRows, shape.key_stride);
    for (int64_t begin = 0; begin < kKeys;) {
      const KeyBlock block(order, begin, most);
      keys.load({.b = 0, .kv_head = 0, .begin = 0, .end = 2, .keys = {0, kKeys}}, block);
      keys.find_magnitudes(true, block.count());
      values.load({.b = 0, .kv_head = 0, .begin = 0, .end = 2, .keys = {0, kKeys}}, block);
      shared.load(keys, values, block);
      scores.find_with_errors(queries, keys, block, tile, model);
      for (int64_t r = 0; r < 2; ++r)
        for (int64_t key = 0; key < block.count(); ++key)
          probabilities.row(r)[key] = p(block.place(key));
      shared.add(scores, probabilities, queries, keys, values, block, tile);
      begin += block.count();
    }
    std::vector<double> outputs;
    for (int64_t d = 0; d < 5; ++d) outputs.push_back(o(d));
    return shared.find(row, outputs.data());
  }

  // sum_c (u q_c C_c)^2 / 3 and the square of what the keys' roundings move o by.
  double expected_scores(int64_t row, int64_t d) const {
    double squares = 0, by_keys = 0;
    for (int64_t e = 0; e < c.params().head_dim; ++e) {
      double moved = 0;
      for (int64_t j = 0; j < kKeys; ++j) {
        const double q = double(c.params().softmax_scale) * at(ATTEST_Q, row, e),
                     k = at(ATTEST_K, j, e),
                     weight = p(j) * slope(row, j) * (at(ATTEST_V, j, d) - o(d));
        moved += q * k * weight;
        by_keys += q * (rounded(k, ATTEST_BF16) - k) * weight;
      }
      squares += 0x1p-16 / 3 * moved * moved;
    }
    return squares + by_keys * by_keys;
  }
  double expected_values(int64_t d) const {
    double sum = 0;
    for (int64_t j = 0; j < kKeys; ++j)
      sum += p(j) * (rounded(at(ATTEST_V, j, d), ATTEST_BF16) - at(ATTEST_V, j, d));
    return sum * sum;
  }
};

TEST(SharedRoundings, AreExactForFewChannels) {
  for (const float softcap : {0.0f, 0.6f})
    for (const int64_t most : {256, 16}) {
      SharedTrial trial(7, softcap);
      for (int64_t row = 0; row < 2; ++row) {
        const SharedRoundings::Variances found = trial.run(row, most);
        for (int64_t d = 0; d < 5; ++d) {
          const double scores = trial.expected_scores(row, d), values = trial.expected_values(d);
          EXPECT_NEAR(found.scores[size_t(d)], scores, 1e-9 * scores) << row << " " << d;
          EXPECT_NEAR(found.values[size_t(d)], values, 1e-9 * values) << row << " " << d;
        }
      }
    }
}

// Sixteen groups of eight channels: a mean of sixteen squares, over all that is judged.
TEST(SharedRoundings, AreRightInTheMeanForMany) {
  SharedTrial trial(128);
  double sum = 0;
  for (int64_t row = 0; row < 2; ++row) {
    const SharedRoundings::Variances found = trial.run(row, 256);
    for (int64_t d = 0; d < 5; ++d) sum += found.scores[size_t(d)] / trial.expected_scores(row, d);
  }
  EXPECT_NEAR(sum / 10, 1, 0.25);
}

// In an arithmetic that rounds neither Q and K nor V there is nothing to share.
TEST(SharedRoundings, AreNoneInFloat32) {
  SharedTrial trial(7);
  trial.model = SigmaModel::of({}, trial.c.problem);
  trial.model.take_any_values();
  EXPECT_FALSE(trial.model.needs_shared());
  const SharedRoundings::Variances found = trial.run(0, 256);
  for (int64_t d = 0; d < 5; ++d) {
    EXPECT_EQ(found.scores[size_t(d)], 0);
    EXPECT_EQ(found.values[size_t(d)], 0);
  }
}

}  // namespace
}  // namespace attest::core::passes
