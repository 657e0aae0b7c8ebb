// Honest kernels on random problems are never failed (a small part of scripts/false_failures.sh), a
// liar is; and what is random about the problems.
#include "testing/honesty/false_failures.hpp"

#include <gtest/gtest.h>

#include <algorithm>
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
  uint64_t features = 0, of_gradients = 0;
  int small = 0, large = 0, causal_f16 = 0;
  std::set<std::string> operations, dtypes;
  for (uint64_t index = 0; index < 4000; ++index) {
    const Problem problem = random_problem(1, index);
    features |= problem.features;
    if (problem.operation->name() == "softmax_backward") of_gradients |= problem.features;
    operations.emplace(problem.operation->name());
    dtypes.emplace(dtype_name(problem.dtype));
    EXPECT_LE(problem.operation->flops(problem), 2e9) << print_problem(problem);
    const int64_t keys = problem.tensor[ATTEST_V].dim[2];
    small += keys < 20;
    large += keys > 2000;
    causal_f16 += problem.dtype == ATTEST_F16 && (problem.features & ATTEST_WITH_CAUSAL);
  }
  EXPECT_EQ(operations,
            (std::set<std::string>{"deformable", "linear", "softmax", "softmax_backward"}));
  EXPECT_EQ(dtypes, (std::set<std::string>{"bf16", "f16", "f32", "f64"}));
  EXPECT_EQ(print_features(features),
            "GQA+HEAD_DIM_V+CAUSAL+WINDOW+DIAGONAL+SOFTCAP+BIAS+MASK+LSE+VARLEN+SEQ_LENS+PAGES+"
            "ORDER+PATCHES+GRID+REL_BIAS+STRIDES+"
            "MIXED_DTYPE+UNALIGNED+ALIBI+SINKS+BLOCK_MASK+GLOBAL+TOP_K+DESCALE+OWN(0)+OWN(1)+"
            "OWN(2)");
  EXPECT_TRUE(of_gradients & ATTEST_WITH_TOP_K);
  EXPECT_TRUE(of_gradients & ATTEST_WITH_DESCALE);
  EXPECT_GT(small, 100);
  EXPECT_GT(large, 100);
  EXPECT_GT(causal_f16, 20);
}

// Judges the honest kernels of a plugin on random problems: more than `least` outputs, of which
// none fails.
void expect_no_false_failures(const TrialOptions& options, size_t least,
                              const std::string& plugin = "honest") {
  const std::vector<FillVerdict> verdicts =
      judge_random_problems(ATTEST_BINARY_DIR "/tests/plugins/" + plugin + ".so", options, 0, 1);
  EXPECT_GT(verdicts.size(), least);
  EXPECT_EQ(count_false_failures(verdicts), 0);
  if (count_false_failures(verdicts) > 0) print_false_failures(verdicts, stderr);
}

TEST(FalseFailures, NoneAmongTheFirst) {
  TrialOptions options{.seed = 2, .problems = 50, .at_the_top = 0};
  options.limits.most_flops = 5e6;
  expect_no_false_failures(options, 500u);
}

TEST(FalseFailures, NoneWithTopK) {
  TrialOptions options{.seed = 4, .problems = 60, .at_the_top = 0, .each = 3};
  options.limits = {.most_flops = 2e6, .operation = "softmax", .top_k_percent = 100};
  expect_no_false_failures(options, 300u);
}

TEST(FalseFailures, NoneIn8Bits) {
  TrialOptions options{.seed = 5, .problems = 60, .at_the_top = 0, .each = 3};
  options.limits = {.most_flops = 2e6, .operation = "softmax", .f8_percent = 100};
  expect_no_false_failures(options, 300u);
}

// Of kernels that multiply Q and K as they are stored, or round them from f8e4m3 to f8e5m2.
TEST(FalseFailures, NoneOfOperandsIn8Bits) {
  TrialOptions options{
      .seed = 6, .problems = 30, .at_the_top = 0, .implementations = "qk_e", .each = 3};
  options.limits = {.most_flops = 1e6, .operation = "softmax", .f8_percent = 100};
  expect_no_false_failures(options, 100u, "arithmetics");
}

