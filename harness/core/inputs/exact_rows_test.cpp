// The rows that a golden says it judges exactly are those of which it passes values, on each fill
// of problems that are judged whole, by samples and by closed forms.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/inputs/prepared.hpp"
#include "core/problem/spec.hpp"

namespace attest::core {
namespace {

struct Counts {
  size_t exact = 0, others = 0;
};

// Expects that both ways give the same rows; `counts` has all fills. `score`: what scores are
// declared in.
void expect_same(const std::string& spec, const std::string& fill, Counts& counts,
                 DType score = ATTEST_F32) {
  const Problem problem = parse_problem(spec);
  const PreparedInputs inputs(problem, {fill, 5}, nullptr);
  const std::unique_ptr<Golden> golden =
      problem.operation->golden(problem, inputs.fill(), inputs.shared().tensors());
  for (const Role& role : problem.operation->roles()) {
    if (!problem.has(role.index) || !is_output(role)) continue;
    Arithmetic arithmetic{.output = problem.tensor[size_t(role.index)].dtype};
    arithmetic.stage[ATTEST_SOFTMAX_SCORE].dtype = score;
    std::vector<int64_t> known = golden->exact_rows(arithmetic, role.index),
                         passed = golden->Golden::exact_rows(arithmetic, role.index);
    std::ranges::sort(known);
    std::ranges::sort(passed);
    EXPECT_EQ(known, passed) << spec << ", fill " << fill << ", " << role.name;
    counts.exact += known.size();
    counts.others += size_t(row_count(problem.tensor[size_t(role.index)],
                                      problem.tensor[size_t(role.index)].rank - 1)) -
                     known.size();
  }
}

class ExactRows : public ::testing::TestWithParam<const char*> {};

TEST_P(ExactRows, AreThoseOfWhichValuesCome) {
  const std::string spec = GetParam();
  Counts counts;
  for (const std::string& fill : known_fills(parse_problem(spec), false))
    expect_same(spec, fill, counts);
  EXPECT_GT(counts.exact, 0u);
}
INSTANTIATE_TEST_SUITE_P(
    Whole, ExactRows,
    ::testing::Values(
        "softmax dtype=f16 num_heads=2 seq_len_q=61 head_dim=16 lse",
        "softmax dtype=bf16 seq_len_q=61 seq_len_kv=40 head_dim=16 causal=bottom_right lse",
        "softmax batch=4 num_heads=2 seq_len_q=61 head_dim=16 cu_seqlens_q cu_seqlens_kv",
        "softmax dtype=f16 batch=4 seq_len_q=61 head_dim=16 seq_lens_q seq_lens_kv lse",
        "softmax dtype=f16 seq_len_q=61 head_dim=16 q=f8e4m3 k=f8e4m3 v=f8e4m3 q_descale",
        "softmax num_heads=2 seq_len_q=61 head_dim=16 alibi_slopes lse",
        "softmax num_heads=2 seq_len_q=61 head_dim=16 mask=[1,2,61,61]",
        "softmax num_heads=2 seq_len_q=60 head_dim=16 grid_height=6 grid_width=10 window_height=3 "
        "window_width=5 shift_y=1 shift_bias=-100 rel_bias",
        "softmax seq_len_q=61 head_dim=16 patch_size=26 order sinks lse",
        "softmax_backward batch=3 num_heads=4 num_kv_heads=2 seq_len_q=20 head_dim=16 "
        "cu_seqlens_q cu_seqlens_kv",
        "softmax_backward dtype=f16 seq_len_q=20 head_dim=16 sinks dsinks",
        "deformable batch=2 num_heads=3 seq_len_q=20 head_dim_v=16 level_height_0=5 "
        "level_width_0=7"));

// Some biases of "wide" are so low that their rows only have to be an average of values: in f32.
// What holds no logit of such a row leaves nothing of it.
TEST(ExactRowsOfLowBiases, AreThoseOfWhichValuesCome) {
  for (const DType score : {ATTEST_F32, ATTEST_F16}) {
    Counts wide;
    expect_same("softmax num_heads=2 seq_len_q=61 head_dim=16 bias", "wide", wide, score);
    EXPECT_GT(wide.exact, 0u);
    EXPECT_GT(wide.others, 0u);
  }
}

// Where each head has a sample, some rows are not exact. "repeated" has a closed form.
TEST(ExactRowsOfSamples, AreThoseOfWhichValuesCome) {
  Counts wide, random, repeated;
  expect_same("softmax dtype=f16 seq_len_q=1021 seq_len_kv=515 head_dim=64 lse", "wide", wide);
  expect_same("softmax_backward seq_len_q=2039 seq_len_kv=2039 head_dim=16", "random", random);
  expect_same("softmax_backward seq_len_q=2039 seq_len_kv=2039 head_dim=16", "repeated", repeated);
  Counts sampled;
  expect_same("deformable seq_len_q=20000 head_dim_v=8 level_height_0=5 level_width_0=7", "random",
              sampled);
  for (const Counts* of : {&wide, &random, &repeated, &sampled}) EXPECT_GT(of->exact, 0u);
  for (const Counts* of : {&wide, &random, &sampled}) EXPECT_GT(of->others, 0u);
  EXPECT_EQ(repeated.others, 0u);
}

}  // namespace
}  // namespace attest::core
