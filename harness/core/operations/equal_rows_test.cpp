// Equal rows are grouped under their first place; rows that do not count are left out.
#include "core/operations/equal_rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace attest::core {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The rows of two numbers each; an empty one does not count.
EqualRows among(const std::vector<std::vector<double>>& rows) {
  return find_equal_rows(int64_t(rows.size()), 2, [&](int64_t place, double* row) {
    std::ranges::copy(rows[size_t(place)], row);
    return !rows[size_t(place)].empty();
  });
}

TEST(EqualRows, AreGroupedByTheirFirstPlace) {
  const EqualRows equal = among({{9, 9}, {1, 2}, {3, 4}, {1, 2}, {2, 1}, {3, 4}, {1, 2}});
  EXPECT_THAT(equal.group, ElementsAre(1, 1, 1, 2, 2));
  EXPECT_THAT(equal.place, ElementsAre(1, 3, 6, 2, 5));
  EXPECT_EQ(equal.group_end(0), 3u);
  EXPECT_EQ(equal.group_end(1), 3u);
  EXPECT_EQ(equal.group_end(3), 5u);
}

TEST(EqualRows, NeedEveryNumberAndCountOnlyWhatIsLoaded) {
  EXPECT_THAT(among({{1, 2}, {1, 3}, {2, 2}}).place, IsEmpty());
  EXPECT_THAT(among({{}, {1, 2}, {}, {}}).place, IsEmpty());
  EXPECT_THAT(among({{}, {1, 2}, {}, {1, 2}}).place, ElementsAre(1, 3));
  EXPECT_THAT(among({}).place, IsEmpty());
}

TEST(EqualRows, DifferByMoreThanTheSignOfZero) {
  EXPECT_THAT(among({{-0.0, 1}, {0.0, 1}}).place, ElementsAre(0, 1));
  EXPECT_THAT(among({{-1, 1}, {1, 1}}).place, IsEmpty());
}

TEST(EqualRows, AreTheSameWithManyThreads) {
  constexpr int64_t kRows = 100'000, kWidth = 64;  // enough of them for several threads
  const EqualRows equal = find_equal_rows(kRows, kWidth, [](int64_t place, double* row) {
    std::fill_n(row, kWidth, double(place % (kRows / 2)));
    return place % 10 != 3;
  });
  std::vector<int32_t> group, place;
  for (int32_t j = 0; j < kRows / 2; ++j)
    if (j % 10 != 3)
      for (const int32_t at : {j, j + int32_t(kRows / 2)}) {
        group.push_back(j);
        place.push_back(at);
      }
  EXPECT_EQ(equal.group, group);
  EXPECT_EQ(equal.place, place);
}

}  // namespace
}  // namespace attest::core
