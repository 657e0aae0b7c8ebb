// The fill "wild": what is NaN or infinite is seen by rows, and by no more of them than has to be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/operations/softmax/fills/wild_ends.hpp"
#include "core/operations/softmax/testing/codebook_trials.hpp"

namespace attest::core::codebook_trials {
namespace {

struct Counts {
  int64_t finite = 0, nan = 0, infinite = 0;
};

Counts count_expected(const Case& c) {
  Counts counts;
  const auto golden = softmax_golden(c.problem, c.tensors);
  const Expectations expected(*golden, {}, ATTEST_O);
  for (const auto& [row, values] : expected.value)
    for (size_t e = 0; e < values.size(); ++e) {
      ++(std::isnan(values[e])   ? counts.nan
         : std::isinf(values[e]) ? counts.infinite
                                 : counts.finite);
      EXPECT_TRUE(!std::isfinite(values[e]) || std::isfinite(expected.sigma.at(row)[e]))
          << row << " " << e;
    }
  return counts;
}

bool has_nan(const Case& c, size_t role, int64_t outer, int64_t head, int64_t row) {
  const std::vector<double> values = c.row(role, outer, head, row);
  return std::any_of(values.begin(), values.end(), [](double x) { return std::isnan(x); });
}

bool is_wild(const Case& c, size_t role, int64_t head, int64_t row) {
  const std::vector<double> values = c.row(role, 0, head, row);
  return !std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); });
}

TEST(WildFill, SomeRowsAreNanSomeInfiniteAndMostFinite) {
  const std::function<void(Params&)> changes[] = {[](Params& p) {
                                                    p.num_heads = 2;
                                                    p.seq_len_q = 61;
                                                    p.head_dim = p.head_dim_v = 32;
                                                  },
                                                  [](Params& p) {
                                                    p.seq_len_q = 61;
                                                    p.head_dim = p.head_dim_v = 32;
                                                    p.window_right = 0;
                                                  },
                                                  [](Params& p) {
                                                    p.num_heads = 2;
                                                    p.seq_len_q = 61;
                                                    p.head_dim = p.head_dim_v = 32;
                                                    p.softcap = 15;
                                                  },
                                                  [](Params& p) {
                                                    p.num_heads = 4;
                                                    p.num_kv_heads = 2;
                                                    p.seq_len_q = 40;
                                                    p.seq_len_kv = 130;
                                                    p.head_dim = p.head_dim_v = 32;
                                                  }};
  for (const auto& change : changes)
    for (const DType dtype : {ATTEST_F32, ATTEST_F16, ATTEST_BF16}) {
      const Counts counts = count_expected(Case(dtype, {"wild", 7}, change, {ATTEST_LSE}));
      EXPECT_GT(counts.nan, 0);
      EXPECT_GT(counts.infinite, 0);
      EXPECT_GT(counts.finite, counts.infinite);
    }
}

// One NaN key would leave nothing to see where every row has it.
TEST(WildFill, NoKeyIsNanWhereAllRowsWouldBe) {
  const Case alone(ATTEST_F32, {"wild", 7}, [](Params& p) {
    p.seq_len_q = 61;
    p.head_dim = 16;
  });
  const Case causal(ATTEST_F32, {"wild", 7}, [](Params& p) {
    p.seq_len_q = 61;
    p.head_dim = 16;
    p.window_right = 0;
  });
  EXPECT_FALSE(has_nan(alone, ATTEST_K, 0, 0, 45));
  EXPECT_TRUE(has_nan(causal, ATTEST_K, 0, 0, 45));
}

// Keys of the last head are infinite in one channel. A query that an operand of 8 bits makes 0
// there would give NaN, where the golden has an infinite score.
TEST(WildFill, QueriesThatMeetInfinitiesAreNotSmall) {
  const Case c(ATTEST_F32, {"wild", 7}, [](Params& p) {
    p.num_heads = 2;
    p.seq_len_q = 997;
    p.head_dim = 16;
  });
  for (int64_t row = 0; row < c.p().seq_len_q; ++row)
    for (const size_t role : {size_t(ATTEST_Q), size_t(ATTEST_K)})
      EXPECT_FALSE(std::fabs(c.row(role, 0, 1, row)[0]) < 0x1p-4) << role << " " << row;
}

void expect_no_key_wild_in_both(const Case& c, int64_t head) {
  for (int64_t j = 0; j < c.p().seq_len_kv; ++j)
    EXPECT_FALSE(is_wild(c, ATTEST_K, head, j) && is_wild(c, ATTEST_V, head, j)) << j;
}

