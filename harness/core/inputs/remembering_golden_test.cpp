#include "core/inputs/remembering_golden.hpp"

#include <gtest/gtest.h>

#include <tuple>

namespace attest::core {
namespace {

/// Expects `rows` rows of four elements and bounds of one more row, and counts how often.
class CountingGolden final : public Golden {
 public:
  explicit CountingGolden(int& count, int64_t rows = 2) : count_(count) {
    for (int64_t row = 0; row < rows; ++row) rows_.push_back(row);
  }

  void expect(const Arithmetic& arithmetic, const Sink& sink) const override {
    ++count_;
    if (arithmetic.output == ATTEST_F64) throw GoldenRefused("the host differs");
    const std::vector<double> value(4 * rows_.size(), 3);
    const std::vector<double> sigma(4 * rows_.size(), arithmetic.output == ATTEST_F16 ? 0.5 : 0.25);
    const std::vector<int64_t> swept{7, 8};
    const std::vector<double> low{-1, -2, -3, -4}, high{1, 2, 3, 4};
    sink({.role = 1,
          .leading = 3,
          .width = 4,
          .rows = rows_,
          .value = value.data(),
          .sigma = sigma.data()});
    sink({.role = 2,
          .leading = 2,
          .width = 4,
          .rows = swept,
          .shared = true,
          .low = low.data(),
          .high = high.data()});
  }
  std::string method() const override { return "float64"; }

 private:
  int& count_;
  std::vector<int64_t> rows_;
};

using Numbers = std::vector<double>;
using Seen = std::vector<
    std::tuple<int32_t, int, int64_t, bool, std::vector<int64_t>, Numbers, Numbers, Numbers>>;

Seen chunks_of(const Golden& golden, DType output) {
  Seen seen;
  golden.expect({.output = output}, [&](const Expected& chunk) {
    const size_t count = (chunk.shared ? 1 : chunk.rows.size()) * size_t(chunk.width);
    const auto numbers = [&](const double* from) {
      return from ? Numbers(from, from + count) : Numbers();
    };
    EXPECT_EQ(chunk.value == nullptr, chunk.sigma == nullptr);
    EXPECT_EQ(chunk.low == nullptr, chunk.high == nullptr);
    Numbers second = numbers(chunk.sigma);
    for (const double number : numbers(chunk.high)) second.push_back(number);
    seen.emplace_back(chunk.role, chunk.leading, chunk.width, chunk.shared,
                      std::vector<int64_t>(chunk.rows.begin(), chunk.rows.end()),
                      numbers(chunk.value), numbers(chunk.low), second);
  });
  return seen;
}

TEST(RememberingGolden, PassesTheSameChunksAgain) {
  int count = 0;
  const CountingGolden plain(count);
  const Seen f32 = chunks_of(plain, ATTEST_F32), f16 = chunks_of(plain, ATTEST_F16);
  EXPECT_NE(f32, f16);
  count = 0;
  const RememberingGolden golden(std::make_unique<CountingGolden>(count));
  for (int n = 0; n < 3; ++n) {
    EXPECT_EQ(chunks_of(golden, ATTEST_F32), f32);
    EXPECT_EQ(chunks_of(golden, ATTEST_F16), f16);
  }
  EXPECT_EQ(count, 2);
}

// Of two arithmetics that do not fit together, it keeps the later one.
TEST(RememberingGolden, KeepsNoMoreThanItMay) {
  constexpr int64_t kNumbersOfRow = 9;
  int count = 0;
  const RememberingGolden one_fits(std::make_unique<CountingGolden>(
      count, int64_t(RememberingGolden::kMostNumbers) / kNumbersOfRow - 10));
  for (const auto& [output, expected] : {std::pair(ATTEST_F32, 1),
                                         {ATTEST_F32, 1},
                                         {ATTEST_F16, 2},
                                         {ATTEST_F16, 2},
                                         {ATTEST_F32, 3}}) {
    chunks_of(one_fits, output);
    EXPECT_EQ(count, expected);
  }
  count = 0;
  const RememberingGolden large(std::make_unique<CountingGolden>(
      count, int64_t(RememberingGolden::kMostNumbers) / kNumbersOfRow + 1));
  EXPECT_EQ(chunks_of(large, ATTEST_F32), chunks_of(large, ATTEST_F32));
  EXPECT_EQ(count, 2);
}

TEST(RememberingGolden, KeepsNothingThatWasRefused) {
  int count = 0;
  const RememberingGolden golden(std::make_unique<CountingGolden>(count));
  for (int n = 1; n <= 2; ++n) {
    EXPECT_THROW(chunks_of(golden, ATTEST_F64), GoldenRefused);
    EXPECT_EQ(count, n);
  }
}

}  // namespace
}  // namespace attest::core
