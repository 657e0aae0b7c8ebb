// Sigma of a row, from sums over its keys that are written by hand.
#include "core/operations/softmax/golden/row_expectation.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "core/operations/unsure.hpp"

namespace attest::core {
namespace {

constexpr int64_t kRowKeys = 4096;

// Sums of a row of one channel, which keeps the numbers that they point to. Its output is `value`.
struct OneChannel {
  double value, p2v2, none = 0;

  RowSums sums() const {
    RowSums of_row{.pv = &value,
                   .reach = &value,
                   .p2v2 = &p2v2,
                   .a2v2 = &none,
                   .e2v = &none,
                   .e2v2 = &none,
                   .flushed = &none,
                   .flushed_most = &none,
                   .flushed_least = &none,
                   .unsure = &none,
                   .unsure2 = &none};
    of_row.largest_v = value;
    return of_row;
  }
};

struct Sigmas {
  double o = 0, lse = 0;
};
Sigmas sigmas_of(const RowScores& row, const RowSums& sums, const SigmaModel& model) {
  Sigmas found;
  finish_row(row, sums, model, 1, 0, {.o = nullptr, .sigma = &found.o, .lse_sigma = &found.lse});
  return found;
}

// A row whose values are 1, with p in f16. `heavy`: one key has all of the weight; else all weigh
// alike. Its scores lie between `least` and `largest`.
Sigmas expected_row(double least, double largest, bool heavy, DType score, uint32_t ways = 0) {
  const SigmaModel model({.score = score, .probability = ATTEST_F16, .ways = ways}, ATTEST_F32, 8);
  const RowScores row{.least = least,
                      .largest = largest,
                      .lse = largest + (heavy ? 0 : std::log(double(kRowKeys))),
                      .keys = kRowKeys};
  const OneChannel channel{.value = 1, .p2v2 = heavy ? 1 : 1.0 / double(kRowKeys)};
  RowSums sums = channel.sums();
  sums.weights.p2 = channel.p2v2;
  sums.weights.a2 = model.u_p * model.u_p * channel.p2v2;
  return sigmas_of(row, sums, model);
}

constexpr double kRoundoff = 0x1p-11;

// Numbers in float32 are 1/32 apart at -262,144, so 4,096 keys over 1/2 have 17 scores.
TEST(RowExpectation, KeysOfEqualScoresRoundAlike) {
  const Sigmas near = expected_row(-0.5, -1e-3, false, ATTEST_F32),
               far = expected_row(-262144.5, -262144, false, ATTEST_F32);
  EXPECT_LT(near.o, 0.02 * kRoundoff);
  EXPECT_NEAR(far.o, kRoundoff / std::sqrt(3 * 17.0), 0.01 * kRoundoff);
  const Sigmas near_sum = expected_row(-0.5, -1e-3, false, ATTEST_F32, ATTEST_SUMS_ROUNDED_P),
               far_sum = expected_row(-262144.5, -262144, false, ATTEST_F32, ATTEST_SUMS_ROUNDED_P);
  EXPECT_LT(near_sum.lse, 0.02 * kRoundoff);
  EXPECT_NEAR(far_sum.lse / std::hypot(kRoundoff / std::sqrt(17.0), 262144 * 0x1p-24), 1, 0.05);
}

// However many keys share a score, p err by one roundoff at most.
TEST(RowExpectation, EqualScoresAddNoMoreThanARoundoff) {
  for (const double farthest : {-20.0, -40.0}) {
    const Sigmas heavy = expected_row(farthest, farthest + 19, true, ATTEST_BF16);
    EXPECT_LT(heavy.o, kRoundoff) << farthest;
  }
}

// The keys that weigh are near 0, where there are more numbers than at the least score.
TEST(RowExpectation, TheNearestScoreTellsHowFewNumbersThereAre) {
  const Sigmas across = expected_row(-2000, 3, false, ATTEST_F16);
  EXPECT_LT(across.o, 0.02 * kRoundoff);
}

// 4,096 values of 15 sum to 61,440 before they are divided, those of 17 to 69,632: f16 holds
// 65,504.
TEST(RowExpectation, SumsBeyondTheAccumulatorAreNotJudged) {
  const auto sigma_of = [](double value, DType accumulator, uint32_t ways) {
    const SigmaModel model({.accumulator = accumulator, .ways = ways}, ATTEST_F32, 8);
    const RowScores row{
        .least = 0, .largest = 0, .lse = std::log(double(kRowKeys)), .keys = kRowKeys};
    const OneChannel channel{.value = value, .p2v2 = 0};
    return sigmas_of(row, channel.sums(), model).o;
  };
  EXPECT_EQ(sigma_of(17, ATTEST_F16, 0), kUnsure);
  EXPECT_NE(sigma_of(15, ATTEST_F16, 0), kUnsure);
  EXPECT_NE(sigma_of(17, ATTEST_F16, ATTEST_P_NORMALISED_FIRST), kUnsure);
  EXPECT_NE(sigma_of(17, ATTEST_BF16, 0), kUnsure);
}

}  // namespace
}  // namespace attest::core