// 0 times infinity is NaN: a key whose score is infinite must not have an infinite value, too.
TEST(WildFill, NoKeyIsWildInBothKAndV) {
  const std::function<void(Params&)> changes[] = {[](Params& p) { p.seq_len_q = 61; },
                                                  [](Params& p) { p.seq_len_q = 257; },
                                                  [](Params& p) {
                                                    p.seq_len_q = 61;
                                                    p.num_heads = 2;
                                                  },
                                                  [](Params& p) {
                                                    p.seq_len_q = 197;
                                                    p.window_right = 0;
                                                  },
                                                  [](Params& p) {
                                                    p.seq_len_q = 300;
                                                    p.window_left = 40;
                                                    p.window_right = 20;
                                                  }};
  for (const auto& change : changes) {
    const Case c(ATTEST_F32, {"wild", 7}, [&](Params& p) {
      p.head_dim = 16;
      change(p);
    });
    expect_no_key_wild_in_both(c, c.p().num_kv_heads - 1);
  }
}

// Where blocks are hidden, several elements move to the first key of the next visible one.
TEST(WildFill, NoKeyIsWildInBothKAndVBehindHiddenBlocks) {
  int64_t infinite = 0;
  for (const uint64_t seed : {1, 2, 3, 4, 5, 6, 7, 8}) {
    const Case c(ATTEST_F32, {"wild", seed},
                 [](Params& p) {
                   p.num_heads = 4;
                   p.seq_len_q = 16;
                   p.seq_len_kv = 515;
                   p.head_dim = 16;
                   p.block_q = p.block_kv = 64;
                 },
                 {ATTEST_BLOCK_MASK});
    SCOPED_TRACE(seed);
    expect_no_key_wild_in_both(c, 3);
    for (int64_t j = 0; j < c.p().seq_len_kv; ++j) infinite += is_wild(c, ATTEST_K, 3, j);
  }
  EXPECT_GT(infinite, 0);
}

std::set<std::string> events_of(const Case& c) {
  const std::vector<bool> all(size_t(row_count(c.problem.tensor[ATTEST_O], 3)), true);
  return softmax_operation().count_events(c.problem, c.tensors, all);
}

// Some key of each row has a finite score: where all are -inf, a softmax means nothing.
TEST(WildFill, RowsOfFewKeysSeeInfinitiesToo) {
  for (const DType dtype : {ATTEST_F32, ATTEST_F16}) {
    const Case c(dtype, {"wild", 7},
                 [](Params& p) {
                   p.seq_len_q = 61;
                   p.head_dim = 16;
                   p.window_left = 4;
                   p.window_right = 2;
                 },
                 {ATTEST_LSE});
    EXPECT_THAT(events_of(c), ::testing::IsSupersetOf(
                                  {"inf/q", "inf/k", "nan/first_tile/score", "nan/last_tile/score",
                                   "inf/first_tile/+score", "inf/first_tile/-score",
                                   "inf/last_tile/+score", "inf/last_tile/-score"}));
    const auto golden = softmax_golden(c.problem, c.tensors);
    for (const auto& [row, lse] : Expectations(*golden, {}, ATTEST_LSE).value)
      EXPECT_GT(std::isnan(lse[0]) ? 0 : lse[0], -INFINITY) << row;
  }
}

// The infinite key stands where a mask leaves a key visible. Rows that end there see none but it.
TEST(WildFill, RowsOfFewVisibleKeysHaveAFiniteScore) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Case c(ATTEST_F32, {"wild", seed},
                 [](Params& p) {
                   p.num_heads = p.num_kv_heads = 2;
                   p.seq_len_q = 61;
                   p.seq_len_kv = 9;
                   p.head_dim = 10;
                   p.window_right = 0;
                   p.diagonal = ATTEST_BOTTOM_RIGHT;
                 },
                 {ATTEST_LSE, ATTEST_SINKS, ATTEST_MASK});
    const Geometry geometry(c.problem, c.tensors);
    const auto sees_a_key = [&](int64_t h, int64_t i) {
      for (int64_t j = 0; j < 9; ++j)
        if (geometry.keys(0, i).contains(j) && geometry.visible(0, h, i, j)) return true;
      return false;
    };
    const auto golden = softmax_golden(c.problem, c.tensors);
    const Expectations expected(*golden, {}, ATTEST_LSE);
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t i = 52; i < 61; ++i) {
        const auto lse = expected.value.find(h * 61 + i);
        if (lse != expected.value.end() && sees_a_key(h, i)) {
          EXPECT_NE(lse->second[0], -INFINITY) << seed << ", head " << h << ", row " << i;
        }
      }
  }
}

