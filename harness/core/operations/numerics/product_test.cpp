// Products of every shape of tile against plain loops, and the order of their sums, on every
// instruction set of this machine.
#include "core/operations/numerics/product.hpp"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

// Runs `body` once for every instruction set that this machine has.
void on_every_target(const std::function<void()>& body) {
  for (auto targets = hwy::SupportedTargets(); targets != 0; targets &= targets - 1) {
    hwy::SetSupportedTargetsForTest(targets & -targets);
    SCOPED_TRACE(hwy::TargetName(targets & -targets));
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
}

std::vector<double> random_numbers(uint64_t seed, int64_t count) {
  std::vector<double> numbers(static_cast<size_t>(count));
  for (size_t n = 0; n < numbers.size(); ++n) numbers[n] = double(random_normal(seed, n));
  return numbers;
}

constexpr int64_t kInner = 37, kColumns = 40;  // two vectors at a time leave one of 8 numbers

// Rows that are padded by 3 numbers, `left` by channels or by rows.
void expect_product(int64_t rows, bool transposed, bool one_by_one) {
  SCOPED_TRACE(::testing::Message() << rows << " rows" << (transposed ? ", transposed" : "")
                                    << (one_by_one ? ", one by one" : ""));
  const int64_t right_row = kColumns + 3, sum_row = kColumns + 5;
  const std::vector<double> left = random_numbers(1, rows * kInner),
                            right = random_numbers(2, kInner * right_row),
                            before = random_numbers(3, rows * sum_row);
  const LeftFactor factor{left.data(), transposed ? 1 : kInner, transposed ? rows : 1};
  std::vector<double> sum = before;
  (one_by_one ? add_terms : add_product)(factor, {right.data(), right_row}, {sum.data(), sum_row},
                                         {rows, kInner, kColumns});
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < sum_row; ++c) {
      double expected = before[size_t(r * sum_row + c)];
      for (int64_t n = 0; c < kColumns && n < kInner; ++n)
        expected += left[size_t(r * factor.row_stride + n * factor.column_stride)] *
                    right[size_t(n * right_row + c)];
      ASSERT_NEAR(sum[size_t(r * sum_row + c)], expected, 1e-13) << r << " " << c;
    }
}

TEST(Product, IsThatOfPlainLoops) {
  on_every_target([] {
    for (int64_t rows = 1; rows <= 17; ++rows)
      for (const bool transposed : {false, true})
        for (const bool one_by_one : {false, true}) expect_product(rows, transposed, one_by_one);
  });
}

// 1 and 2^53 are 2^53 in float64, and 2^53 - 2^53 + 1 is 1.
TEST(Product, SumsTermsApartOrOneByOne) {
  on_every_target([] {
    for (const int64_t rows : {1, 4, 6}) {
      std::vector<double> ones(static_cast<size_t>(rows * 2), 1.0), right(2 * kProductColumns);
      std::fill_n(right.begin(), kProductColumns, 0x1p53);
      std::fill_n(right.begin() + kProductColumns, kProductColumns, -0x1p53);
      const ProductShape shape{.rows = rows, .inner = 2, .columns = kProductColumns};
      std::vector<double> apart(static_cast<size_t>(rows * kProductColumns), 1.0),
          one_by_one = apart;
      add_product({ones.data(), 2}, {right.data(), kProductColumns},
                  {apart.data(), kProductColumns}, shape);
      add_terms({ones.data(), 2}, {right.data(), kProductColumns},
                {one_by_one.data(), kProductColumns}, shape);
      EXPECT_EQ(apart, std::vector<double>(apart.size(), 1.0)) << rows;
      EXPECT_EQ(one_by_one, std::vector<double>(apart.size(), 0.0)) << rows;
    }
  });
}

}  // namespace
}  // namespace attest::core
