// Errors that rows and channels of linear attention share count once.
#include "core/operations/linear/shared_errors.hpp"

#include <gtest/gtest.h>

#include "core/operations/linear/linear_arithmetic.hpp"
#include "core/operations/linear/testing/linear_cases.hpp"

namespace attest::core::linear {
namespace {

// 1,000 rows of 8 channels, in a sample of two rows, two channels and three keys.
OutputSample outputs() {
  return {.rows = 1000,
          .channels = 8,
          .queries = {{1, 1}, {1, 1}},
          .feature_share = {0, 0},
          .state_share = {0, 0},
          .values = {{1, -1, 0}, {-2, 2, 0}}};
}

TEST(SharedErrors, ErrorsOfOutputsThemselvesAreIndependent) {
  EXPECT_NEAR(independent_errors(outputs()), 8000, 1e-6);
}

TEST(SharedErrors, ThoseOfKeysAreOneForParallelQueriesAndValues) {
  OutputSample sample = outputs();
  sample.feature_share = {1, 1};
  EXPECT_NEAR(independent_errors(sample), 1, 1e-9);
  sample.queries = {{1, 0}, {0, 1}};
  EXPECT_NEAR(independent_errors(sample), 1000, 1e-6);
  sample.queries = {{1, 1}, {1, 1}};
  sample.values = {{1, -1, 0}, {1, 1, -2}};
  EXPECT_NEAR(independent_errors(sample), 8, 1e-9);
}

// What values have in common is no error: o has it too.
TEST(SharedErrors, ValuesCountLessTheirMean) {
  OutputSample sample = outputs();
  sample.feature_share = {1, 1};
  sample.values = {{101, 99, 100}, {51, 51, 48}};
  EXPECT_NEAR(independent_errors(sample), 8, 1e-9);
}

TEST(SharedErrors, EachChannelHasAStateOfItsOwn) {
  OutputSample sample = outputs();
  sample.state_share = {1, 1};
  EXPECT_NEAR(independent_errors(sample), 8, 0.1);
}

// Half of each variance is shared: r = 1/2 between any two outputs.
TEST(SharedErrors, SharesCountByTheirSquares) {
  OutputSample sample = outputs();
  sample.feature_share = {0.5, 0.5};
  EXPECT_NEAR(independent_errors(sample), 4, 0.01);
}

int64_t independent_rows(int64_t keys, int64_t channels, const char* fill,
                         const LinearArithmetic& arithmetic) {
  const testing::LinearCase c({.seq_len_q = 624, .seq_len_kv = keys, .head_dim = channels},
                              ATTEST_F32, {fill, 1});
  return c.problem.operation->golden(c.problem, {}, c.tensors)
      ->independent_rows(arithmetic, ATTEST_O);
}

// The gate of the root mean square is the usual one from 95 on.
TEST(SharedErrors, FewKeysHaveFewErrors) {
  const LinearArithmetic features{.features = ATTEST_BF16}, output{.output = ATTEST_F16};
  EXPECT_LE(independent_rows(3, 14, "cancelling", features), 2);
  EXPECT_LE(independent_rows(1021, 1, "cancelling", features), 2);
  EXPECT_GE(independent_rows(1021, 128, "random", features), 95);
  EXPECT_GE(independent_rows(3, 14, "random", output), 600);
}

}  // namespace
}  // namespace attest::core::linear