TEST(FalseFailures, NoneOfDeformableAttention) {
  TrialOptions options{.seed = 2, .problems = 12, .at_the_top = 0};
  options.limits.most_flops = 2e6;
  options.limits.operation = "deformable";
  expect_no_false_failures(options, 500u);
}

TEST(FalseFailures, NoneOfGradients) {
  TrialOptions options{.seed = 2, .problems = 12, .at_the_top = 0, .each = 4};
  options.limits = {.most_flops = 2e6, .operation = "softmax_backward"};
  expect_no_false_failures(options, 150u);
}

TEST(FalseFailures, NoneOfGradientsWithTopK) {
  TrialOptions options{.seed = 8, .problems = 8, .at_the_top = 0, .each = 4};
  options.limits = {.most_flops = 2e6, .operation = "softmax_backward", .top_k_percent = 100};
  expect_no_false_failures(options, 100u);
}

TEST(FalseFailures, NoneOfGradientsIn8Bits) {
  TrialOptions options{.seed = 7, .problems = 8, .at_the_top = 0, .each = 4};
  options.limits = {
      .most_flops = 2e6, .operation = "softmax_backward", .top_k_percent = 30, .f8_percent = 100};
  expect_no_false_failures(options, 100u);
}

// Of every arithmetic that can be declared, alone and in pairs, some on each problem.
TEST(FalseFailures, NoneOfWhatCanBeDeclared) {
  TrialOptions options{.seed = 3, .problems = 40, .at_the_top = 0, .each = 8};
  options.limits.most_flops = 3e6;
  expect_no_false_failures(options, 500u, "arithmetics");
}

void expect_none_failed(const char* spec, bool relations) {
  const TrialOptions options{.problems = 1, .at_the_top = 0, .spec = spec, .relations = relations};
  const std::vector<FillVerdict> verdicts =
      judge_random_problems(ATTEST_BINARY_DIR "/tests/plugins/honest.so", options, 0, 1);
  EXPECT_GT(verdicts.size(), 10u);
  EXPECT_EQ(exit_code(verdicts), 0) << spec;
  if (count_false_failures(verdicts) > 0) print_false_failures(verdicts, stderr);
}

