// Claims about several runs: to the bit, within twice the gate, and neither where one run has what
// no error explains.
#include "core/judge/relation_check.hpp"
#include "core/judge/gates.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "core/operations/unsure.hpp"
#include "testing/scale_operation.hpp"

namespace attest::core {
namespace {

using testing::kX;
using testing::kY;

class RelationCheck : public ::testing::Test {
 protected:
  static constexpr int64_t kRows = 10, kWidth = 8, kCount = kRows * kWidth;

  RelationCheck() {
    for (Tensors* outputs : {&first_, &second_}) (*outputs)[kX] = {problem_.tensor[kX], x_.data()};
    problem_.operation->fill(problem_, {"random", 3}, first_, false);
    for (size_t i = 0; i < kCount; ++i) y_[i] = again_[i] = 3 * x_[i];
    first_[kY] = {problem_.tensor[kY], y_.data()};
    second_[kY] = {problem_.tensor[kY], again_.data()};
  }

  Judgement judged(bool deterministic) {
    return judged(deterministic, *problem_.operation->golden(problem_, {}, first_));
  }
  Judgement judged(bool deterministic, const Golden& golden) {
    const SigmaTable sigmas(problem_, golden, {});
    const auto relation = repetition(problem_, first_);
    const RelationRun base{problem_, first_, first_, &sigmas}, run{problem_, second_, second_};
    return judge_relation(*relation, base, {&run, 1}, deterministic);
  }

  Problem problem_ = testing::scale_problem(kRows, kWidth);
  std::vector<float> x_ = std::vector<float>(kCount), y_ = x_, again_ = x_;
  Tensors first_{}, second_{};
};

TEST_F(RelationCheck, PassesWhatIsTheSame) {
  y_[9] = again_[9] = NAN;
  y_[10] = again_[10] = -INFINITY;
  for (const bool deterministic : {true, false}) {
    const Judgement judgement = judged(deterministic);
    EXPECT_EQ(judgement.outcome.verdict(), Verdict::kPass) << judgement.outcome.reason;
    EXPECT_EQ(judgement.exact_elements, kCount);
    EXPECT_EQ(judgement.max_ratio, 0);
  }
}

TEST_F(RelationCheck, AsksForTheSameBitsOfADeterministicOneAlone) {
  const size_t at = 3 * kWidth + 5;
  again_[at] = std::nextafter(again_[at], INFINITY);
  const Judgement judgement = judged(true);
  EXPECT_EQ(judgement.outcome.code, ReasonCode::kFailRepetition);
  ASSERT_TRUE(judgement.worst);
  EXPECT_EQ(judgement.worst->index, (std::vector<int64_t>{3, 5}));
  EXPECT_EQ(judged(false).outcome.verdict(), Verdict::kPass);
}

// 6 sigma each way, sigma = u |y| / sqrt 3: twice the gate is 6.9 u |y|, and an ulp is between one
// and two of u |y|.
TEST_F(RelationCheck, FailsBeyondTwiceTheGate) {
  for (const double sigmas : {10.0, 13.5}) {
    again_ = y_;
    again_[20] = float(double(y_[20]) * (1 + sigmas * 0x1p-24 / std::sqrt(3)));
    const double got = std::fabs(double(again_[20]) / double(y_[20]) - 1) * std::sqrt(3) *
                       0x1p24;  // as it was rounded
    const Judgement judgement = judged(false);
    EXPECT_NEAR(judgement.max_ratio, got / 12, 1e-6);
    EXPECT_EQ(judgement.outcome.code, got > 12 ? ReasonCode::kFailRepetition : ReasonCode::kPass);
  }
}

// Rounding decides whether element 3 of each row is a number.
class UnsureThird final : public Golden {
 public:
  void expect(const Arithmetic&, const Sink& sink) const override {
    const std::vector<double> value(8, 1.0);
    std::vector<double> sigma(8, 1e-3);
    sigma[3] = kUnsure;
    for (int64_t row = 0; row < 10; ++row)
      sink({.role = kY,
            .leading = 1,
            .width = 8,
            .rows = {&row, 1},
            .value = value.data(),
            .sigma = sigma.data()});
  }
  std::string method() const override { return "test"; }
};

TEST_F(RelationCheck, ComparesNothingOfWhichRoundingDecides) {
  const UnsureThird golden;
  again_[3] = NAN;
  again_[kWidth + 3] = INFINITY;
  again_[2 * kWidth + 3] = 7;
  const Judgement judgement = judged(false, golden);
  EXPECT_EQ(judgement.outcome.verdict(), Verdict::kPass) << judgement.outcome.reason;
  EXPECT_EQ(judgement.exact_elements, kCount - kRows);
  // A deterministic kernel repeats that as well.
  EXPECT_EQ(judged(true, golden).outcome.code, ReasonCode::kFailRepetition);
  again_[4] = NAN;
  EXPECT_EQ(judged(false, golden).outcome.code, ReasonCode::kFailRepetition);
}

// Ten rows are too few for the gate of many: their errors may agree.
TEST_F(RelationCheck, TakesTheRmsGateOfItsRows) {
  for (size_t i = 0; i < kCount; ++i)
    again_[i] = float(double(y_[i]) * (1 + 4 * 0x1p-24 / std::sqrt(3)));
  const Judgement judgement = judged(false);
  double squares = 0;
  for (size_t i = 0; i < kCount; ++i) {
    const double sigmas = (double(again_[i]) - double(y_[i])) /
                          std::max(std::fabs(double(y_[i])), 1e-30) * std::sqrt(3) * 0x1p24 / 2;
    squares += sigmas * sigmas;
  }
  EXPECT_NEAR(judgement.rms_ratio, std::sqrt(squares / double(kCount)) / Gates::rms(kRows), 1e-6);
}

TEST_F(RelationCheck, FailsANumberBesideNaN) {
  again_[7] = NAN;
  EXPECT_EQ(judged(false).max_ratio, INFINITY);
  EXPECT_EQ(judged(false).outcome.code, ReasonCode::kFailRepetition);
}

}  // namespace
}  // namespace attest::core
