// The judge on the smallest operation: what passes, what fails and by which name, at which element.
#include "core/judge/check.hpp"
#include "core/judge/element.hpp"
#include "core/judge/gates.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "core/operations/unsure.hpp"
#include "testing/scale_operation.hpp"

namespace attest::core {
namespace {

using testing::kX;
using testing::kY;

class Check : public ::testing::Test {
 protected:
  static constexpr int64_t kRows = 40, kWidth = 12;

  Check() {
    tensors_[kX] = {problem_.tensor[kX], x_.data()};
    tensors_[kY] = {problem_.tensor[kY], y_.data()};
    problem_.operation->fill(problem_, {"random", 3}, tensors_, false);
    golden_ = problem_.operation->golden(problem_, {"random", 3}, tensors_);
    for (size_t i = 0; i < y_.size(); ++i) y_[i] = 3 * x_[i];
  }
  Judgement judged() { return judge(problem_, *golden_, {}, tensors_); }

  Problem problem_ = testing::scale_problem(kRows, kWidth);
  std::vector<float> x_ = std::vector<float>(kRows * kWidth), y_ = x_;
  Tensors tensors_{};
  std::unique_ptr<Golden> golden_;
};

TEST_F(Check, PassesTheRightAnswer) {
  const Judgement judgement = judged();
  EXPECT_EQ(judgement.outcome.verdict(), Verdict::kPass) << judgement.outcome.reason;
  EXPECT_EQ(judgement.exact_elements, kRows * kWidth);
  EXPECT_LE(judgement.max_ratio, 1);
  EXPECT_EQ(judgement.outcome.code, ReasonCode::kPass);
}

// What nobody judged did not pass.
TEST_F(Check, IsAnErrorWhereAnOutputIsNotJudged) {
  struct Silent final : Golden {
    void expect(const Arithmetic&, const Sink&) const override {}
    std::string method() const override { return "none"; }
  };
  const Judgement judgement = judge(problem_, Silent(), {}, tensors_);
  EXPECT_EQ(judgement.outcome.code, ReasonCode::kErrorGolden);
  EXPECT_EQ(judgement.outcome.reason, "the golden judged no element of y");
}

TEST_F(Check, FailsOneWrongElementAndNamesIt) {
  const size_t at = 17 * kWidth + 5;
  y_[at] *= 1 + 4e-7f;  // some 6 ulp
  const Judgement judgement = judged();
  EXPECT_EQ(judgement.outcome.code, ReasonCode::kFailTolerance);
  ASSERT_TRUE(judgement.worst);
  EXPECT_EQ(judgement.worst->index, (std::vector<int64_t>{17, 5}));
  EXPECT_EQ(judgement.worst->got, double(y_[at]));
  EXPECT_EQ(judgement.worst->tensor, "y");
  EXPECT_NE(judgement.outcome.reason.find("y[17,5]"), std::string::npos)
      << judgement.outcome.reason;
}

// Every element a little off: no largest error beyond its gate, and still wrong.
TEST_F(Check, FailsASmallErrorEverywhere) {
  for (float& y : y_) y = std::nextafter(y, INFINITY);
  const Judgement judgement = judged();
  EXPECT_LE(judgement.max_ratio, 1);
  EXPECT_GT(judgement.rms_ratio, 1);
  EXPECT_EQ(judgement.outcome.code, ReasonCode::kFailTolerance);
}

// Twice the error of rounding is within the gates for all elements; that all of it points the same
// way says what it is.
TEST_F(Check, FailsWhatIsCutInPlaceOfRounded) {
  constexpr float kFactor = 0.7f;  // products of all mantissas
  problem_.as<testing::ScaleParams>().factor = kFactor;
  const auto cut = [](double value) {
    const auto near = float(value);
    return std::fabs(double(near)) > std::fabs(value) ? std::nextafter(near, 0.0f) : near;
  };
  for (size_t i = 0; i < y_.size(); ++i) y_[i] = kFactor * x_[i];
  EXPECT_EQ(judged().outcome.verdict(), Verdict::kPass);
  for (size_t i = 0; i < y_.size(); ++i) y_[i] = cut(double(kFactor) * double(x_[i]));
  const Judgement judgement = judged();
  EXPECT_LE(judgement.max_ratio, 1);
  EXPECT_EQ(judgement.outcome.code, ReasonCode::kFailOneSided);
  EXPECT_NE(judgement.outcome.reason.find("y errs towards 0"), std::string::npos)
      << judgement.outcome.reason;
}

// What half-precision normalisers do: errors twice as large as rounding makes them, either way. One
// of 3 sigma may be.
TEST_F(Check, FailsElementsThatErrByMoreThanTheirOwnRounding) {
  constexpr float kFactor = 0.7f;
  problem_.as<testing::ScaleParams>().factor = kFactor;
  const auto rounded = [&](size_t i, int ulps) {
    float y = kFactor * x_[i];
    for (int n = 0; n < ulps; ++n) y = std::nextafter(y, i % 2 ? INFINITY : -INFINITY);
    return y;
  };
  for (size_t i = 0; i < y_.size(); ++i) y_[i] = rounded(i, i == 100 ? 2 : 0);
  EXPECT_EQ(judged().outcome.verdict(), Verdict::kPass) << judged().outcome.reason;
  for (size_t i = 0; i < y_.size(); ++i) y_[i] = rounded(i, i % 3 == 0 ? 1 : 0);
  const Judgement judgement = judged();
  EXPECT_LE(judgement.max_ratio, 1);
  EXPECT_EQ(judgement.outcome.code, ReasonCode::kFailTolerance);
  EXPECT_NE(judgement.outcome.reason.find("little but their own rounding"), std::string::npos)
      << judgement.outcome.reason;
}

// The gate closes in on what is known of roundings as there are more of them.
TEST(Gates, RoundedElementsHaveAQuantileOfTheirOwn) {
  const double mean = 0.54, deviation = 0.5;
  EXPECT_NEAR(Gates::rounded_rms(mean, deviation, 1e8), std::sqrt(mean), 1e-3);
  EXPECT_LT(Gates::rounded_rms(mean, deviation, Gates::kFewestRounded), Gates::kRms);
  for (double n = Gates::kFewestRounded; n < 1e6; n *= 2)
    EXPECT_GT(Gates::rounded_rms(mean, deviation, n), Gates::rounded_rms(mean, deviation, 2 * n));
}

// The mean of few roundings may be anything.
TEST_F(Check, DoesNotAskFewElementsForTheirMean) {
  EXPECT_GT(Gates::one_sided(Gates::kFewestRounded), 0.9);
  EXPECT_LT(Gates::one_sided(1e6), 0.71);
  Problem one = testing::scale_problem(1, kWidth);
  std::vector<float> x(kWidth, 1 + 0x1p-23f), y(kWidth, 3.0f);  // 3 (1 + 2^-23) is cut to 3 + 2^-22
  for (float& each : y) each = std::nextafter(3.0f, 4.0f);
  Tensors tensors{};
  tensors[kX] = {one.tensor[kX], x.data()};
  tensors[kY] = {one.tensor[kY], y.data()};
  const auto golden = one.operation->golden(one, {"random", 3}, tensors);
  EXPECT_EQ(judge(one, *golden, {}, tensors).outcome.verdict(), Verdict::kPass);
}

TEST_F(Check, FailsNaNAndInfinity) {
  for (const float bad : {NAN, INFINITY}) {
    const float kept = y_[100];
    y_[100] = bad;
    const Judgement judgement = judged();
    EXPECT_EQ(judgement.outcome.code, ReasonCode::kFailNan);
    EXPECT_EQ(judgement.max_ratio, INFINITY);
    y_[100] = kept;
  }
}

TEST_F(Check, AsksForNaNWhereTheGoldenIsNaN) {
  x_[30] = NAN;
  y_[30] = NAN;
  EXPECT_EQ(judged().outcome.verdict(), Verdict::kPass);
  y_[30] = 1;
  EXPECT_EQ(judged().outcome.code, ReasonCode::kFailNan);
}

TEST_F(Check, InfinityMatchesInSign) {
  x_[30] = INFINITY;
  y_[30] = INFINITY;
  EXPECT_EQ(judged().outcome.verdict(), Verdict::kPass);
  y_[30] = -INFINITY;
  EXPECT_EQ(judged().outcome.code, ReasonCode::kFailNan);
}

TEST_F(Check, NamesPoison) {
  const uint64_t poison = poison_bits(ATTEST_F32);
  std::memcpy(&y_[200], &poison, sizeof(float));
  EXPECT_EQ(judged().outcome.code, ReasonCode::kFailUnwritten);
}

TEST_F(Check, SuspectsZerosAndConstants) {
  std::fill(y_.begin(), y_.end(), 0.0f);
  EXPECT_EQ(judged().outcome.code, ReasonCode::kSuspectZeros);
  std::fill(y_.begin(), y_.end(), 0.25f);
  EXPECT_EQ(judged().outcome.code, ReasonCode::kSuspectConstant);
}

// A golden that sweeps: nothing exact but one row, the rest within a range.
class SweepGolden final : public Golden {
 public:
  void expect(const Arithmetic&, const Sink& sink) const override {
    std::vector<int64_t> rows(Check_rows - 1);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = int64_t(i) + 1;
    const std::vector<double> low(12, -20.0), high(12, 20.0), value(12, 1.0), sigma(12, 1.0);
    const int64_t first = 0;
    sink({.role = kY,
          .leading = 1,
          .width = 12,
          .rows = {&first, 1},
          .shared = true,
          .value = value.data(),
          .sigma = sigma.data()});
    sink({.role = kY,
          .leading = 1,
          .width = 12,
          .rows = rows,
          .shared = true,
          .low = low.data(),
          .high = high.data()});
  }
  std::string method() const override { return "test"; }
  static constexpr size_t Check_rows = 40;
};

TEST_F(Check, SweepsFindPoisonAndWildValues) {
  const SweepGolden golden;
  for (int64_t i = 0; i < kWidth; ++i) y_[size_t(i)] = 1;
  EXPECT_EQ(judge(problem_, golden, {}, tensors_).outcome.verdict(), Verdict::kPass);
  EXPECT_EQ(judge(problem_, golden, {}, tensors_).swept_elements, 39 * 12);
  const float kept = y_[300];
  y_[300] = 20.5f;
  EXPECT_EQ(judge(problem_, golden, {}, tensors_).outcome.code, ReasonCode::kFailRange);
  const uint64_t poison = poison_bits(ATTEST_F32);
  std::memcpy(&y_[300], &poison, sizeof(float));
  EXPECT_EQ(judge(problem_, golden, {}, tensors_).outcome.code, ReasonCode::kFailUnwritten);
  y_[300] = NAN;
  EXPECT_EQ(judge(problem_, golden, {}, tensors_).outcome.code, ReasonCode::kFailNan);
  y_[300] = kept;
}

// The golden expects 1 in each element of a row.
void expect_ones(int64_t row, const std::vector<double>& sigma, const Golden::Sink& sink) {
  const std::vector<double> value(sigma.size(), 1.0);
  sink({.role = kY,
        .leading = 1,
        .width = int64_t(sigma.size()),
        .rows = {&row, 1},
        .value = value.data(),
        .sigma = sigma.data()});
}

// A golden of one row; rounding decides whether its elements from 5 on, up to `end`, are numbers.
class UnsureGolden final : public Golden {
 public:
  explicit UnsureGolden(int64_t end = 6) : end_(end) {}
  void expect(const Arithmetic&, const Sink& sink) const override {
    std::vector<double> sigma(12, 1e-3);
    std::fill(sigma.begin() + 5, sigma.begin() + end_, kUnsure);
    expect_ones(0, sigma, sink);
  }
  std::string method() const override { return "test"; }

