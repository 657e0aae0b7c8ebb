// Every term of the sigma of gradients is needed and no larger than needed, as sigma_terms_test.cpp
// has it for softmax.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <numeric>

#include "core/judge/testing/emulated_outputs.hpp"
#include "core/judge/testing/term_trial.hpp"
#include "core/operations/softmax_backward/backward_terms.hpp"
#include "core/operations/softmax_backward/testing/backward_cases.hpp"

namespace attest::core::backward {
namespace {

using testing::BackwardCase, testing::BackwardShape, testing::Edit;

/// Inputs: those of "random" with Q, K, V, dO and the bias changed. No row of dO is 0.
struct Made {
  BackwardShape shape;
  bool is_flat = false;  // Q is so small that all probabilities are nearly equal
  DType dtype = ATTEST_F32;
  Edit q = {}, k = {}, v = {}, d_o = {}, bias = {};
  const char* fill = "cancelling";  // "top_k_close": its V and dO are not moved
};

struct TermCase {
  Term term;
  const char* name;
  const char* honest;  // the kernel that needs the term
  BackwardArithmetic arithmetic;
  int kernel;      // of Operation::emulate
  int32_t output;  // the gradient that has the bug
  Made made;
};
void PrintTo(const TermCase& c, std::ostream* out) { *out << c.name << ": " << c.honest; }

double tiny(int64_t, int64_t, double x) { return 1e-4 * x; }

BackwardCase inputs(const Made& m) {
  BackwardCase c(m.shape, m.dtype, {m.fill, 1});
  if (m.shape.top_k > 0) {
    testing::edit(c, ATTEST_DO, [](int64_t, int64_t, double x) { return x == 0 ? 1 : x; });
    return c;
  }
  const auto change = [&](int32_t role, const Edit& edit) {
    if (edit) testing::edit(c, role, edit);
  };
  change(ATTEST_Q, m.is_flat ? Edit(tiny) : m.q);
  change(ATTEST_K, m.k);
  change(ATTEST_BIAS, m.bias);
  // "cancelling" adds 8 to V and 2 to dO.
  change(ATTEST_V, m.v ? m.v : [](int64_t, int64_t, double x) { return x - 8; });
  change(ATTEST_DO, m.d_o ? m.d_o : [](int64_t, int64_t, double x) { return x - 2; });
  write_forward(c.problem, c.tensors);
  return c;
}

double ones(int64_t, int64_t, double) { return 1; }
double near_one(int64_t, int64_t, double x) { return 1 + 0.1 * (x - 2); }

/// Rows, each of which repeats `count` times.
Edit repeated(int64_t count) {
  return [count, first = std::vector<double>(8)](int64_t i, int64_t c, double x) mutable {
    return i % count == 0 ? first[size_t(c)] = x : first[size_t(c)];
  };
}

std::vector<TermCase> term_cases() {
  using T = Term;
  // Every other key has nearly all of the weight: a bias of `low` for those between. Four queries
  // see a key.
  const auto dominated = [](double low) {
    return Made{
        .shape = {.seq_len_q = 200, .window_left = 3, .window_right = 0, .bias = {1, 1, 200, 200}},
        .is_flat = true,
        .d_o = near_one,
        .bias = [low](int64_t, int64_t j, double) { return j % 2 ? low : 0; }};
  };
  const Made equal_queries{
      .shape = {.seq_len_q = 400, .seq_len_kv = 60}, .q = repeated(100), .d_o = near_one};
  return {
      {T::kOutput,
       "output",
       "stores dv in f16",
       {.output = ATTEST_F16},
       0,
       ATTEST_DV,
       {.shape = {.seq_len_q = 100}, .dtype = ATTEST_F16, .d_o = near_one}},
      {T::kSmallOutput,
       "small_output",
       "stores dv near 2^-19 in f16",
       {.output = ATTEST_F16},
       0,
       ATTEST_DV,
       {.shape = {.seq_len_q = 100},
        .dtype = ATTEST_F16,
        .d_o = [](int64_t, int64_t, double x) { return (x - 2) * 0x1p-16; }}},
      {T::kScore,
       "score",
       "scores in bf16",
       {.score = ATTEST_BF16},
       0,
       ATTEST_DV,
       {.shape = {.seq_len_q = 100}}},
      {T::kArgument,
       "argument",
       "logit - lse of some -33 in f32, scores in f64",
       {.score = ATTEST_F64},
       0,
       ATTEST_DV,
       dominated(-33)},
      {T::kProbability,
       "probability",
       "p in bf16",
       {.probability = ATTEST_BF16},
       0,
       ATTEST_DV,
       {.shape = {.seq_len_q = 100}}},
      {T::kExp,
       "exp",
       "an exp that is 0.1 % too large",
       {.exp_error = 1e-3},
       0,
       ATTEST_DV,
       {.shape = {.seq_len_q = 100}, .d_o = near_one}},
      {T::kCap,
       "cap",
       "scores in f16 under a softcap of 0.3",
       {.score = ATTEST_F16},
       0,
       ATTEST_DK,
       {.shape = {.seq_len_q = 100, .softcap = 0.3f}, .d_o = near_one}},
      {T::kAtCap,
       "at_cap",
       "scores in f16, all at a softcap that f16 does not have",
       {.score = ATTEST_F16},
       0,
       ATTEST_DV,
       {.shape = {.seq_len_q = 200, .softcap = 1.00048828125f},
        .q = [](int64_t, int64_t, double x) { return 20 + x; },
        .k = [](int64_t, int64_t, double x) { return 20 + x; },
        .d_o = near_one}},
      {T::kSharedBias,
       "shared_bias",
       "whole scores and one bias of 8.03 in bf16",
       {.score = ATTEST_BF16},
       0,
       ATTEST_DV,
       {.shape = {.seq_len_q = 200, .seq_len_kv = 100, .softmax_scale = 1, .bias = {1, 1, 1, 100}},
        .q = [](int64_t i, int64_t c, double x) { return c == 0 ? double(i % 4) : x; },
        .k = [](int64_t, int64_t c, double) { return c == 0 ? 1.0 : 0.0; },
        .d_o = near_one,
        .bias = [](int64_t, int64_t, double) { return 8.03; }}},
      {T::kDot,
       "dot",
       "do.v in bf16, delta is 0",
       {.score = ATTEST_BF16},
       0,
       ATTEST_DQ,
       {.shape = {.seq_len_q = 100, .seq_len_kv = 120},
        .is_flat = true,
        .v = [last = std::vector<double>(8)](
                 int64_t j, int64_t c,
                 double x) mutable { return last[size_t(c)] = j % 2 ? -last[size_t(c)] : x - 8; }}},
      {T::kDelta,
       "delta",
       "a delta of some 8,000 in f32, do.v in f64",
       {.score = ATTEST_F64},
       0,
       ATTEST_DQ,
       {.shape = {.seq_len_q = 120, .seq_len_kv = 400},
        .is_flat = true,
        .k = [](int64_t, int64_t, double x) { return 1 + 0.1 * x; },
        .v = [](int64_t, int64_t, double x) { return 1000 + x; },
        .d_o = near_one}},
      {T::kCoarseDelta,
       "coarse_delta",
       "products of dO and O in bf16, whose sum is nearly 0",
       {.delta = ATTEST_BF16},
       0,
       ATTEST_DQ,
       {.shape = {.seq_len_q = 120},
        .is_flat = true,
        .k = [](int64_t, int64_t, double x) { return 1 + 0.1 * x; },
        .v = [](int64_t, int64_t c, double x) { return (c % 2 ? 1 : -1) * (3 + 0.1 * (x - 8)); },
        .d_o = near_one}},
      {T::kCoarseDelta,
       "small_delta",
       "dO of some 2^-16 as f16, times O of some 2^14, whose products cancel",
       {.delta = ATTEST_F16},
       0,
       ATTEST_DQ,
       {.shape = {.seq_len_q = 120},
        .is_flat = true,
        .k = [](int64_t, int64_t, double x) { return 1 + 0.1 * x; },
        .v = [](int64_t, int64_t c,
                double x) { return (c % 2 ? 1 : -1) * 0x1p14 * (1 + 0.01 * x); },
        .d_o = [](int64_t, int64_t, double x) { return near_one(0, 0, x) * 0x1p-16; }}},
      {T::kScoreOperands,
       "score_operands",
       "Q and K as bf16, pairs of queries nearly cancel",
       {.qk = ATTEST_BF16},
       0,
       ATTEST_DV,
       {.shape = {.seq_len_q = 100},
        .q =
            [last = std::vector<double>(8)](int64_t i, int64_t c, double x) mutable {
              return i % 2 ? -1.01 * last[size_t(c)] : last[size_t(c)] = x;
            },
        .k = [](int64_t, int64_t, double x) { return 0.02 * x; },
        .d_o = ones}},
      {T::kCommonOperand,
       "common_operand",
       "Q and K as bf16, all queries alike",
       {.qk = ATTEST_BF16},
       0,
       ATTEST_DV,
       {.shape = {.seq_len_q = 200},
        .q = [](int64_t, int64_t, double x) { return 1 + 0.1 * x; },
        .d_o = near_one}},
      {T::kFoldedScale,
       "folded_scale",
       "Q times 0.0622 rounded to bf16 again, queries and keys above 0",
       {.qk = ATTEST_BF16},
       1,
       ATTEST_DV,
       {.shape = {.seq_len_q = 200,
                  .head_dim = 256,
                  .head_dim_v = 8,
                  .softmax_scale = 0.0622f,
                  .o_dtype = ATTEST_F32,
                  .gradient_dtype = ATTEST_F32},
        .dtype = ATTEST_BF16,
        .q = [](int64_t, int64_t, double x) { return std::exp2(std::fabs(x)); },
        .k = [](int64_t, int64_t, double x) { return 0.1 * std::fabs(x); },
        .d_o = near_one}},
      {T::kValueOperands,
       "value_operands",
       "V and dO as bf16, pairs of values nearly cancel",
       {.operand = ATTEST_BF16},
       0,
       ATTEST_DQ,
       {.shape = {.seq_len_q = 100, .seq_len_kv = 120},
        .is_flat = true,
        .k = [](int64_t, int64_t, double x) { return 1 + 0.1 * x; },
        .v =
            [last = std::vector<double>(8)](int64_t j, int64_t c, double x) mutable {
              return j % 2 ? -1.01 * last[size_t(c)] : last[size_t(c)] = (c % 2 ? 1 : -1) * x;
            }}},
      {T::kRows,
       "rows",
       "dO as bf16 in p do",
       {.operand = ATTEST_BF16},
       0,
       ATTEST_DV,
       {.shape = {.seq_len_q = 200}}},
      {T::kEqualRows,
       "equal_rows",
       "dO as bf16, all of it 1.003",
       {.operand = ATTEST_BF16},
       0,
       ATTEST_DV,
       {.shape = {.seq_len_q = 200}, .d_o = [](int64_t, int64_t, double) { return 1.003; }}},
      {T::kEqualRows,
       "equal_rows_of_groups",
       "dO as bf16 of 4 times 100 equal queries",
       {.operand = ATTEST_BF16},
       0,
       ATTEST_DV,
       {.shape = {.seq_len_q = 400, .seq_len_kv = 60},
        .q = repeated(100),
        .d_o = [of = repeated(100)](int64_t i, int64_t c,
                                    double x) mutable { return of(i, c, x - 2); }}},
      {T::kSmallOperands,
       "small_operands",
       "dO of some 2^-19 as f16",
       {.operand = ATTEST_F16},
       0,
       ATTEST_DV,
       {.shape = {.seq_len_q = 100},
        .d_o = [](int64_t, int64_t, double x) { return (x - 2) * 0x1p-19; }}},
      {T::kSmallOperands,
       "small_operands_of_bf16",
       "dO of some 2^-24 stored in bf16, as f16",
       {.operand = ATTEST_F16},
       0,
       ATTEST_DV,
       {.shape = {.seq_len_q = 100, .gradient_dtype = ATTEST_F32},
        .dtype = ATTEST_BF16,
        .d_o = [](int64_t, int64_t, double x) { return (x - 2) * 0x1p-24; }}},
      {T::kGivenO,
       "given_o",
       "O as bf16, delta from p and do.v",
       {},
       1,
       ATTEST_DQ,
       {.shape = {.seq_len_q = 100, .o_dtype = ATTEST_BF16},
        .k = [](int64_t, int64_t, double x) { return 1 + 0.1 * x; }}},
      {T::kRepeatedO,
       "repeated_o",
       "64 equal channels of O as bf16, delta from p and do.v",
       {},
       1,
       ATTEST_DQ,
       {.shape = {.seq_len_q = 100,
                  .head_dim_v = 64,
                  .stored = ATTEST_F8E4M3,
                  .v_descale = {1, 1, 1},
                  .o_dtype = ATTEST_BF16},
        .k = [](int64_t, int64_t, double x) { return 1 + 0.1 * x; },
        .v = ones,
        .d_o = ones}},
      {T::kEqualO,
       "equal_o",
       "O of 4 times 100 equal queries as bf16, delta from p and do.v",
       {},
       1,
       ATTEST_DK,
       {.shape = {.seq_len_q = 400, .seq_len_kv = 60, .o_dtype = ATTEST_BF16},
        .q = repeated(100),
        .d_o = near_one}},
      {T::kGivenLse,
       "given_lse",
       "an lse of 520 before it is rounded",
       {},
       1,
       ATTEST_DQ,
       {.shape = {.seq_len_q = 120, .head_dim_v = 1, .window_right = 1, .bias = {1, 1, 120, 120}},
        .is_flat = true,
        .k = [](int64_t j, int64_t, double x) { return (j % 2 ? 1 : -1) * (1 + 0.1 * x); },
        .v = [](int64_t j, int64_t, double) { return j % 2 ? 1.0 : -1.0; },
        .d_o = ones,
        .bias = [](int64_t, int64_t, double) { return 520.0; }}},
      {T::kProduct,
       "product",
       "p as bf16 operand",
       {.product = ATTEST_BF16},
       0,
       ATTEST_DV,
       {.shape = {.seq_len_q = 100}}},
      {T::kSmallProduct,
       "small_product",
       "p of some 2^-20 as f16 operand",
       {.product = ATTEST_F16},
       0,
       ATTEST_DV,
       dominated(-13.2)},
      {T::kLost,
       "lost",
       "flushes p of some 2^-15 in f16 to 0",
       {.product = ATTEST_F16, .ways = ATTEST_FLUSHES_SUBNORMALS},
       0,
       ATTEST_DV,
       dominated(-9.8)},
      {T::kEqual,
       "equal",
       "scores in bf16 of 4 times 100 equal queries",
       {.score = ATTEST_BF16},
       0,
       ATTEST_DV,
       equal_queries},
      {T::kEqualPairs,
       "equal_pairs",
       "p as bf16 operand for 4 times 100 equal queries",
       {.product = ATTEST_BF16},
       0,
       ATTEST_DV,
       equal_queries},
      {T::kEqualPairs,
       "equal_pairs_in_dq",
       "ds as bf16 operand of keys that share two rows of K and three of V",
       {.product = ATTEST_BF16},
       0,
       ATTEST_DQ,
       {.shape = {.seq_len_q = 60, .seq_len_kv = 420, .head_dim = 1, .head_dim_v = 1},
        .k = [](int64_t j, int64_t, double) { return j % 2 ? 1.0 : 2.0; },
        .v = [](int64_t j, int64_t, double) { return double(j % 3 * (j % 3)); },
        .d_o = near_one}},
      {T::kAccumulator,
       "accumulator",
       "sums over 600 queries in f32",
       {},
       0,
       ATTEST_DV,
       {.shape = {.seq_len_q = 600, .seq_len_kv = 100}, .is_flat = true, .d_o = near_one}},
      {T::kSmallSum,
       "small_sum",
       "sums of 400 equal numbers of 3.4 smallest steps of f16",
       {.accumulator = ATTEST_F16},
       0,
       ATTEST_DV,
       {.shape = {.seq_len_q = 400, .seq_len_kv = 128},
        .is_flat = true,
        .d_o = [](int64_t, int64_t, double) { return 3.4 * 128 * 0x1p-24; }}},
      {T::kSmallSum,
       "flushed_sum",
       "sums of 20 numbers of 2^-19 that f16 flushes to 0",
       {.accumulator = ATTEST_F16, .ways = ATTEST_FLUSHES_SUBNORMALS},
       0,
       ATTEST_DV,
       {.shape = {.seq_len_q = 20, .seq_len_kv = 128},
        .is_flat = true,
        .d_o = [](int64_t, int64_t, double x) { return near_one(0, 0, x) * 128 * 0x1p-19; }}},
      {T::kOneWay,
       "one_way",
       "sums of 100 equal numbers in bf16",
       {.accumulator = ATTEST_BF16},
       0,
       ATTEST_DV,
       {.shape = {.seq_len_q = 100, .seq_len_kv = 107},
        .is_flat = true,
        .d_o = [](int64_t, int64_t, double) { return 2.45 * 107 / 256; }}},
      {T::kEqualAddends,
       "equal_addends",
       "sums in f32 of 3,000 equal numbers, each addition errs by 0.4 of a last place",
       {},
       0,
       ATTEST_DV,
       {.shape = {.seq_len_q = 3000, .seq_len_kv = 128},
        .q = [](int64_t, int64_t, double) { return 0.0; },
        .d_o = [](int64_t, int64_t, double) { return 1 + 0.4 * 0x1p-12; }}},
      {T::kAlikeAddends,
       "alike_addends",
       "the same of numbers that differ by 0.001 %",
       {},
       0,
       ATTEST_DV,
       {.shape = {.seq_len_q = 3000, .seq_len_kv = 128},
        .q = [](int64_t, int64_t, double) { return 0.0; },
        .d_o = [](int64_t, int64_t, double x) { return 1 + 0.4 * 0x1p-12 + 1e-5 * (x - 2); }}},
      {T::kSwapped,
       "swapped",
       "keys at the edge of top_k whose scores differ by the order of their sums alone",
       {},
       1,
       ATTEST_DQ,
       {.shape = {.seq_len_q = 61, .seq_len_kv = 300, .head_dim = 32, .top_k = 14},
        .fill = "top_k_close"}},
      {T::kSwapped,
       "swapped_in_dv",
       "the same in a sum over queries, two of four keys",
       {},
       1,
       ATTEST_DV,
       {.shape = {.seq_len_q = 61, .seq_len_kv = 4, .head_dim = 32, .top_k = 2},
        .fill = "top_k_close"}},
  };
}

class BackwardTerms : public ::testing::TestWithParam<TermCase> {};

TEST_P(BackwardTerms, IsNeededAndNoLargerThanNeeded) {
  const TermCase& term = GetParam();
  const BackwardCase c = inputs(term.made);
  std::vector<int64_t> rows(size_t(std::max(c.p().seq_len_q, c.p().seq_len_kv)));
  std::iota(rows.begin(), rows.end(), 0);
  testing::put_on_trial(term, c, "gradient off", [&](double size) {
    emulate(c.problem, c.tensors, term.arithmetic, term.kernel, rows,
            testing::store_into(c.tensors, [&](int32_t role, double value) {
              return role == term.output ? value + size : value;
            }));
  });
}

INSTANTIATE_TEST_SUITE_P(Backward, BackwardTerms, ::testing::ValuesIn(term_cases()),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(BackwardTermTable, HasEveryTerm) { testing::expect_every_term(term_cases()); }
TEST(BackwardTermTable, IsOnThePage) {
  testing::expect_rows_on_page(term_cases(),
                               std::filesystem::path(ATTEST_SOURCE_DIR) /
                                   "harness/core/operations/softmax_backward/README.md");
}

}  // namespace
}  // namespace attest::core::backward
