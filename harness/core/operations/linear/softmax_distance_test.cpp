// How far linear attention is from softmax attention, where that is known.
#include "core/operations/linear/softmax_distance.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "core/operations/linear/testing/linear_cases.hpp"

namespace attest::core {
namespace {

// One query and some keys of one channel, with values of one channel.
std::optional<double> distance(float query, const std::vector<float>& keys,
                               const std::vector<float>& values,
                               const std::vector<char>& mask = {}) {
  testing::LinearCase one({.seq_len_q = 1, .seq_len_kv = int64_t(keys.size()), .head_dim = 1},
                          ATTEST_F32, {"random", 1}, !mask.empty());
  const auto write = [&](int32_t role, const std::vector<float>& numbers) {
    for (size_t i = 0; i < numbers.size(); ++i)
      store(one.tensors[size_t(role)].data, ATTEST_F32, int64_t(i), double(numbers[i]));
  };
  write(ATTEST_Q, {query});
  write(ATTEST_K, keys);
  write(ATTEST_V, values);
  if (!mask.empty()) {
    std::ranges::copy(mask, one.memory[ATTEST_MASK].begin());
    one.memory[ATTEST_QUERY_MASK][0] = 1;
  }
  return one.problem.operation->distance_from_softmax(one.problem, one.tensors);
}

TEST(SoftmaxDistance, IsThatOfTheTrueOutputs) {
  // Scores 0 and ln 3: softmax weighs 1/4 and 3/4. phi(q) cancels; phi(k) is 1 and 1 + ln 3.
  const double softmax = 0.75, linear = (1 + std::log(3)) / (2 + std::log(3));
  const double found = distance(1, {0, float(std::log(3))}, {0, 1}).value();
  EXPECT_NEAR(found, std::fabs(linear - softmax) / softmax, 1e-5);
}

TEST(SoftmaxDistance, IsZeroWhereBothAverage) {
  EXPECT_NEAR(distance(1, {2, 2, 2}, {1, 5, 3}).value(), 0, 1e-5);
  EXPECT_NEAR(distance(30, {-80, 90}, {4, 4}).value(), 0, 1e-5) << "scores far apart";
}

TEST(SoftmaxDistance, LeavesOutMaskedKeys) {
  EXPECT_NEAR(distance(1, {2, 2, 9}, {1, 5, 1000}, {1, 1, 0}).value(), 0, 1e-5);
  EXPECT_FALSE(distance(1, {2, 2, 9}, {1, 5, 1000}, {0, 0, 0})) << "no key is left";
}

TEST(SoftmaxDistance, LeavesOutMaskedQueries) {
  testing::LinearCase two({.seq_len_q = 2, .seq_len_kv = 3, .head_dim = 4}, ATTEST_F32,
                          {"random", 1}, true);
  two.memory[ATTEST_QUERY_MASK] = {1, 0};
  std::ranges::fill(two.memory[ATTEST_MASK], 1);
  const auto found = [&] {
    return two.problem.operation->distance_from_softmax(two.problem, two.tensors);
  };
  const std::optional<double> before = found();
  ASSERT_TRUE(before);
  store(two.tensors[ATTEST_Q].data, ATTEST_F32, 4, 50);  // of the masked query
  EXPECT_EQ(found(), before);
  two.memory[ATTEST_QUERY_MASK] = {0, 0};
  EXPECT_FALSE(found());
}

TEST(SoftmaxDistance, OfOutputsThatAreNotFiniteThereIsNone) {
  EXPECT_FALSE(distance(1, {2, 2}, {1, NAN}));
}

}  // namespace
}  // namespace attest::core