// Each of these failed an honest kernel once, for an error that sigma did not know of.
TEST(FalseFailures, NoneWhereThereWereSome) {
  const char* const specs[] = {
      // f16 scores of keys that have one dot product and different distances
      "softmax dtype=bf16 seq_len_q=64 seq_len_kv=2975 head_dim=40 softcap=1.2582133 lse "
      "alibi_slopes",
      "softmax dtype=f32 seq_len_q=1 seq_len_kv=10337 head_dim=19 head_dim_v=1 v.strides=[0,0,4,0] "
      "lse seq_lens_q alibi_slopes",
      // f16 scores that their distances bring to 0 for the key that has nearly all weight, and not
      // for the next one
      "softmax dtype=f32 batch=4 num_heads=3 num_kv_heads=1 seq_len_q=212 seq_len_kv=20 "
      "head_dim=24 softmax_scale=0.49455884 "
      "window_right=0 alibi_slopes",
      // split keys merged by an lse that is rounded
      "softmax dtype=f32 batch=2 num_heads=2 seq_len_q=480 head_dim=16 grid_height=8 grid_width=60 "
      "window_height=1 "
      "window_width=5 "
      "lse rel_bias",
      "softmax dtype=f32 batch=3 seq_len_q=168 head_dim=40 grid_height=42 grid_width=4 "
      "window_height=7 window_width=2 shift_y=3 "
      "shift_bias=-100 rel_bias",
      // equal keys on both sides of a tile's edge
      "softmax dtype=bf16 batch=2 num_heads=3 seq_len_q=308 head_dim=64 head_dim_v=128 "
      "grid_height=28 grid_width=11 "
      "window_height=7 window_width=1 lse rel_bias unaligned",
      // queries scaled by 0.249, then rounded to bf16 again
      "softmax dtype=bf16 batch=3 num_heads=3 seq_len_q=180 seq_len_kv=92 head_dim=64 "
      "softmax_scale=0.24896638 k=f32 lse",
      // bf16 queries, keys that have one dot product and different biases
      "softmax dtype=f16 batch=4 num_heads=2 seq_len_q=440 head_dim=113 head_dim_v=128 "
      "grid_height=20 grid_width=22 "
      "window_height=5 window_width=2 lse bias=[4,1,1,440] rel_bias unaligned",
      // f16 probabilities of equal keys, between which REL_BIAS puts others
      "softmax dtype=f32 seq_len_q=700 head_dim=1 softmax_scale=0.08489782 softcap=0.6936495 "
      "grid_height=25 grid_width=28 window_height=25 window_width=28 v=bf16 rel_bias=f16",
      // top_k among levels that a shift bias brings to one logit
      "softmax dtype=f16 seq_len_q=40 head_dim=1 head_dim_v=6 softmax_scale=0.04832615 "
      "grid_height=5 grid_width=8 window_height=5 window_width=8 shift_y=1 shift_x=5 shift_bias=-2 "
      "top_k=17 q=f32 lse mask=[1,1,40,1] rel_bias",
      // stored values times factors beyond f16
      "softmax dtype=bf16 seq_len_q=20 head_dim=1 head_dim_v=19 grid_height=4 grid_width=5 "
      "window_height=4 window_width=5 shift_x=2 shift_bias=-100 descale_block_kv=7 q=f8e5m2 "
      "k=f8e5m2 v=f8e5m2 lse mask=[1,1,1,20] rel_bias k_descale v_descale",
      // bf16 keys of one channel, the same in a hundred sequences
      "softmax dtype=f32 batch=100 seq_len_q=2 seq_len_kv=507 head_dim=1 lse",
      // f16 scores beyond f16, which an order puts beside biases that bring them back
      "softmax dtype=f64 seq_len_q=35 head_dim=24 window_left=188 window_right=1009 bias order "
      "alibi_slopes",
      // the same beside a sink that leads
      "softmax dtype=bf16 seq_len_q=279 head_dim=45 lse bias mask=[1,1,1,279] order sinks",
      // f16 scores that a bias makes equal, where ALiBi gives one key nearly all of the weight
      "softmax dtype=bf16 num_heads=6 num_kv_heads=3 seq_len_q=3 seq_len_kv=162 head_dim=43 "
      "softmax_scale=0.07751472 page_size=16 lse bias=[1,1,3,1] mask page_table alibi_slopes",
      // a row that sees none but an infinite key, beside a sink
      "softmax dtype=f16 num_heads=2 seq_len_q=369 seq_len_kv=9 head_dim=10 window_right=0 "
      "diagonal=1 lse bias=[1,1,369,1] mask=[1,2,1,9] sinks",
      // an infinite query whose row has one key
      "softmax num_heads=2 seq_len_q=7 seq_len_kv=102 head_dim=49 window_left=0 window_right=0 "
      "block_q=128 block_kv=128 lse sinks block_mask"};
  for (const char* spec : specs) expect_none_failed(spec, false);
}

// The same where it was a relation between runs that failed.
TEST(FalseFailures, NoneWhereRelationsHadSome) {
  const char* const specs[] = {
      // gradients where a mask lets a key appear in a row whose lse was -inf
      "softmax_backward dtype=f16 seq_len_q=1 seq_len_kv=20 head_dim=24 head_dim_v=12 "
      "window_right=0 bias=[1,1,1,1] mask",
      // the same where O and LSE are those of other keys, and p of 2^-126 beside them
      "softmax_backward dtype=f32 seq_len_q=1 seq_len_kv=415 head_dim=1 diagonal=1 "
      "dk.strides=[0,0,6,0]",
      // p of 2^-126 that operands in bf16 make smaller
      "softmax_backward dtype=f32 seq_len_q=1 seq_len_kv=277 head_dim=1 block_q=76 block_kv=16 "
      "bias sinks block_mask cu_seqlens_q cu_seqlens_kv dsinks"};
  for (const char* spec : specs) expect_none_failed(spec, true);
}

