// Honest kernels of deformable attention pass, of many arithmetics and on random problems.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "core/judge/check.hpp"
#include "core/judge/testing/emulated_outputs.hpp"
#include "core/judge/testing/term_trial.hpp"
#include "core/operations/declaration.hpp"
#include "core/operations/deformable/testing/deformable_cases.hpp"
#include "core/tensor/random.hpp"

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
      {.num_heads = 2, .seq_len_q = 12, .head_dim_v = 8, .num_points = 4, .levels = {{50, 50}}},
      {.num_heads = 2,
       .seq_len_q = 8,
       .head_dim_v = 8,
       .num_points = 4,
       .levels = {{29, 50}, {15, 25}, {8, 13}, {4, 7}}},
      {.seq_len_q = 12, .num_points = 8, .levels = {{9, 160}}, .align_corners = true}};
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

// Rows that are not judged exactly have bounds. A point just outside may be read by a kernel whose
// coordinates err.
TEST(DeformableSigma, HonestKernelsPassInRowsWithBounds) {
  const DeformableShape wide{.seq_len_q = 20000,
                             .head_dim_v = 2,
                             .num_points = 1,
                             .levels = {{116, 200}},
                             .location_dtype = ATTEST_F32};
  const DeformableCase c(wide, ATTEST_F32, {"borders", 5});
  const Judgement judgement = judged(c, {.location = ATTEST_F16}, 0);
  EXPECT_GT(judgement.swept_elements, 1000);
  EXPECT_EQ(judgement.outcome.verdict(), Verdict::kPass) << judgement.outcome.reason;
}

// Locations in f64 of the centres of pixels, rounded to f32, lie before some of them: a kernel has
// a fraction of nearly 1 in the cell before, and rounds a difference that the true fraction, 0,
// hides.
TEST(DeformableSigma, DifferencesPassWhereCoordinatesCrossTheCentreOfAPixel) {
  constexpr int32_t kHeight = 41, kWidth = 94;
  const DeformableCase c(
      {.seq_len_q = 200, .num_points = 1, .levels = {{kHeight, kWidth}}, .align_corners = true},
      ATTEST_F64, {"random", 5});
  testing::edit(c, ATTEST_V, [](int64_t pixel, int64_t, double random) {
    return pixel % kWidth % 2 == 1 ? 1e-3 * random : random;
  });
  const Tensor& locations = c.tensors[ATTEST_LOCATIONS];
  for (int64_t i = 0; i < c.p().seq_len_q; ++i) {
    store(locations.data, ATTEST_F64, 2 * i, double(i * 2 % (kWidth - 1)) / (kWidth - 1));
    store(locations.data, ATTEST_F64, 2 * i + 1, double(i % kHeight) / (kHeight - 1));
  }
  for (int kernel = 0; kernel < kDeformableKernels; ++kernel) {
    const Judgement judgement = judged(c, {.product = ATTEST_F16, .output = ATTEST_F64}, kernel);
    EXPECT_EQ(judgement.outcome.verdict(), Verdict::kPass)
        << kernel << ": " << judgement.outcome.reason << " " << judgement.max_ratio;
  }
}

// Locations in bf16 times 136 are multiples of 1/32: where f16 rounds them, they are halfway
// between two of its numbers, and err by half a unit each.
TEST(DeformableSigma, CoordinatesOnAGridErrByTheWholeBound) {
  const DeformableCase c(
      {.seq_len_q = 1210, .head_dim_v = 18, .num_points = 13, .levels = {{4, 136}}}, ATTEST_BF16,
      {"random", 5});
  const DType half = ATTEST_F16;
  const Judgement judgement = judged(c,
                                     {.location = half,
                                      .weight = half,
                                      .product = half,
                                      .accumulator = half,
                                      .output = ATTEST_BF16},
                                     0);
  EXPECT_EQ(judgement.outcome.verdict(), Verdict::kPass) << judgement.outcome.reason;
  EXPECT_LT(judgement.rms_ratio, 0.8);
}

// Random problems, inputs and declarations; numbers follow from `trial`.
TEST(DeformableSigma, HonestKernelsPassOnRandomProblems) {
  std::vector<uint64_t> trials(40);
  std::iota(trials.begin(), trials.end(), 0);
  // Found among 7,000, of which none fails: errors of several pixels, flushed numbers, NaN beside a
  // pixel.
  for (const uint64_t trial : {88, 99, 144, 738, 833, 1182, 1626, 2393, 2482, 2864})
    trials.push_back(trial);
  for (const uint64_t trial : trials) {
    uint64_t drawn = 0;
    const auto below = [&](uint64_t n) { return int64_t(random_below(trial, drawn++, n)); };
    const auto one_of = [&](std::initializer_list<int32_t> choices) {
      return *(choices.begin() + below(choices.size()));
    };
    DeformableShape shape{.batch = 1 + below(2),
                          .num_heads = 1 + below(3),
                          .seq_len_q = one_of({1, 3, 17, 40}),
                          .head_dim_v = one_of({1, 2, 5, 16}),
                          .num_points = one_of({1, 2, 3, 4, 8}),
                          .levels = {},
                          .align_corners = below(3) == 0};
    for (int64_t level = 1 + below(4); level > 0; --level)
      shape.levels.emplace_back(one_of({1, 2, 3, 8, 21}), one_of({1, 2, 5, 16, 50, 700}));
    const DType dtype = one_of({ATTEST_F32, ATTEST_F32, ATTEST_F16, ATTEST_BF16});
    if (below(2) == 0) shape.location_dtype = ATTEST_F32;
    const auto stage = [&] { return one_of({ATTEST_F32, ATTEST_F32, ATTEST_F16, ATTEST_BF16}); };
    DeformableArithmetic arithmetic{.location = stage(),
                                    .weight = stage(),
                                    .product = stage(),
                                    .accumulator = stage(),
                                    .output = dtype};
    if (below(4) == 0) arithmetic.ways |= ATTEST_LOCATES_ON_GRID;
    if (below(4) == 0) arithmetic.ways |= ATTEST_FLUSHES_SUBNORMALS;
    if (below(4) == 0) arithmetic.sum_chain = 8 + below(20);
    const std::vector<std::string> fills =
        deformable_operation().fills(DeformableCase(shape, dtype, {}).problem);
    const Fill fill{fills[size_t(below(fills.size()))], trial};
    const DeformableCase c(shape, dtype, fill);
    for (int kernel = 0; kernel < kDeformableKernels; ++kernel) {
      const Judgement judgement = judged(c, arithmetic, kernel);
      EXPECT_EQ(judgement.outcome.verdict(), Verdict::kPass)
          << "trial " << trial << ": " << dtype_name(dtype) << ", " << fill.name << ", "
          << print(deformable_operation(), arithmetic) << ", kernel " << kernel << ": "
          << judgement.outcome.reason;
    }
  }
}

}  // namespace
}  // namespace attest::core::deformable
