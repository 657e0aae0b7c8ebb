// Honest kernels of the gradients of softmax attention pass, of many arithmetics and on random
// problems, and kernels that compute in less than they declare fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "core/judge/check.hpp"
#include "core/judge/testing/emulated_outputs.hpp"
#include "core/operations/declaration.hpp"
#include "core/operations/softmax_backward/testing/backward_cases.hpp"
#include "core/tensor/random.hpp"

namespace attest::core::backward {
namespace {

using testing::BackwardCase, testing::BackwardShape;

/// What a kernel that computes as `computed` is told where it declares `declared`.
Judgement judged(const BackwardCase& c, const BackwardArithmetic& computed,
                 const BackwardArithmetic& declared, int kernel) {
  std::vector<int64_t> rows(size_t(
      std::max(row_count(c.tensors[ATTEST_DQ].spec, 3), row_count(c.tensors[ATTEST_DK].spec, 3))));
  std::iota(rows.begin(), rows.end(), 0);
  emulate(c.problem, c.tensors, computed, kernel, rows, testing::store_into(c.tensors));
  return judge(c.problem, *softmax_backward_operation().golden(c.problem, c.fill, c.tensors),
               declared, c.tensors);
}

const DType kHalf = ATTEST_F16, kBrain = ATTEST_BF16;

TEST(BackwardSigma, HonestKernelsPass) {
  const BackwardShape shapes[] = {
      {.num_heads = 4, .num_kv_heads = 2, .seq_len_q = 37, .head_dim = 16, .window_right = 0},
      {.batch = 2,
       .num_heads = 2,
       .num_kv_heads = 2,
       .seq_len_q = 12,
       .seq_len_kv = 70,
       .head_dim = 8,
       .head_dim_v = 24,
       .bias = {1, 2, 12, 70},
       .mask = {2, 1, 1, 70}},
      {.num_heads = 2, .num_kv_heads = 1, .seq_len_q = 1, .seq_len_kv = 90, .head_dim = 32},
      {.num_heads = 2,
       .num_kv_heads = 1,
       .seq_len_q = 30,
       .seq_len_kv = 41,
       .head_dim = 16,
       .softmax_scale = 0.7f,
       .softcap = 1.3f},
      {.num_heads = 2, .seq_len_q = 24, .seq_len_kv = 50, .slopes = {1, 2}},
      {.batch = 2, .num_heads = 2, .seq_len_q = 20, .head_dim = 8, .sinks = true, .dsinks = true},
      {.batch = 2,
       .num_heads = 2,
       .seq_len_q = 24,
       .head_dim = 8,
       .grid_height = 4,
       .grid_width = 6,
       .window_height = 4,
       .window_width = 3,
       .shift_y = 1,
       .shift_bias = -1.3f,
       .rel_bias = true,
       .drel_bias = true},
      {.num_heads = 4,
       .num_kv_heads = 2,
       .seq_len_q = 30,
       .seq_len_kv = 50,
       .head_dim = 16,
       .bias = {1, 1, 30, 50},
       .dbias = true,
       .top_k = 7},
      {.num_heads = 4,
       .num_kv_heads = 2,
       .seq_len_q = 20,
       .seq_len_kv = 37,
       .head_dim = 16,
       .stored = ATTEST_F8E4M3,
       .q_descale = {1, 4, 3},
       .k_descale = {1, 2, 6},
       .v_descale = {1, 2, 6},
       .descale_block_q = 7,
       .descale_block_kv = 7},
      {.num_heads = 2, .seq_len_q = 30, .head_dim = 8, .stored = ATTEST_F8E5M2}};
  const BackwardArithmetic declared[] = {
      {},
      {.product = kHalf},
      {.product = kBrain},
      {.score = kHalf},
      {.probability = kHalf, .product = kHalf},
      {.probability = kBrain},
      {.accumulator = kHalf},
      {.accumulator = kBrain, .sum_chain = 8},
      {.score = kHalf, .probability = kHalf, .product = kHalf, .accumulator = kHalf},
      {.product = kHalf, .ways = ATTEST_FLUSHES_SUBNORMALS},
      {.qk = kHalf},
      {.operand = kBrain},
      {.delta = kHalf},
      {.product = kBrain, .qk = kBrain, .operand = kBrain, .delta = kBrain}};
  double largest = 0;
  for (const BackwardShape& shape : shapes)
    for (const DType dtype : {ATTEST_F32, ATTEST_F16, ATTEST_BF16}) {
      const bool all = dtype == ATTEST_F32;  // others store coarser outputs: three are enough
      const Problem problem = BackwardCase(shape, dtype, {}).problem;
      for (const std::string& fill : known_fills(problem, false)) {
        const BackwardCase c(shape, dtype, {fill, 5});
        for (BackwardArithmetic arithmetic :
             std::span(declared).first(all ? std::size(declared) : 3))
          for (int kernel = 0; kernel < kKernels; ++kernel) {
            arithmetic.output = dtype;
            const Judgement judgement = judged(c, arithmetic, arithmetic, kernel);
            EXPECT_EQ(judgement.outcome.verdict(), Verdict::kPass)
                << dtype_name(dtype) << " " << fill << " " << c.p().seq_len_q << " queries, "
                << print(softmax_backward_operation(), arithmetic) << ", kernel " << kernel << ": "
                << judgement.outcome.reason << " " << judgement.max_ratio << " "
                << judgement.rms_ratio;
            if (all) largest = std::max(largest, judgement.max_ratio);
          }
      }
    }
  // A tolerance that nobody comes near judges nothing. Coarser outputs reach theirs by themselves.
  EXPECT_GT(largest, 0.25);
}

// Random problems, inputs and declarations; numbers follow from `trial`. None of 900 fails.
TEST(BackwardSigma, HonestKernelsPassOnRandomProblems) {
  constexpr uint64_t kTrials = 60;
  for (uint64_t trial = 0; trial < kTrials; ++trial) {
    uint64_t drawn = 0;
    const auto below = [&](uint64_t n) { return int64_t(random_below(trial, drawn++, n)); };
    const auto one_of = [&](std::initializer_list<int64_t> choices) {
      return *(choices.begin() + below(choices.size()));
    };
    BackwardShape shape{.batch = 1 + below(2),
                        .num_kv_heads = 1 + below(2),
                        .seq_len_q = one_of({1, 2, 9, 33, 50}),
                        .seq_len_kv = one_of({1, 3, 16, 33, 65}),
                        .head_dim = one_of({1, 3, 8, 24}),
                        .head_dim_v = one_of({1, 4, 16})};
    shape.num_heads = shape.num_kv_heads * (1 + below(3));
    if (below(3) == 0) shape.window_right = one_of({0, 0, 2});
    if (below(4) == 0) shape.window_left = one_of({0, 5, 20});
    if (below(2) == 0) shape.diagonal = ATTEST_BOTTOM_RIGHT;
    if (below(4) == 0) shape.softmax_scale = 0.5f;
    if (below(4) == 0) shape.softcap = 0.7f * float(one_of({1, 3, 20}));
    if (below(4) == 0) shape.slopes = {1, shape.num_heads};
    if (below(4) == 0) shape.mask = {1, 1, shape.seq_len_q, shape.seq_len_kv};
    if (below(4) == 0) shape.bias = {1, shape.num_heads, 1, shape.seq_len_kv};
    shape.sinks = below(4) == 0;
    if (below(4) == 0) {
      shape.block_q = one_of({2, 5, 16});
      shape.block_kv = one_of({3, 8, 16});
      shape.block_mask = {1, 1, (shape.seq_len_q + shape.block_q - 1) / shape.block_q,
                          (shape.seq_len_kv + shape.block_kv - 1) / shape.block_kv};
    }
    shape.seq_lens_kv = below(4) == 0;
    if (below(4) == 0) {
      shape.top_k = 1 + below(uint64_t(shape.seq_len_kv));
      if (below(2) == 0) shape.top_k_ties = ATTEST_TOP_K_ALL_TIES;
    }
    if (below(4) == 0 && shape.top_k == 0) {
      shape.stored = DType(one_of({ATTEST_F8E4M3, ATTEST_F8E5M2}));
      shape.descale_block_q = one_of({2, 5, 16});
      shape.descale_block_kv = one_of({3, 8, 16});
      const auto blocks = [](int64_t tokens, int64_t block) {
        return (tokens + block - 1) / block;
      };
      const int64_t of_keys = blocks(shape.seq_len_kv, shape.descale_block_kv);
      shape.q_descale = {shape.batch, 1, blocks(shape.seq_len_q, shape.descale_block_q)};
      shape.k_descale = {1, shape.num_kv_heads, of_keys};
      shape.v_descale = {shape.batch, shape.num_kv_heads, of_keys};
    }
    const auto dtype = DType(one_of({ATTEST_F32, ATTEST_F32, ATTEST_F16, ATTEST_BF16}));
    const auto stage = [&] {
      return DType(one_of({ATTEST_F32, ATTEST_F32, ATTEST_F16, ATTEST_BF16}));
    };
    BackwardArithmetic arithmetic{.score = stage(),
                                  .probability = stage(),
                                  .product = stage(),
                                  .accumulator = stage(),
                                  .qk = stage(),
                                  .operand = stage(),
                                  .delta = stage(),
                                  .output = dtype};
    if (below(4) == 0) arithmetic.ways |= ATTEST_FLUSHES_SUBNORMALS;
    if (below(4) == 0) arithmetic.sum_chain = 4 + below(20);
    if (below(4) == 0) arithmetic.exp_error = 1e-3;
    const std::vector<std::string> names =
        known_fills(BackwardCase(shape, dtype, {}).problem, false);
    const Fill fill{names[size_t(below(names.size()))], trial};
    const BackwardCase c(shape, dtype, fill);
    for (int kernel = 0; kernel < kKernels; ++kernel) {
      const Judgement judgement = judged(c, arithmetic, arithmetic, kernel);
      EXPECT_EQ(judgement.outcome.verdict(), Verdict::kPass)
          << "trial " << trial << ": " << dtype_name(dtype) << ", " << fill.name << ", "
          << print(softmax_backward_operation(), arithmetic) << ", kernel " << kernel << ": "
          << judgement.outcome.reason;
    }
  }
}

// Whoever declares float32 and computes in less is seen: "cancelling" makes delta and do.v large.
TEST(BackwardSigma, UndeclaredArithmeticFails) {
  const BackwardArithmetic computed[] = {
      {.score = kHalf},   {.score = kBrain},   {.probability = kHalf}, {.probability = kBrain},
      {.product = kHalf}, {.product = kBrain}, {.accumulator = kHalf}, {.accumulator = kBrain},
      {.qk = kHalf},      {.qk = kBrain},      {.operand = kHalf},     {.operand = kBrain},
      {.delta = kHalf},   {.delta = kBrain}};
  const BackwardCase c({.num_heads = 2, .num_kv_heads = 2, .seq_len_q = 61, .head_dim = 16},
                       ATTEST_F32, {"cancelling", 1});
  for (const BackwardArithmetic& arithmetic : computed)
    EXPECT_EQ(judged(c, arithmetic, {}, 0).outcome.verdict(), Verdict::kFail)
        << print(softmax_backward_operation(), arithmetic);
}

}  // namespace
}  // namespace attest::core::backward
