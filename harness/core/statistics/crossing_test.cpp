// Crossings are pairs of measured sizes; what is not told apart widens them.
#include "core/statistics/crossing.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace attest::core {
namespace {

// Values with intervals of +- 1 %, at sizes 1, 2, 4, 8 ...
std::vector<Sized> series(const std::vector<double>& values) {
  std::vector<Sized> all;
  double size = 1;
  for (const double value : values) {
    if (value > 0) all.push_back({size, value, value * 0.99, value * 1.01});
    size *= 2;
  }
  return all;
}

TEST(Crossing, IsThePairOfSizesWhereTheOrderChanges) {
  const Crossings found = find_crossings(series({1, 4, 16, 64}), series({10, 12, 14, 16}), 0.05);
  ASSERT_EQ(found.crossings.size(), 1u);
  EXPECT_EQ(found.crossings[0].last, 2);
  EXPECT_EQ(found.crossings[0].first, 4);
  EXPECT_TRUE(found.crossings[0].first_was_less);
  EXPECT_EQ(found.at_end, 1);
  const Crossings turned = find_crossings(series({10, 12, 14, 16}), series({1, 4, 16, 64}), 0.05);
  ASSERT_EQ(turned.crossings.size(), 1u);
  EXPECT_FALSE(turned.crossings[0].first_was_less);
  EXPECT_EQ(turned.at_end, -1);
}

TEST(Crossing, TiesWidenThePair) {
  const Crossings found =
      find_crossings(series({1, 12, 14.1, 64}), series({10, 12.1, 14, 16}), 0.05);
  ASSERT_EQ(found.crossings.size(), 1u);
  EXPECT_EQ(found.crossings[0].last, 1);
  EXPECT_EQ(found.crossings[0].first, 8);
}

// The band decides whether 4 % are a difference.
TEST(Crossing, SmallDifferencesAreTies) {
  const std::vector<Sized> first = series({10, 10}), second = series({10.4, 9.6});
  EXPECT_TRUE(find_crossings(first, second, 0.05).crossings.empty());
  EXPECT_EQ(find_crossings(first, second, 0.05).at_end, 0);
  EXPECT_EQ(find_crossings(first, second, 0.01).crossings.size(), 1u);
}

TEST(Crossing, OnlySizesThatBothHaveCount) {
  const Crossings found = find_crossings(series({1, 0, 16, 64}), series({10, 12, 0, 16}), 0.05);
  EXPECT_EQ(found.sizes, (std::vector<double>{1, 8}));
  ASSERT_EQ(found.crossings.size(), 1u);
  EXPECT_EQ(found.crossings[0].last, 1);
  EXPECT_EQ(found.crossings[0].first, 8);
}

// They would cross at a size that nobody measured.
TEST(Crossing, NothingIsExtrapolated) {
  const Crossings found = find_crossings(series({1, 2, 4}), series({100, 101, 102}), 0.05);
  EXPECT_TRUE(found.crossings.empty());
  EXPECT_EQ(found.at_end, -1);
  EXPECT_TRUE(find_crossings(series({1, 2}), {}, 0.05).sizes.empty());
}

TEST(Crossing, MayHappenTwice) {
  const Crossings found = find_crossings(series({1, 20, 5}), series({10, 10, 10}), 0.05);
  ASSERT_EQ(found.crossings.size(), 2u);
  EXPECT_TRUE(found.crossings[0].first_was_less);
  EXPECT_FALSE(found.crossings[1].first_was_less);
}

}  // namespace
}  // namespace attest::core
