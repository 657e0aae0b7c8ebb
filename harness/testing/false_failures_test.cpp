// Honest kernels on random problems are never failed (a small part of scripts/false_failures.sh), a liar is; and what is random
// about the problems.
#include "testing/false_failures.hpp"

#include <gtest/gtest.h>

#include <set>

#include "core/problem/spec.hpp"

namespace attest::core::testing {
namespace {

TEST(RandomProblem, IsTheOneThatItsLineSays) {
  for (uint64_t index = 0; index < 400; ++index) {
    const Problem problem = random_problem(7, index);
    const std::string line = print_problem(problem);
    EXPECT_TRUE(parse_problem(line) == problem) << line;
    EXPECT_EQ(print_problem(random_problem(7, index)), line);
  }
}

TEST(RandomProblem, HasEveryFeatureAndSize) {
  uint64_t features = 0;
  int small = 0, large = 0, causal_f16 = 0;
  std::set<std::string> operations, dtypes;
  for (uint64_t index = 0; index < 1000; ++index) {
    const Problem problem = random_problem(1, index);
    features |= problem.features;
    operations.emplace(problem.operation->name()), dtypes.emplace(dtype_name(problem.dtype));
    EXPECT_LE(problem.operation->flops(problem), 2e9) << print_problem(problem);
    const int64_t keys = problem.tensor[ATTEST_K].dim[2];
    small += keys<20, large += keys> 2000, causal_f16 += problem.dtype == ATTEST_F16 && (problem.features & ATTEST_WITH_CAUSAL);
  }
  EXPECT_EQ(operations, (std::set<std::string>{"linear", "softmax"}));
  EXPECT_EQ(dtypes, (std::set<std::string>{"bf16", "f16", "f32", "f64"}));
  EXPECT_EQ(
      print_features(features),
      "GQA+HEAD_DIM_V+CAUSAL+WINDOW+DIAGONAL+SOFTCAP+BIAS+MASK+LSE+VARLEN+SEQ_LENS+PAGES+ORDER+PATCHES+GRID+REL_BIAS+STRIDES+"
      "MIXED_DTYPE+UNALIGNED+ALIBI+OWN(0)");
  EXPECT_GT(small, 100);
  EXPECT_GT(large, 100);
  EXPECT_GT(causal_f16, 20);
}

TEST(FalseFailures, NoneAmongTheFirst) {
  TrialOptions options{.seed = 2, .problems = 50, .at_the_top = 0};
  options.limits.most_flops = 5e6;
  const std::vector<FillVerdict> verdicts = judge_random_problems(ATTEST_BINARY_DIR "/tests/plugins/honest.so", options, 0, 1);
  EXPECT_GT(verdicts.size(), 500u);
  EXPECT_EQ(count_false_failures(verdicts), 0);
  if (count_false_failures(verdicts) > 0) print_false_failures(verdicts, stderr);
}

// Whoever is failed is counted: what "none" is worth.
TEST(FalseFailures, ALiarIsCounted) {
  TrialOptions options{.seed = 2, .problems = 12, .at_the_top = 0, .implementations = "liar_probability_bf16"};
  options.limits.most_flops = 5e6;
  EXPECT_GT(count_false_failures(judge_random_problems(ATTEST_BINARY_DIR "/tests/plugins/liars.so", options, 0, 1)), 0);
}

}  // namespace
}  // namespace attest::core::testing
