// The first pass against plain loops; what the second one writes is in golden_test.cpp.
#include "core/operations/softmax/golden/passes/key_passes.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "core/operations/softmax/testing/make_case.hpp"

namespace attest::core {
namespace {

using testing::Case;
using testing::make_case;

// More keys than a block has, more rows than a tile; a sink; rows that see nothing.
Case causal_with_sinks() {
  return make_case("",
                   [](attest_softmax_params& p) {
                     p.num_heads = 1;
                     p.seq_len_q = 620;
                     p.seq_len_kv = 600;
                     p.window_right = 0;
                     p.diagonal = 1;
                   },
                   {ATTEST_SINKS});
}

TEST(KeyPasses, ScoreSaysWhatTheScoresOfARowAreLike) {
  const Case c = causal_with_sinks();
  const Geometry geometry(c.problem, c.tensors);
  std::vector<JudgedRow> rows;
  for (int64_t i = 610; i > 0; i -= 13) rows.push_back({0, 0, i, i, geometry.keys(0, i)});
  rows.push_back({0, 0, 3, 3, geometry.keys(0, 3)});
  std::vector<RowScores> scores(rows.size());
  const RowTask task{.b = 0, .kv_head = 0, .begin = 0, .end = rows.size(), .keys = {0, 600}};
  KeyPasses(c.problem, c.tensors, geometry).score(task, rows, {}, scores);
  const double sink = c.tensors[ATTEST_SINKS].at({0});
  for (size_t r = 0; r < rows.size(); ++r) {
    double least = INFINITY, largest = -INFINITY, sum = std::exp(sink);
    for (int64_t j = rows[r].keys.begin; j < rows[r].keys.end; ++j) {
      double score = 0;
      for (int64_t d = 0; d < 8; ++d)
        score += double(c.params().softmax_scale) * c.tensors[ATTEST_Q].at({0, 0, rows[r].i, d}) *
                 c.tensors[ATTEST_K].at({0, 0, j, d});
      least = std::min(least, score);
      largest = std::max(largest, score);
      sum += std::exp(score);
    }
    ASSERT_EQ(scores[r].keys, rows[r].keys.size());
    if (scores[r].keys == 0) {
      EXPECT_EQ(scores[r].lse, -INFINITY);
      continue;
    }
    ASSERT_NEAR(scores[r].least, least, 1e-13);
    ASSERT_NEAR(scores[r].largest, largest, 1e-13);
    ASSERT_NEAR(scores[r].lse, std::log(sum), 1e-13);
    ASSERT_EQ(scores[r].sink, sink);
  }
  EXPECT_EQ(scores.back().keys, 0);
}

// Sixteen threads fit into the golden's 27 MiB.
TEST(KeyPasses, HoldLittleMemory) {
  attest_softmax_params params{};
  params.head_dim = params.head_dim_v = 64;
  EXPECT_GT(KeyPasses::bytes(params), 1.5e6);
  EXPECT_LT(KeyPasses::bytes(params), 1.76e6);
}

}  // namespace
}  // namespace attest::core