// The same of kernels that declare the arithmetic in question, in every order of their sums.
TEST(FalseFailures, NoneWhereDeclarationsHadSome) {
  struct Failed {
    const char *implementation, *spec;
    bool relations = false;  // whether it was a relation between runs that failed
  };
  const Failed once[] = {
      // equal queries of one channel, and p of two clusters in a bf16 sum
      {"score_tf32__acc_bf16__whole",
       "softmax dtype=f16 seq_len_q=72 head_dim=1 head_dim_v=4 grid_height=8 grid_width=9 "
       "window_height=8 window_width=9 shift_y=3 shift_x=8 shift_bias=-2 q.strides=[0,0,4,0] "
       "k.strides=[0,0,5,0] v.strides=[0,0,5,1] lse rel_bias"},
      // 8-bit operands of QK: scores that err by more than sigma can say linearly
      {"qk_e4m3__prob_e4m3", "softmax dtype=f32 seq_len_q=1 seq_len_kv=3428 head_dim=1 lse"},
      {"qk_e5m2__pv_f16",
       "softmax dtype=f16 batch=4 seq_len_q=1 seq_len_kv=84 head_dim=39 head_dim_v=48 lse "
       "alibi_slopes"},
      // the same, where a softcap's slope is not the same over all of the error
      {"qk_e4m3__pv_bf16",
       "softmax dtype=bf16 seq_len_q=124 seq_len_kv=421 head_dim=32 softcap=0.8546051 "
       "window_right=0 lse"},
      // the same: 0 times an infinite key
      {"qk_e4m3__prob_f16", "softmax dtype=f32 seq_len_q=1053 seq_len_kv=48 head_dim=151 lse mask"},
      // a normaliser that sums probabilities before they are rounded to the operand of PV
      {"pv_bf16__sums_rounded",
       "softmax dtype=f32 num_heads=2 seq_len_q=1150 seq_len_kv=71 head_dim=80 "
       "softmax_scale=0.2660663 window_left=4 window_right=17 diagonal=1 q.strides=[0,101201,88,1] "
       "k=bf16 k.order=0213 v=bf16 v.strides=[0,5965,84,1] o=f64 o.order=0213"},
      // an exp that leans, by which many rises of the maximum rescale
      {"qk_tf32__exp_leans__tiles",
       "softmax dtype=f32 seq_len_q=562 seq_len_kv=1549 head_dim=16 lse seq_lens_q"},
      // the same, which merges parts of the keys
      {"pv_e4m3__exp_leans__splits",
       "softmax dtype=bf16 seq_len_q=114 seq_len_kv=1078 head_dim=10 head_dim_v=24 "
       "softmax_scale=0.1291822 diagonal=1 lse unaligned"},
      // scores that a softcap bends to one number, which bf16 rounds to one side
      {"score_bf16__exp_13__tall_splits",
       "softmax dtype=f32 seq_len_q=1 seq_len_kv=6122 head_dim=5 head_dim_v=1 softcap=18.082216 "
       "diagonal_offset=16 o=f64 lse mask=[1,1,1,1] unaligned"},
      // probabilities in 8 bits that are all of one subnormal step
      {"prob_e4m3__first__reversed",
       "softmax dtype=f32 seq_len_q=1 seq_len_kv=762 head_dim=1 page_size=8 o=f64 lse page_table"},
      // f16 sums of thousands of values of "rising"
      {"acc_f16",
       "softmax dtype=bf16 seq_len_q=1 seq_len_kv=3741 head_dim=2 head_dim_v=1 "
       "softmax_scale=0.04100918 window_left=2 diagonal_offset=-8"},
      // an f16 normaliser of weights that a softcap makes nearly equal
      {"acc_f16__first",
       "softmax dtype=f16 seq_len_q=1 seq_len_kv=450 head_dim=40 head_dim_v=72 softcap=0.5835202 "
       "diagonal=1 bias=[1,1,1,1] mask=[1,1,1,1]"},
      // 8-bit operands of QK for keys that weigh next to nothing beside a sink
      {"qk_e4m3__first__whole",
       "softmax dtype=f16 seq_len_q=648 head_dim=1 softmax_scale=0.041465346 grid_height=27 "
       "grid_width=24 window_height=27 window_width=24 shift_y=16 shift_x=5 shift_bias=-100 lse "
       "mask rel_bias sinks"},
      // probabilities that a sink makes small enough to be flushed, in one part of the keys alone
      {"flushes__exp_13__splits",
       "softmax dtype=f32 seq_len_q=98 head_dim=8 head_dim_v=16 diagonal=1 cu_seqlens_q "
       "cu_seqlens_kv order alibi_slopes sinks"},
      // the same, and what is lost beside the maximum of all keys cancels
      {"acc_tf32__flushes__splits",
       "softmax dtype=f16 seq_len_q=260 head_dim=64 lse cu_seqlens_q cu_seqlens_kv order sinks"},
      // the same where the maximum rises late
      {"acc_tf32__flushes__reversed",
       "softmax dtype=f16 seq_len_q=260 head_dim=64 lse cu_seqlens_q cu_seqlens_kv order"},
      // probabilities in 8 bits that differ by their distances alone, beside a sink
      {"score_f16__sums_rounded__tall",
       "softmax dtype=bf16 seq_len_q=1 seq_len_kv=2180 head_dim=1 lse bias mask alibi_slopes sinks "
       "unaligned"},
      {"prob_e5m2__exp_13__tall_splits",
       "softmax dtype=f32 seq_len_q=1 seq_len_kv=4492 head_dim=1 softmax_scale=0.1440992 lse "
       "bias=[1,1,1,1] alibi_slopes sinks unaligned"},
      // small f16 probabilities that differ by their distances alone, beside a mark
      {"score_f16__cut__whole_reversed",
       "softmax dtype=f32 num_heads=4 num_kv_heads=2 seq_len_q=215 head_dim=38 patch_size=16 lse "
       "alibi_slopes sinks"},
      // bf16 features of two keys, whose errors all outputs share
      {"linear__qk_bf16__tall_splits", "linear dtype=f32 seq_len_q=624 seq_len_kv=3 head_dim=14"},
      // f16 sums of a phi of one key that is a few of its smallest steps
      {"linear__acc_f16__splits", "linear dtype=f16 seq_len_q=8 seq_len_kv=1 head_dim=56 mask"},
      // values that e4m3 clips, of a mark that is not the one a row asks for
      {"pv_e4m3__exp_8__whole_reversed",
       "softmax dtype=f64 batch=4 num_heads=2 seq_len_q=1 seq_len_kv=61 head_dim=72 "
       "window_right=0 diagonal_offset=16 lse"},
      // probabilities of a few subnormal steps, cut to f16, of a mark without a value
      {"prob_f16__cut__whole",
       "softmax dtype=f16 seq_len_q=8 seq_len_kv=2100 head_dim=16 softcap=15 lse"},
      // bf16 keys of one channel, whose errors the lse of all rows share
      {"qk_bf16__whole",
       "softmax dtype=f32 seq_len_q=375 seq_len_kv=600 head_dim=1 softmax_scale=0.2 lse"},
      // 8-bit operands of QK behind a softcap, of equal keys
      {"qk_e5m2__pv_tf32__whole_reversed",
       "softmax dtype=f32 num_heads=2 seq_len_q=480 head_dim=8 softcap=0.7092181 grid_height=24 "
       "grid_width=20 window_height=8 window_width=5 shift_y=6 shift_x=4 shift_bias=-2 lse "
       "mask=[1,2,480,1] rel_bias unaligned"},
      // nearly equal p in 8 bits that a normaliser sums rounded, or that are exp(x - lse)
      {"sums_rounded__exp_13__whole_reversed",
       "softmax seq_len_q=500 head_dim=14 softcap=2.483637 lse order"},
      {"prob_e4m3__by_lse__tiles",
       "softmax dtype=f16 seq_len_q=107 head_dim=79 softcap=0.5632553 window_left=2891 diagonal=1 "
       "diagonal_offset=2 lse order"},
      // f32 scores that a bias leaves few numbers
      {"qk_3xtf32__prob_f16__quarters",
       "softmax dtype=f64 num_heads=2 seq_len_q=232 seq_len_kv=1456 head_dim=16 softcap=1.1008368 "
       "window_left=116 window_right=282 lse bias=[1,2,232,1] cu_seqlens_kv alibi_slopes"},
      // a tf32 sum that stops beside a key without a value
      {"qk_3xtf32__acc_tf32__whole_reversed",
       "softmax seq_len_q=80 seq_len_kv=7859 head_dim=8 softmax_scale=0.40732324 diagonal=1 lse "
       "cu_seqlens_q"},
      // 8-bit operands of QK: one score of a large value, one that takes the weight, the heaviest
      // one
      {"qk_e5m2__acc_f16__splits",
       "softmax dtype=bf16 num_heads=3 num_kv_heads=1 seq_len_q=332 head_dim=8 window_right=0 "
       "global_tokens=18 q.order=0213 o.order=0213 lse order unaligned"},
      {"qk_e5m2__prob_f16__splits",
       "softmax dtype=bf16 seq_len_q=221 head_dim=5 head_dim_v=80 grid_height=13 grid_width=17 "
       "window_height=13 window_width=17 lse mask rel_bias"},
      {"qk_e5m2__pv_e5m2__whole_reversed",
       "softmax dtype=f16 seq_len_q=139 head_dim=8 window_left=2510 window_right=0 "
       "patch_size=381 q.strides=[0,0,10,1] o.strides=[0,0,11,1] lse"},
      // nearly equal p in 8 bits of the few codes of a closed form
      {"score_tf32__prob_e5m2__whole",
       "softmax dtype=bf16 seq_len_q=421 seq_len_kv=601 head_dim=32 head_dim_v=24 "
       "softcap=0.63867706 page_size=8 q.strides=[0,0,36,1] k.strides=[282,0,35,1] "
       "v.strides=[208,0,26,1] o.strides=[0,0,30,1] lse mask=[1,1,1,1] seq_lens_kv page_table"},
      // f16 sums of cells that no row read before other pages were taken
      {"qk_e5m2__acc_f16__whole_reversed",
       "softmax dtype=f32 seq_len_q=1 seq_len_kv=9357 head_dim=1 softmax_scale=0.027329464 "
       "page_size=8 lse seq_lens_kv page_table alibi_slopes",
       true}};
  // f16 sums of values of "rising", which would not hold 16 times as much
  const TrialOptions rising{
      .problems = 1,
      .at_the_top = 0,
      .spec = "softmax dtype=f16 num_heads=8 seq_len_q=1 seq_len_kv=515 head_dim=64 lse",
      .implementations = "qk_f16__acc_f16__tall",
      .fill = "rising"};
  const char* const arithmetics = ATTEST_BINARY_DIR "/tests/plugins/arithmetics.so";
  EXPECT_EQ(exit_code(judge_random_problems(arithmetics, rising, 0, 1)), 0);
  for (const auto& [implementation, spec, relations] : once) {
    const TrialOptions options{.problems = 1,
                               .at_the_top = 0,
                               .spec = spec,
                               .implementations = implementation,
                               .each = 3,
                               .relations = relations};
    const std::vector<FillVerdict> verdicts = judge_random_problems(arithmetics, options, 0, 1);
    EXPECT_EQ(exit_code(verdicts), 0) << implementation << " " << spec;
    if (count_false_failures(verdicts) > 0) print_false_failures(verdicts, stderr);
  }
  // Four float32 sums of 16,400 keys of few weights.
  const TrialOptions quarters{
      .problems = 1,
      .at_the_top = 0,
      .spec = "softmax dtype=f32 seq_len_q=4 seq_len_kv=65600 head_dim=16 lse",
      .implementations = "honest_quarters",
      .fill = "codebook"};
  const char* const honest = ATTEST_BINARY_DIR "/tests/plugins/honest.so";
  EXPECT_EQ(exit_code(judge_random_problems(honest, quarters, 0, 1)), 0);
  // Nearly equal small p in f16 beside a mark, of few codes.
  const TrialOptions codes{
      .problems = 1,
      .at_the_top = 0,
      .spec =
          "softmax dtype=f64 seq_len_q=293 head_dim=64 softmax_scale=0.19981138 "
          "softcap=12.468307 q=f32 o=bf16 lse bias=f16 order alibi_slopes",
      .implementations = "honest_f16_probabilities"};
  EXPECT_EQ(exit_code(judge_random_problems(honest, codes, 0, 1)), 0);
  // A float32 sum of 256 tiles beside one key that has nearly all weight.
  const TrialOptions tiled{.problems = 1,
                           .at_the_top = 0,
                           .spec =
                               "softmax dtype=f32 num_heads=2 seq_len_q=515 seq_len_kv=16411 "
                               "head_dim=32 window_right=0 diagonal=1 alibi_slopes",
                           .implementations = "mutant_none",
                           .fill = "rising"};
  const char* const plugin = ATTEST_BINARY_DIR "/tests/plugins/mutants.so";
  EXPECT_EQ(exit_code(judge_random_problems(plugin, tiled, 0, 1)), 0);
}

