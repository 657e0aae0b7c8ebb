// When the limits of a machine are measured again.
#include "core/measure/limits/current_limits.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "core/measure/testing/fake_root.hpp"

namespace attest::core {
namespace {

using std::chrono::steady_clock;

Probe probe_of(double gflops) {
  Probe probe;
  probe.arithmetic = {{"f32", "AVX2", {gflops / 2, gflops}}};
  probe.levels = {{"memory", 0, 0, {10, gflops / 10}, {}}};
  return probe;
}

/// A machine with a file that counts how often it was throttled.
class CurrentLimitsTest : public ::testing::Test {
 protected:
  CurrentLimitsTest() {
    throttle("0\n");
    setenv("ATTEST_MACHINE_ROOT", root_.path().c_str(), 1);
  }
  ~CurrentLimitsTest() override { unsetenv("ATTEST_MACHINE_ROOT"); }
  void throttle(const char* times) const {
    root_.write("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", times);
  }
  CurrentLimits limits() {
    return CurrentLimits(2, [this] { return probe_of(probes_++ % 2 == 0 ? 200 : 150); });
  }

  FakeRoot root_;
  int probes_ = 0;
  const steady_clock::time_point later_ = steady_clock::now() + std::chrono::seconds(60);
};

TEST_F(CurrentLimitsTest, AreMeasuredOnceWhileNothingChanges) {
  CurrentLimits limits = this->limits();
  EXPECT_EQ(limits.renew(later_), "");
  EXPECT_EQ(probes_, 1);
  EXPECT_EQ(limits.probe().fma().gflops.all, 200);
}

TEST_F(CurrentLimitsTest, AreMeasuredAgainAfterThrottlingAndOnceItIsOver) {
  CurrentLimits limits = this->limits();
  throttle("4\n");
  EXPECT_EQ(limits.renew(later_),
            "the limits of the machine were measured again, because the CPU was throttled 4 times: "
            "f32 200 -> 150 GFLOP/s, reads from memory 20 -> 15 GB/s");
  EXPECT_EQ(limits.probe().fma().gflops.all, 150);
  EXPECT_EQ(limits.renew(later_ + std::chrono::seconds(9)), "");
  EXPECT_EQ(limits.renew(later_ + std::chrono::seconds(60)),
            "the limits of the machine were measured again, because nothing has changed since the "
            "last time: f32 150 -> 200 GFLOP/s, reads from memory 15 -> 20 GB/s");
  EXPECT_EQ(limits.renew(later_ + std::chrono::seconds(120)), "");
  EXPECT_EQ(probes_, 3);
}

TEST_F(CurrentLimitsTest, AreNotMeasuredAllTheTime) {
  CurrentLimits limits = this->limits();
  throttle("4\n");
  EXPECT_EQ(limits.renew(), "") << "within 10 s of the last time";
  EXPECT_NE(limits.renew(later_), "") << "the change is not forgotten";
  throttle("5\n");
  EXPECT_EQ(limits.renew(later_ + std::chrono::seconds(9)), "");
  EXPECT_NE(limits.renew(later_ + std::chrono::seconds(10)), "");
}

}  // namespace
}  // namespace attest::core