 private:
  int64_t end_;
};

TEST_F(Check, AcceptsAnythingWrittenWhereRoundingDecides) {
  const UnsureGolden golden;
  std::fill_n(y_.begin(), kWidth, 1.0f);
  for (const float either : {1.0f, -5.0f, INFINITY, NAN}) {
    y_[5] = either;
    const Judgement judgement = judge(problem_, golden, {}, tensors_);
    EXPECT_EQ(judgement.outcome.verdict(), Verdict::kPass) << either;
    EXPECT_EQ(judgement.max_ratio, 0) << either;
    EXPECT_EQ(judgement.exact_elements, 11) << either;
  }
  const uint64_t poison = poison_bits(ATTEST_F32);
  std::memcpy(&y_[5], &poison, sizeof(float));
  EXPECT_EQ(judge(problem_, golden, {}, tensors_).outcome.code, ReasonCode::kFailUnwritten);
  y_[5] = 1;
  y_[6] = NAN;
  EXPECT_EQ(judge(problem_, golden, {}, tensors_).outcome.code, ReasonCode::kFailNan);
}

// The root mean square is over the elements whose errors are known.
TEST_F(Check, LeavesWhatRoundingDecidesOutOfTheMean) {
  std::fill_n(y_.begin(), kWidth, 1.0f);
  for (size_t e = 0; e < 5; ++e) y_[e] += 2e-3f;
  EXPECT_NEAR(judge(problem_, UnsureGolden(12), {}, tensors_).rms_ratio, 2 / Gates::rms(1), 1e-3);
}

// Rounding decides all elements of its rows but those of the first.
class OneKnownRow final : public Golden {
 public:
  void expect(const Arithmetic&, const Sink& sink) const override {
    for (int64_t row = 0; row < 40; ++row)
      expect_ones(row, std::vector<double>(12, row == 0 ? 1e-3 : kUnsure), sink);
  }
  std::string method() const override { return "test"; }
};

// The gate of the root mean square is that of the rows of which something is known.
TEST_F(Check, RowsThatRoundingDecidesDoNotTightenTheGate) {
  ASSERT_GT(Gates::rms(1), Gates::rms(kRows));
  std::ranges::fill(y_, 1.0f);
  for (int64_t e = 0; e < kWidth; ++e) y_[size_t(e)] += 1e-3f;
  EXPECT_NEAR(judge(problem_, OneKnownRow(), {}, tensors_).rms_ratio, 1 / Gates::rms(1), 1e-3);
}

// An infinity among the inputs may make sigma infinite, too: that excuses nothing.
TEST(ErrorInSigmas, AnInfiniteSigmaIsNotUnsure) {
  EXPECT_EQ(error_in_sigmas(INFINITY, INFINITY, INFINITY, ATTEST_F32), 0);
  EXPECT_EQ(error_in_sigmas(INFINITY, 1, INFINITY, ATTEST_F32), INFINITY);
  EXPECT_EQ(error_in_sigmas(NAN, 1, INFINITY, ATTEST_F32), INFINITY);
  EXPECT_EQ(error_in_sigmas(NAN, 1, kUnsure, ATTEST_F32), 0);
}

// A golden that gives its rows from several threads at once, one of them with a wrong element.
class ThreadedGolden final : public Golden {
 public:
  void expect(const Arithmetic&, const Sink& sink) const override {
    std::vector<std::thread> threads;
    for (int64_t first = 0; first < 4; ++first) {
      threads.emplace_back([&sink, first] {
        const std::vector<double> sigma(12, 1e-3);
        for (int64_t row = first; row < 40; row += 4) expect_ones(row, sigma, sink);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  std::string method() const override { return "test"; }
};

TEST_F(Check, MergesWhatSeveralThreadsFind) {
  std::fill(y_.begin(), y_.end(), 1.0f);
  y_[13 * 12 + 7] = 1.5f;
  y_[29 * 12 + 3] = 1.5f;  // equally wrong: the first is named
  const Judgement judgement = judge(problem_, ThreadedGolden(), {}, tensors_);
  EXPECT_EQ(judgement.exact_elements, 480);
  EXPECT_EQ(judgement.worst->index, (std::vector<int64_t>{13, 7}));
  EXPECT_NEAR(judgement.rms_ratio, std::sqrt(2 * 500.0 * 500.0 / 480) / Gates::rms(40), 1e-6);
}

// A golden that says nothing must not be taken for a pass.
class SilentGolden final : public Golden {
 public:
  void expect(const Arithmetic&, const Sink&) const override {}
  std::string method() const override { return "nothing"; }
};

TEST_F(Check, NothingJudgedIsAnError) {
  EXPECT_EQ(judge(problem_, SilentGolden(), {}, tensors_).outcome.code, ReasonCode::kErrorGolden);
}

// Over few rows a mean is not much steadier than a single error, and elements of a row share what
// is wrong with it.
TEST(Gates, RootMeanSquareAllowsForFewRows) {
  EXPECT_EQ(Gates::rms(1), Gates::kLargest);
  EXPECT_EQ(Gates::rms(95), Gates::kRms);
  EXPECT_EQ(Gates::rms(1'000'000), Gates::kRms);
  for (int64_t rows = 1; rows < 200; ++rows) EXPECT_GE(Gates::rms(rows), Gates::rms(rows + 1));
}

// One row in which every element is 2 sigma off, as one of twenty honest rows is whose elements
// share one error.
TEST_F(Check, OneRowMayBeOffAllTogether) {
  Problem one = testing::scale_problem(1, kWidth);
  std::vector<float> x(kWidth), y(kWidth);
  Tensors tensors{};
  tensors[kX] = {one.tensor[kX], x.data()};
  tensors[kY] = {one.tensor[kY], y.data()};
  one.operation->fill(one, {"random", 3}, tensors, false);
  const auto golden = one.operation->golden(one, {"random", 3}, tensors);
  golden->expect({}, [&](const Expected& e) {
    for (int64_t i = 0; e.value && i < e.width; ++i)
      y[size_t(i)] = float(e.value[i] + 2 * e.sigma[i]);
  });
  const Judgement judgement = judge(one, *golden, {}, tensors);
  EXPECT_EQ(judgement.outcome.verdict(), Verdict::kPass) << judgement.outcome.reason;
  EXPECT_GT(judgement.max_ratio, 0.25);
}

// A golden whose sigmas are a hundred times too small: what a mistake in a tolerance would be.
class TooStrict final : public Golden {
 public:
  explicit TooStrict(const Golden& golden) : golden_(golden) {}
  void expect(const Arithmetic& arithmetic, const Sink& sink) const override {
    golden_.expect(arithmetic, [&](const Expected& e) {
      std::vector<double> sigma(e.sigma, e.sigma + e.rows.size() * size_t(e.width));
      for (double& x : sigma) x /= 100;
      Expected strict = e;
      strict.sigma = sigma.data();
      sink(strict);
    });
  }
  std::string method() const override { return golden_.method(); }

 private:
  const Golden& golden_;
};

TEST_F(Check, AToleranceThatHonestArithmeticExceedsIsTheHarnessesFault) {
  const TooStrict strict(*golden_);
  EXPECT_EQ(judge(problem_, strict, {}, tensors_).outcome.code, ReasonCode::kFailTolerance)
      << "without the inputs nothing can be emulated";
  const Judgement judgement = judge(problem_, strict, {}, tensors_, &tensors_);
  EXPECT_EQ(judgement.outcome.verdict(), Verdict::kError);
  EXPECT_EQ(judgement.outcome.code, ReasonCode::kErrorToleranceModel);
  EXPECT_NE(judgement.outcome.reason.find("of y is"), std::string::npos)
      << judgement.outcome.reason;
}

// Even where an emulation exceeds the gate, what is far beyond the emulation is wrong: the excess
// is said beside it.
TEST_F(Check, AFailureWellBeyondTheEmulationStaysOne) {
  const TooStrict strict(*golden_);
  const size_t at = 33 * kWidth + 2;
  y_[at] *= 1.001f;
  const Judgement judgement = judge(problem_, strict, {}, tensors_, &tensors_);
  EXPECT_EQ(judgement.outcome.code, ReasonCode::kFailTolerance);
  EXPECT_NE(judgement.outcome.reason.find("y[33,2]"), std::string::npos)
      << judgement.outcome.reason;
  EXPECT_NE(judgement.outcome.reason.find("emulated, exceeds the gate itself"), std::string::npos)
      << judgement.outcome.reason;
  y_[at] = 3 * x_[at] * (1 + 1.2e-7f);  // as far as the emulation gets, and a little further
  EXPECT_EQ(judge(problem_, strict, {}, tensors_, &tensors_).outcome.code,
            ReasonCode::kErrorToleranceModel);
}

TEST_F(Check, AWrongAnswerIsTheImplementations) {
  y_[33 * kWidth + 2] *= 1 + 4e-7f;
  EXPECT_EQ(judge(problem_, *golden_, {}, tensors_, &tensors_).outcome.code,
            ReasonCode::kFailTolerance);
  for (float& y : y_) y *= 1 + 2e-7f;
  EXPECT_EQ(judge(problem_, *golden_, {}, tensors_, &tensors_).outcome.code,
            ReasonCode::kFailTolerance);
  y_.assign(y_.size(), 1);
  EXPECT_EQ(judge(problem_, *golden_, {}, tensors_, &tensors_).outcome.verdict(), Verdict::kSuspect)
      << "other verdicts stay what they are";
}

}  // namespace
}  // namespace attest::core
