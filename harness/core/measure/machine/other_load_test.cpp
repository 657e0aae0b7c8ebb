// How many CPUs other processes keep busy, of a machine that is made up.
#include "core/measure/machine/other_load.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "core/measure/testing/fake_root.hpp"

namespace attest::core {
namespace {

constexpr const char* kBefore =
    "cpu  300 0 0 300 0 0 0 0 0 0\ncpu0 100 0 0 100 0 0 0 0 0 0\ncpu1 100 0 0 100 0 0 0 0 0 0\n"
    "cpu2 100 0 0 100 0 0 0 0 0 0\nintr 5\n";

// 1,000 ticks of each CPU: cpu0 was idle or waited for a disk, cpu1 was busy half of the time, and
// cpu2 all of it.
constexpr const char* kAfter =
    "cpu  1 2 3\ncpu0 100 0 0 600 500 0 0 0 0 0\ncpu1 200 100 100 600 0 50 50 100 7 7\n"
    "cpu2 1100 0 0 100 0 0 0 0 0 0\nintr 5\n";

TEST(OtherLoad, IsOfTheCpusThatCount) {
  const FakeRoot root;
  root.write("proc/stat", kBefore);
  const OtherLoad two({0, 1}, root.path()), three({0, 1, 2}, root.path());
  root.write("proc/stat", kAfter);
  EXPECT_NEAR(two.busy_cpus().value(), 0.5, 0.02);
  EXPECT_NEAR(three.busy_cpus().value(), 1.5, 0.02);
}

TEST(OtherLoad, IsNotOfThisProcess) {
  const FakeRoot root;
  root.write("proc/stat", kBefore);
  const OtherLoad load({1}, root.path());
  const std::clock_t end = std::clock() + CLOCKS_PER_SEC / 5;
  while (std::clock() < end) {
  }
  root.write("proc/stat", "cpu1 120 0 0 180 0 0 0 0 0 0\n");
  EXPECT_LT(load.busy_cpus().value(), 0.05) << "a fifth of a second is 20 ticks";
}

TEST(OtherLoad, IsNotKnownWithoutCounts) {
  const FakeRoot root;
  EXPECT_FALSE(OtherLoad({0}, root.path()).busy_cpus().has_value());
  root.write("proc/stat", kBefore);
  EXPECT_FALSE(OtherLoad({0}, root.path()).busy_cpus().has_value()) << "no tick went by";
}

TEST(LoadWarning, IsOfMoreThanAQuarterOfACpu) {
  EXPECT_EQ(load_warning(std::nullopt, 2), "");
  EXPECT_EQ(load_warning(0.2, 2), "");
  EXPECT_EQ(load_warning(0.3, 2),
            "other processes kept 0.3 of 2 CPUs busy meanwhile, which lowers these figures; run it "
            "again on a quiet machine");
  EXPECT_THAT(load_warning(1, 1), ::testing::StartsWith("other processes kept 1.0 of 1 CPU busy"));
}

}  // namespace
}  // namespace attest::core
