// Queries, keys and values arrive where the passes look for them, each from its own head and place.
#include "core/operations/softmax/golden/passes/operands.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/operations/softmax/testing/make_case.hpp"

namespace attest::core::passes {
namespace {

using core::testing::Case;
using core::testing::make_case;
using Params = attest_softmax_params;

// Two sequences, two key heads of two query heads each.
Case grouped_heads() {
  return make_case("grouped heads", [](Params& p) {
    p.batch = 2;
    p.num_heads = 4;
    p.num_kv_heads = 2;
    p.seq_len_q = 9;
    p.seq_len_kv = 21;
    p.head_dim = 5;
    p.head_dim_v = 3;
    p.softmax_scale = -2.5f;
  });
}

const RowTask kTask{.b = 1, .kv_head = 1, .begin = 0, .end = 2, .keys = {2, 20}};

TEST(Operands, QueriesAreScaled) {
  const Case c = grouped_heads();
  const Geometry geometry(c.problem, c.tensors);
  const std::vector<JudgedRow> rows{{1, 2, 4, 0, {0, 21}}, {1, 3, 8, 0, {0, 21}}};
  Queries queries(c.tensors[ATTEST_Q], geometry, c.params());
  queries.load(rows);
  queries.find_magnitudes(2, false);
  for (int64_t d = 0; d < 5; ++d) {
    EXPECT_EQ(queries.scaled.row(0)[d], -2.5 * c.tensors[ATTEST_Q].at({1, 2, 4, d}));
    EXPECT_EQ(queries.scaled.row(1)[d], -2.5 * c.tensors[ATTEST_Q].at({1, 3, 8, d}));
    EXPECT_EQ(queries.magnitudes.row(1)[d], std::fabs(queries.scaled.row(1)[d]));
  }
  queries.find_magnitudes(2, true);
  EXPECT_EQ(queries.magnitudes.row(1)[3], std::pow(queries.scaled.row(1)[3], 2));
}

TEST(Operands, KeysAreTransposedAndPaddedWithZeros) {
  const Case c = grouped_heads();
  const Geometry geometry(c.problem, c.tensors);
  const BlockShape shape(c.params());
  const KeyOrder order(kTask.keys, {});
  Keys keys(c.tensors[ATTEST_K], geometry, shape);
  std::fill(keys.transposed.numbers().begin(), keys.transposed.numbers().end(), std::nan(""));
  keys.load(kTask, KeyBlock(order, 0, shape.keys));
  keys.find_magnitudes(true, 18);
  for (int64_t d = 0; d < 5; ++d) {
    for (int64_t key = 0; key < 18; ++key) {
      const double k = c.tensors[ATTEST_K].at({1, 1, 2 + key, d});
      ASSERT_EQ(keys.transposed.row(d)[key], k) << key;
      ASSERT_EQ(keys.magnitudes.row(d)[key], k * k) << key;
    }
    for (int64_t key = 18; key < 32; ++key) ASSERT_EQ(keys.transposed.row(d)[key], 0) << key;
  }
}

TEST(Operands, NonFiniteValuesAreListedAndTakenOut) {
  const Case c = grouped_heads();
  const Geometry geometry(c.problem, c.tensors);
  const BlockShape shape(c.params());
  const KeyOrder order(kTask.keys, {});
  const int64_t row = (1 * 2 + 1) * 21 + 2 + 7;  // key 7 of the task
  store(c.tensors[ATTEST_V].data, ATTEST_F32, row * 3 + 1,
        -std::numeric_limits<double>::infinity());
  store(c.tensors[ATTEST_V].data, ATTEST_F32, row * 3 + 2, -50);
  Values values(c.tensors[ATTEST_V], geometry, shape);
  values.load(kTask, KeyBlock(order, 0, shape.keys));
  ASSERT_EQ(values.non_finite.size(), 1u);
  EXPECT_EQ(values.non_finite[0].key, 7);
  EXPECT_EQ(values.non_finite[0].channel, 1);
  EXPECT_EQ(values.non_finite[0].value, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(values.values.row(7)[1], 0);
  EXPECT_EQ(values.squares.row(7)[1], 0);
  EXPECT_EQ(values.values.row(7)[2], -50);
  EXPECT_EQ(values.squares.row(7)[2], 2500);
  EXPECT_EQ(values.largest, 50);
  EXPECT_EQ(values.values.row(17)[0], c.tensors[ATTEST_V].at({1, 1, 19, 0}));
  values.load(kTask, KeyBlock(order, 8, shape.keys));
  EXPECT_TRUE(values.non_finite.empty());
  EXPECT_EQ(values.largest, 50) << "that of all blocks";
}

}  // namespace
}  // namespace attest::core::passes
