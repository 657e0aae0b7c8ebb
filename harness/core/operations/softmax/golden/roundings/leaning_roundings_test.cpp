// To which side probabilities round, against roundings that are summed one by one.
#include "core/operations/softmax/golden/roundings/leaning_roundings.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/operations/numerics/rounding.hpp"
#include "core/operations/softmax/testing/make_case.hpp"

namespace attest::core::passes {
namespace {

constexpr uint32_t kSums = ATTEST_SUMS_ROUNDED_P;

// The second of two rows, and values of two channels, 1 and the number of the key.
struct LeaningTrial {
  LeaningTrial(DType probability, uint32_t ways, DType operand = ATTEST_F32, float softcap = 1)
      : c(core::testing::make_case("",
                                   [&](attest_softmax_params& p) {
                                     p.num_heads = 1;
                                     p.head_dim_v = 2;
                                     p.seq_len_q = 2;
                                     p.seq_len_kv = 5000;
                                     p.softcap = softcap;
                                   })),
        model(
            SigmaModel::of({.pv = operand, .probability = probability, .ways = ways}, c.problem)) {}

  core::testing::Case c;
  SigmaModel model;
  Geometry geometry{c.problem, c.tensors};
  BlockShape shape{c.params()};

  /// `p` are exp(score - maximum). `most`: the keys of a block.
  LeaningRoundings::Errors find(const std::vector<double>& p, int64_t most = 100) {
    double sum = 0;
    for (const double x : p) sum += x;
    const auto count = int64_t(p.size());
    const std::vector<RowScores> scores(
        2, RowScores{.least = -1, .largest = 2, .lse = 2 + std::log(sum), .keys = count});
    const std::vector<JudgedRow> rows(
        2, JudgedRow{.b = 0, .h = 0, .i = 0, .output_row = 0, .keys = {0, count}});
    const KeyOrder order({0, count}, {});
    Values values(c.tensors[ATTEST_V], geometry, shape);
    Matrix probabilities(kTileRows, shape.key_stride);
    LeaningRoundings leaning(shape);
    leaning.start(model);
    double o[2] = {1, 0};
    for (int64_t begin = 0; begin < count;) {
      const KeyBlock block(order, begin, most);
      for (int64_t key = 0; key < block.count(); ++key) {
        const int64_t j = block.place(key);
        probabilities.row(1)[key] = p[size_t(j)] / sum;
        values.values.row(key)[0] = 1;
        values.values.row(key)[1] = double(j);
        o[1] += probabilities.row(1)[key] * double(j);
      }
      leaning.add(probabilities, values, block, {.first = 0, .rows = rows}, scores);
      begin += block.count();
    }
    return leaning.find(1, o);
  }
};

// Numbers in f8e4m3 near 1 are 0.875, 0.9375, 1, and 1.125.
TEST(LeaningRoundings, AddUpWhereAllRoundToOneSide) {
  LeaningTrial trial(ATTEST_F8E4M3, 0);
  std::vector<double> p(301, 0.963);
  p[0] = 1;
  const double lost = 300 * (0.963 - 0.9375) / (1 + 300 * 0.963);
  const LeaningRoundings::Errors found = trial.find(p);
  EXPECT_NEAR(found.normaliser, lost, 1e-9);
  EXPECT_NEAR(found.o[0], lost, 1e-9);
  EXPECT_NEAR(found.o[1], lost * 150.5, 1e-6);
  EXPECT_NEAR(trial.find(p, 7).o[1], found.o[1], 1e-9);
}

// What all probabilities have in common is divided out where the normaliser sums what PV does.
TEST(LeaningRoundings, CancelInOutputsThatAreDividedByTheSameSum) {
  LeaningTrial trial(ATTEST_F8E4M3, kSums);
  std::vector<double> p(301, 0.963);
  for (size_t j = 0; j < 150; ++j) p[j] = 1;
  const LeaningRoundings::Errors found = trial.find(p);
  EXPECT_GT(found.normaliser, 0.01);
  EXPECT_NEAR(found.o[0], 0, 1e-12);
  EXPECT_GT(found.o[1], 0.9) << "keys of the second half weigh less";
}

// Beside a maximum that is smaller by 1/32, 0.9375 is 0.9668, which rounds to 0.9375. Beside the
// largest it is a number itself.
TEST(LeaningRoundings, TryMaximaOverOneStep) {
  LeaningTrial trial(ATTEST_F8E4M3, 0);
  for (const double x : {0.9375, 0.875, 0.8125}) {
    double most = 0;
    for (int n = 0; n < kTriedMaxima; ++n) {
      const double scaled = std::min(x * (1 + n / 32.0), 1.0);
      most = std::max(most, std::fabs(rounded(scaled, ATTEST_F8E4M3) - scaled) / (1 + n / 32.0));
    }
    ASSERT_GT(most, 0.01);
    EXPECT_NEAR(trial.find(std::vector<double>(4, x)).o[0], most / x, 1e-9) << x;
  }
}

TEST(LeaningRoundings, RoundEachDTypeAsAKernelDoes) {
  for (const DType dtype : {ATTEST_F8E4M3, ATTEST_F8E5M2, ATTEST_F16, ATTEST_BF16})
    for (const bool cuts : {false, true}) {
      LeaningTrial trial(dtype, cuts ? ATTEST_P_TRUNCATED : 0);
      for (double x = 1; x > smallest_normal(dtype) / 8 && x > 1e-6; x *= 0.83) {
        const double kept = cuts ? cut(x, dtype) : rounded(x, dtype),
                     error = std::fabs(kept - x) / x, found = trial.find({x}).normaliser;
        EXPECT_GE(found, error * (1 - 1e-9)) << dtype << ' ' << x;
        EXPECT_LE(found, (cuts ? 2 : 1) * std::max(unit_roundoff(dtype), half_subnormal(dtype) / x))
            << dtype << ' ' << x;
      }
    }
}

// The operand of PV is rounded to after the probability. The normaliser does not see it.
TEST(LeaningRoundings, HaveTheOperandOfPvInOutputsAlone) {
  LeaningTrial trial(ATTEST_F16, kSums, ATTEST_F8E4M3);
  const std::vector<double> p(100, 0.965);
  const LeaningRoundings::Errors found = trial.find(p);
  EXPECT_GE(found.o[0], (0.965 - 0.9375) / 0.965 - 1e-3);
  EXPECT_LT(found.normaliser, unit_roundoff(ATTEST_F16));
}

TEST(LeaningRoundings, CancelWhereRoundingsGoBothWays) {
  LeaningTrial trial(ATTEST_F8E4M3, 0);
  std::vector<double> p;
  for (int n = 0; n < 4096; ++n) p.push_back(std::exp2(-n / 512.0));
  EXPECT_LT(trial.find(p).normaliser, 0.003);
}

TEST(LeaningRoundings, AreLookedForWhereProbabilitiesMayBeNearlyEqualOrAreOf8Bits) {
  const auto leans = [](DType probability, float softcap, DType operand = ATTEST_F32) {
    return LeaningTrial(probability, 0, operand, softcap).model.leans();
  };
  EXPECT_TRUE(leans(ATTEST_F16, 1));
  EXPECT_TRUE(leans(ATTEST_F32, 1, ATTEST_BF16));
  EXPECT_TRUE(leans(ATTEST_F8E4M3, 0));
  EXPECT_FALSE(leans(ATTEST_F16, 0));
  EXPECT_FALSE(leans(ATTEST_F16, 30));
  EXPECT_FALSE(leans(ATTEST_F32, 1));
}

}  // namespace
}  // namespace attest::core::passes
