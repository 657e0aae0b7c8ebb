// Which samples count when the clock moves.
#include "core/measure/clocked.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attest::core {
namespace {

using ::testing::ElementsAre;

TEST(Clocked, LeavesOutWhatRanAtALowerClock) {
  const std::vector<ClockedSample> samples = {
      {100, 1000}, {55, 1950}, {50, 2000}, {51, 1810}, {60, 1790}};
  EXPECT_THAT(at_full_clock(samples), ElementsAre(55, 50, 51))
      << "before the clock had risen, and after it fell";
}

TEST(Clocked, KeepsAllWhereMostRanAtALowerClock) {
  const std::vector<ClockedSample> samples = {{50, 2000}, {80, 1200}, {81, 1200}};
  EXPECT_THAT(at_full_clock(samples), ElementsAre(50, 80, 81));
  EXPECT_EQ(median_mhz(samples), 1200) << "and it is said at which clock";
}

TEST(Clocked, KeepsWhatHasNoClock) {
  const std::vector<ClockedSample> samples = {{50, 0}, {80, 1000}, {40, 2000}};
  EXPECT_THAT(at_full_clock(samples), ElementsAre(50, 40));
  EXPECT_EQ(median_mhz(samples), 1500);
  const std::vector<ClockedSample> none = {{50, 0}, {80, 0}};
  EXPECT_THAT(at_full_clock(none), ElementsAre(50, 80));
  EXPECT_EQ(median_mhz(none), 0);
}

}  // namespace
}  // namespace attest::core
