#include "core/operations/row_sample.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace attest::core {
namespace {

TEST(SamplePlaces, FirstLastEdgesAndNoRepeats) {
  for (const int64_t length : {1, 2, 61, 197, 4099, 65551, 262147}) {
    const std::vector<int64_t> places = sample_places(length, 256, 1000, 7);
    EXPECT_EQ(int64_t(places.size()), std::min<int64_t>(length, 256));
    EXPECT_TRUE(std::is_sorted(places.begin(), places.end()) &&
                std::adjacent_find(places.begin(), places.end()) == places.end());
    EXPECT_EQ(places.front(), 0);
    EXPECT_EQ(places.back(), length - 1);
    if (length < 4000) continue;
    const int64_t tail = length / 64 * 64;
    EXPECT_TRUE(std::count(places.begin(), places.end(), 64) +
                    std::count(places.begin(), places.end(), 63) +
                    std::count(places.begin(), places.end(), tail) >
                0);
    EXPECT_NE(places, sample_places(length, 256, 1000, 8));
  }
}

}  // namespace
}  // namespace attest::core