// So does each row of few queries, in every round: an infinite query has a row of one key.
TEST(WildFill, RowsOfOneKeyAndFewQueriesAreNanBesideAnInfiniteQuery) {
  int64_t nan = 0;
  for (const char* fill : {"wild", "wild_2", "wild_3", "wild_4", "wild_5", "wild_6", "wild_7"}) {
    const Case c(ATTEST_F32, {fill, 7},
                 [](Params& p) {
                   p.num_heads = 2;
                   p.seq_len_q = 8;
                   p.seq_len_kv = 102;
                   p.head_dim = 16;
                   p.window_left = p.window_right = 0;
                 },
                 {ATTEST_LSE, ATTEST_SINKS});
    const auto golden = softmax_golden(c.problem, c.tensors);
    for (const auto& [row, lse] : Expectations(*golden, {}, ATTEST_LSE).value) {
      EXPECT_NE(lse[0], -INFINITY) << fill << ", " << row;
      nan += fill == std::string("wild_7") && std::isnan(lse[0]);
    }
  }
  EXPECT_EQ(nan, 8);
}

TEST(WildFill, ASoftcapLeavesNanAtTheEndsOfRows) {
  const auto found = [](const std::function<void(Params&)>& change) {
    return events_of(Case(ATTEST_F32, {"wild", 7}, [&](Params& p) {
      p.num_heads = p.num_kv_heads = 3;
      p.seq_len_q = 61;
      p.head_dim = 16;
      p.softcap = 5;
      change(p);
    }));
  };
  const auto both =
      ::testing::IsSupersetOf({"nan/q", "nan/k", "nan/first_tile/score", "nan/last_tile/score",
                               "nan/first_tile/v", "nan/last_tile/v", "inf/last_tile/+v"});
  EXPECT_THAT(found([](Params&) {}), both);
  EXPECT_THAT(found([](Params& p) { p.window_right = 0; }), both);
  EXPECT_THAT(found([](Params& p) {
                p.batch = 3;
                p.num_heads = p.num_kv_heads = 1;
              }),
              both);
  EXPECT_THAT(found([](Params& p) {
                p.num_heads = p.num_kv_heads = 1;
                p.window_left = 9;
                p.window_right = 8;
              }),
              both);
  EXPECT_THAT(found([](Params& p) { p.num_heads = p.num_kv_heads = 2; }),
              ::testing::Contains("nan/last_tile/score"));
}

// The rows at whose ends something is wild are judged where others are not.
TEST(WildFill, SamplesHaveTheRowsOfEnds) {
  const Case c(ATTEST_F32, {"wild", 7}, [](Params& p) {
    p.num_heads = 2;
    p.seq_len_q = 3001;
    p.seq_len_kv = 8195;
    p.head_dim = 16;
  });
  const auto golden = c.problem.operation->golden(c.problem, c.fill, c.tensors);
  ASSERT_NE(golden->method(), "float64, all rows");
  const Expectations expected(*golden, {}, ATTEST_O);
  const std::vector<int64_t> rows = end_rows(c.problem, Geometry(c.problem, c.tensors), 0);
  ASSERT_GE(rows.size(), 6u);
  for (size_t n = 0; n < 6; ++n) EXPECT_EQ(expected.value.count(3001 + rows[n]), 1u) << rows[n];
}

// A sample of rows has all rows whose queries and biases are NaN. The others are swept, and what a
// NaN may reach has no bounds.
TEST(WildFill, IsJudgedOnSamplesOfRows) {
  const Case c(ATTEST_F32, {"wild", 7},
               [](Params& p) {
                 p.num_heads = 2;
                 p.seq_len_q = 2003;
                 p.seq_len_kv = 4099;
                 p.head_dim = 16;
               },
               {{ATTEST_BIAS, {1, 1, 2003, 4099}}});
  const auto golden = c.problem.operation->golden(c.problem, c.fill, c.tensors);
  ASSERT_NE(golden->method(), "float64, all rows");
  const Expectations expected(*golden, {}, ATTEST_O);
  std::set<int64_t> nan_rows;
  for (const auto& [row, values] : expected.value)
    if (std::isnan(values[15])) nan_rows.insert(row - 2003);
  for (const int64_t place : {2003 / 4, 2003 / 3, 2003 * 2 / 3, 2003 * 3 / 4})
    EXPECT_TRUE(nan_rows.count(place)) << place;
  std::vector<double> exact(2 * 2003 * 16);
  const auto all = softmax_golden(c.problem, c.tensors);
  for (const auto& [row, values] : Expectations(*all, {}, ATTEST_O).value)
    std::copy(values.begin(), values.end(), exact.begin() + row * 16);
  golden->expect({}, [&](const Expected& part) {
    if (part.role != ATTEST_O || !part.low) return;
    for (const int64_t row : part.rows)
      for (size_t e = 0; e < 16; ++e) {
        const double value = exact[size_t(row) * 16 + e];
        const bool within = value >= part.low[e] && value <= part.high[e];
        ASSERT_TRUE(std::isnan(part.low[e]) || within) << row << " " << e;
      }
  });
}

}  // namespace
}  // namespace attest::core::codebook_trials
