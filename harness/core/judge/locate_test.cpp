// Where an output is wrong, on the smallest operation: y is 3 x, [rows, width].
#include "core/judge/locate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "testing/scale_operation.hpp"

namespace attest::core {
namespace {

using testing::kX;
using testing::kY;

class Locate : public ::testing::Test {
 protected:
  static constexpr int64_t kRows = 40, kWidth = 12;

  Locate() {
    tensors_[kX] = {problem_.tensor[kX], x_.data()};
    tensors_[kY] = {problem_.tensor[kY], y_.data()};
    problem_.operation->fill(problem_, {"random", 3}, tensors_, false);
    golden_ = problem_.operation->golden(problem_, {"random", 3}, tensors_);
    for (size_t i = 0; i < y_.size(); ++i) y_[i] = 3 * x_[i];
  }
  template <class Wrong>
  Location location(const Wrong& wrong) {
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t e = 0; e < kWidth; ++e)
        if (wrong(r, e)) y_[size_t(r * kWidth + e)] += 1;
    const auto found = locate(problem_, *golden_, {}, tensors_);
    EXPECT_TRUE(found);
    return found.value_or(Location{});
  }
  template <class Wrong>
  std::string words(const Wrong& wrong) {
    std::string text;
    for (const auto& [dim, indices] : location(wrong).parts)
      text += (text.empty() ? "" : "; ") + dim + ": " + indices;
    return text;
  }

  Problem problem_ = testing::scale_problem(kRows, kWidth);
  std::vector<float> x_ = std::vector<float>(kRows * kWidth), y_ = x_;
  Tensors tensors_{};
  std::unique_ptr<Golden> golden_;
};

TEST_F(Locate, FindsNothingInARightOutput) {
  EXPECT_FALSE(locate(problem_, *golden_, {}, tensors_));
  for (float& y : y_) y = std::nextafter(y, INFINITY);  // fails, but no element by itself
  EXPECT_FALSE(locate(problem_, *golden_, {}, tensors_));
}

TEST_F(Locate, CountsAndNamesFirstAndLast) {
  const Location found = location([](int64_t r, int64_t e) { return r >= 32 && r < 35 && e != 0; });
  EXPECT_EQ(found.tensor, "y");
  EXPECT_EQ(found.elements, kRows * kWidth);
  EXPECT_EQ(found.wrong_elements, 33);
  EXPECT_EQ(found.rows, kRows);
  EXPECT_EQ(found.wrong_rows, 3);
  EXPECT_EQ(found.first, (std::vector<int64_t>{32, 1}));
  EXPECT_EQ(found.last, (std::vector<int64_t>{34, 11}));
  ASSERT_TRUE(found.map);
  const std::string& cells = found.map->cells.at(0);  // a cell for each row
  ASSERT_EQ(cells.size(), size_t(kRows));
  for (size_t r = 0; r < cells.size(); ++r) EXPECT_EQ(cells[r] != '.', r >= 32 && r < 35) << r;
  EXPECT_EQ(print_location(found),
            "y: 33 of 480 elements are wrong, in 3 of 40 rows, from [32,1] to [34,11]; dim 0: 32 "
            "to 34; dim 1: 1 and up");
}

// Of most rows only a range is known. What is counted has to say so.
TEST_F(Locate, SaysHowManyRowsHaveATrueValue) {
  struct EverySecond final : Golden {
    void expect(const Arithmetic&, const Sink& sink) const override {
      const std::vector<double> value(kWidth, 3), sigma(kWidth, 1e-6), low(kWidth, 2),
          high(kWidth, 4);
      for (int64_t r = 0; r < kRows; ++r) {
        Expected chunk{.role = kY, .leading = 1, .width = kWidth, .rows = {&r, 1}};
        if (r % 2 == 0) {
          chunk.value = value.data();
          chunk.sigma = sigma.data();
        } else {
          chunk.low = low.data();
          chunk.high = high.data();
        }
        sink(chunk);
      }
    }
    std::string method() const override { return "every second row"; }
  };
  std::ranges::fill(y_, 3.0f);
  y_[0] = 3.5f;       // wrong
  y_[kWidth] = 3.5f;  // in its range
  y_[5 * kWidth] = 5;
  const auto found = locate(problem_, EverySecond(), {}, tensors_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->exact_rows, kRows / 2);
  EXPECT_EQ(print_location(*found),
            "y: 2 of 480 elements are wrong, in 2 of 40 rows (20 have their true values to compare "
            "with, the others a range), from [0,0] to [5,0]; dim 0: 2 of 40: 0, 5; dim 1: 0");
}

TEST_F(Locate, SaysNothingOfADimThatIsWrongEverywhere) {
  EXPECT_EQ(words([](int64_t, int64_t) { return true; }), "");
}

TEST_F(Locate, NamesTheLastTile) {
  EXPECT_EQ(words([](int64_t r, int64_t) { return r >= 32; }),
            "dim 0: 32 and up, the last tile of 16");
}

TEST_F(Locate, NamesAPeriod) {
  EXPECT_EQ(words([](int64_t, int64_t e) { return e % 4 == 1; }), "dim 1: 1, 5, 9 (every 4)");
}

TEST_F(Locate, NamesOneElement) {
  EXPECT_EQ(words([](int64_t r, int64_t e) { return r == 17 && e == 5; }), "dim 0: 17; dim 1: 5");
}

TEST_F(Locate, CountsNaN) {
  y_[5] = NAN;
  const Location found = location([](int64_t, int64_t) { return false; });
  EXPECT_EQ(found.first, (std::vector<int64_t>{0, 5}));
  EXPECT_EQ(found.wrong_elements, 1);
  ASSERT_TRUE(found.map);
  EXPECT_EQ(found.map->cells.at(0), "x" + std::string(kRows - 1, '.'));
}

}  // namespace
}  // namespace attest::core
