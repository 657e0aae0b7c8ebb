// The picture of an output's errors.
#include "core/judge/error_map.hpp"

#include <gtest/gtest.h>

#include "core/tensor/constants.hpp"
#include "testing/scale_operation.hpp"

namespace attest::core {
namespace {

// A tensor of three dims. The first two tell rows apart.
TensorSpec spec(int64_t lines, int64_t columns) {
  TensorSpec made;
  made.rank = 3;
  made.dim[0] = lines;
  made.dim[1] = columns;
  made.dim[2] = 4;
  return made;
}

std::vector<std::string> cells(const ErrorMapBuilder& builder) {
  return builder.map(*testing::scale_problem(1, 1).operation, testing::kY).cells;
}

TEST(ErrorMap, ShowsTheWorstErrorOfEachRow) {
  const TensorSpec two_by_five = spec(2, 5);
  ErrorMapBuilder builder(two_by_five, 2);
  builder.add({0, 0}, 0);
  builder.add({0, 1}, 1);
  builder.add({0, 2}, 1.001);
  builder.add({0, 3}, 10);
  builder.add({0, 4}, 10.001);
  builder.add({1, 0}, 1e9);
  builder.add({1, 1}, 1.001e9);
  builder.add({1, 2}, kInfinity);
  builder.add({1, 4}, 5);
  builder.add({1, 4}, 0.5);  // does not hide the worse one
  EXPECT_EQ(cells(builder), (std::vector<std::string>{"..112", "9xx 1"}));
}

TEST(ErrorMap, LetsManyRowsShareCells) {
  const TensorSpec large = spec(100, 1000);
  ErrorMapBuilder builder(large, 2);
  for (int64_t line = 0; line < 100; ++line)
    for (int64_t column = 0; column < 1000; ++column)
      builder.add({line, column}, line == 99 && column >= 992 ? 100 : 0);
  const std::vector<std::string> found = cells(builder);
  ASSERT_EQ(found.size(), size_t(ErrorMapBuilder::kMostLines));
  for (size_t line = 0; line + 1 < found.size(); ++line)
    EXPECT_EQ(found[line], std::string(ErrorMapBuilder::kMostColumns, '.'));
  EXPECT_EQ(found.back(), std::string(ErrorMapBuilder::kMostColumns - 2, '.') + "22");
}

TEST(ErrorMap, NamesItsDims) {
  const TensorSpec two_by_five = spec(2, 5);
  const ErrorMap map =
      ErrorMapBuilder(two_by_five, 2).map(*testing::scale_problem(1, 1).operation, testing::kY);
  EXPECT_EQ(map.columns, 5);
  EXPECT_EQ(map.lines, 2);
  EXPECT_EQ(map.across, "dim 1");
  EXPECT_EQ(map.down, "dim 0");
}

}  // namespace
}  // namespace attest::core