// Patches of a smooth picture are nearly equal, and so are their keys and values: heads of ViT-B/8.
TEST(FalseFailures, NoneOnAPicture) {
  const TrialOptions options{.problems = 1,
                             .at_the_top = 0,
                             .spec = "softmax dtype=f32 num_heads=4 seq_len_q=785 head_dim=64",
                             .implementations = "honest_bf16_operands",
                             .inputs = "image:width=224,height=224,patch=8,class_token=1",
                             .fill = "tokens"};
  EXPECT_EQ(
      exit_code(judge_random_problems(ATTEST_BINARY_DIR "/tests/plugins/honest.so", options, 0, 1)),
      0);
}

// One implementation alone is judged as it is after others, whose goldens it shares.
TEST(FalseFailures, TheOrderOfImplementationsDoesNotMatter) {
  TrialOptions options{
      .problems = 1, .at_the_top = 0, .spec = "softmax dtype=f16 seq_len_q=61 head_dim=16 lse"};
  const char* plugin = ATTEST_BINARY_DIR "/tests/plugins/honest.so";
  const std::vector<FillVerdict> all = judge_random_problems(plugin, options, 0, 1);
  options.implementations = "honest_split";
  for (const FillVerdict& alone : judge_random_problems(plugin, options, 0, 1)) {
    const auto among = std::find_if(all.begin(), all.end(), [&](const FillVerdict& v) {
      return v.implementation == alone.implementation && v.fill == alone.fill;
    });
    ASSERT_NE(among, all.end());
    EXPECT_EQ(std::pair(among->max_ratio, among->rms_ratio),
              std::pair(alone.max_ratio, alone.rms_ratio))
        << alone.fill;
  }
}

// What was not tried is neither a pass nor a failure, and a run of that alone says nothing.
TEST(FalseFailures, SkippedIsNeither) {
  const FillVerdict pass{.verdict = "pass"}, fail{.verdict = "fail"}, skipped{.verdict = "skipped"},
      unsupported{.verdict = "unsupported"};
  EXPECT_EQ(exit_code({pass, skipped, unsupported}), 0);
  EXPECT_EQ(exit_code({pass, skipped, fail}), 1);
  EXPECT_EQ(exit_code({skipped, unsupported}), 4);
  EXPECT_EQ(exit_code({}), 4);
  EXPECT_EQ(count_false_failures({skipped, fail, pass}), 1);
}

// Whoever is failed is counted: what "none" is worth.
TEST(FalseFailures, ALiarIsCounted) {
  TrialOptions options{
      .seed = 2, .problems = 12, .at_the_top = 0, .implementations = "liar_probability_bf16"};
  options.limits.most_flops = 5e6;
  EXPECT_GT(count_false_failures(
                judge_random_problems(ATTEST_BINARY_DIR "/tests/plugins/liars.so", options, 0, 1)),
            0);
}

}  // namespace
}  // namespace attest::core::testing
