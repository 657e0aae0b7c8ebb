// Which keys count by top_k, by either rule for ties, and which of them rounding may swap.
#include "core/operations/softmax_backward/row_edge.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "core/operations/softmax/problem/geometry.hpp"

namespace attest::core::backward {
namespace {

using Logits = std::vector<double>;

attest_softmax_params of(int64_t top_k, int32_t ties = ATTEST_TOP_K_FIRST) {
  attest_softmax_params params{};
  params.top_k = top_k;
  params.top_k_ties = ties;
  return params;
}

std::vector<int64_t> left(const attest_softmax_params& params, Logits logits) {
  hide_below_edge(params, logits);
  std::vector<int64_t> keys;
  for (size_t j = 0; j < logits.size(); ++j)
    if (logits[j] != kHidden) keys.push_back(int64_t(j));
  return keys;
}

TEST(RowEdge, LeavesTheLargestAndTheFirstOfEqualOnes) {
  const Logits logits{3, kHidden, 1, 5, 3, 3, 0};
  EXPECT_EQ(left(of(1), logits), (std::vector<int64_t>{3}));
  EXPECT_EQ(left(of(3), logits), (std::vector<int64_t>{0, 3, 4}));
  EXPECT_EQ(left(of(3, ATTEST_TOP_K_ALL_TIES), logits), (std::vector<int64_t>{0, 3, 4, 5}));
  EXPECT_EQ(left(of(5), logits), (std::vector<int64_t>{0, 2, 3, 4, 5}));
  for (const int64_t all : {6, 7, 0})
    EXPECT_EQ(left(of(all), logits), (std::vector<int64_t>{0, 2, 3, 4, 5, 6}));
}

TEST(RowEdge, CutsNoRowWithNan) {
  const Logits logits{3, std::numeric_limits<double>::quiet_NaN(), 1};
  EXPECT_FALSE(find_edge(of(1), logits).cuts());
}

// Of keys with deviations of 0.1 those within 6 sqrt(2) of them are near.
TEST(RowEdge, KeysNearItMaySwap) {
  const Logits logits{9, 5.8, 5, 4.2, 4.1}, variances(5, 0.01);
  const RowEdge edge(of(3), logits, variances, false);
  const std::vector<bool> near{false, true, true, true, false};
  for (size_t j = 0; j < logits.size(); ++j)
    EXPECT_EQ(edge.is_near(logits[j], variances[j]), near[j]) << j;
  EXPECT_EQ(edge.share(true), 0.5);  // one of two goes
  EXPECT_EQ(edge.share(false), 1);
  EXPECT_EQ(edge.swaps(), 2);
  EXPECT_EQ(RowEdge(of(4), logits, variances, false).swaps(), 2);
  // Nothing near on the other side, so nothing swaps.
  EXPECT_EQ(RowEdge(of(1), logits, variances, false).swaps(), 0);
  EXPECT_EQ(RowEdge(of(5), logits, variances, false).swaps(), 0);
}

TEST(RowEdge, TiesSwapUnlessTheyHold) {
  const Logits logits{9, 5, 5, 5, 0}, variances(5, 0.01);
  EXPECT_EQ(RowEdge(of(2), logits, variances, false).swaps(), 2);
  const RowEdge held(of(2), logits, variances, true);
  EXPECT_EQ(held.swaps(), 0);
  EXPECT_FALSE(held.is_near(5, 0.01));
  // Where another logit is near, the ties are, too.
  EXPECT_EQ(RowEdge(of(2), Logits{9, 5, 5, 4.9, 0}, variances, true).swaps(), 2);
  // All ties count: two of three may go without another one coming, and what is near may come.
  const RowEdge all(of(2, ATTEST_TOP_K_ALL_TIES), Logits{9, 5, 5, 5, 4.9}, variances, false);
  EXPECT_EQ(all.share(true), 1);
  EXPECT_EQ(all.share(false), 1);
  EXPECT_EQ(all.swaps(), 4);
}

}  // namespace
}  // namespace attest::core::backward
