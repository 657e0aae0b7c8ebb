// Every term of deformable attention's sigma is needed and no larger than needed, as
// sigma_terms_test.cpp has it for softmax. Honest kernels of many arithmetics pass.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <span>

#include "core/judge/testing/emulated_outputs.hpp"
#include "core/judge/testing/term_trial.hpp"
#include "core/operations/declaration.hpp"
#include "core/operations/deformable/deformable_sigma.hpp"
#include "core/operations/deformable/testing/deformable_cases.hpp"

namespace attest::core::deformable {
namespace {

using testing::DeformableCase, testing::DeformableShape;

Judgement judged(const DeformableCase& c, const DeformableArithmetic& arithmetic, int kernel) {
  emulate_deformable(c.problem, c.tensors, arithmetic, kernel,
                     testing::all_rows(c.tensors[ATTEST_O]), testing::store_into(c.tensors));
  return judge(c.problem, *deformable_operation().golden(c.problem, {}, c.tensors), arithmetic,
               c.tensors);
}

TEST(DeformableSigma, HonestKernelsPass) {
  const DeformableShape shapes[] = {
      {.num_heads = 2, .seq_len_q = 40, .head_dim_v = 8, .num_points = 4, .levels = {{50, 50}}},
      {.num_heads = 2,
       .seq_len_q = 16,
       .head_dim_v = 8,
       .num_points = 4,
       .levels = {{29, 50}, {15, 25}, {8, 13}, {4, 7}}},
      {.seq_len_q = 30, .num_points = 8, .levels = {{9, 160}}, .align_corners = true}};
  const DType half = ATTEST_F16, brain = ATTEST_BF16;
  const DeformableArithmetic declared[] = {
      {},
      {.location = half, .weight = half, .product = half, .accumulator = half},
      {.location = half},
      {.weight = half},
      {.weight = brain},
      {.product = half},
      {.product = brain},
      {.accumulator = half},
      {.accumulator = brain},
      {.weight = brain, .product = brain, .accumulator = brain},
      {.ways = ATTEST_LOCATES_ON_GRID},
      {.location = half, .ways = ATTEST_LOCATES_ON_GRID},
      {.weight = half, .product = half, .ways = ATTEST_FLUSHES_SUBNORMALS},
      {.accumulator = brain, .sum_chain = 4},
      {.accumulator = brain, .sum_chain = 8}};
  double largest = 0;
  for (const DeformableShape& shape : shapes)
    for (const DType dtype : {ATTEST_F32, ATTEST_F16, ATTEST_BF16}) {
      const bool all = dtype == ATTEST_F32;  // others store coarser outputs: three are enough
      const Problem problem = DeformableCase(shape, dtype, {}).problem;
      for (const std::string& fill : deformable_operation().fills(problem)) {
        const DeformableCase c(shape, dtype, {fill, 5});
        for (DeformableArithmetic arithmetic :
             std::span(declared).first(all ? std::size(declared) : 3))
          for (int kernel = 0; kernel < kDeformableKernels; ++kernel) {
            arithmetic.output = dtype;
            const Judgement judgement = judged(c, arithmetic, kernel);
            EXPECT_EQ(judgement.outcome.verdict(), Verdict::kPass)
                << dtype_name(dtype) << " " << fill << " levels " << shape.levels.size() << " "
                << print(deformable_operation(), arithmetic) << " kernel " << kernel << ": "
                << judgement.outcome.reason << " " << judgement.max_ratio << " "
                << judgement.rms_ratio;
            largest = std::max({largest, judgement.max_ratio, judgement.rms_ratio});
          }
      }
    }
  EXPECT_GT(largest, 0.5);  // a tolerance that nobody comes near judges nothing
}

}  // namespace
}  // namespace attest::core::deformable
