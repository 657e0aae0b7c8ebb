// The peak rates of GPUs against those that NVIDIA publishes.
#include "core/measure/limits/device_limits.hpp"

#include <gtest/gtest.h>

namespace attest::core {
namespace {

DeviceFacts h100() {
  return {.name = "NVIDIA H100 80GB HBM3",
          .architecture = "sm_90",
          .multiprocessors = 132,
          .cache_bytes = 50 << 20,
          .sm_mhz = 1830,
          .memory_gbs = 3352};
}

double gflops(const Probe& limits, const std::string& dtype) {
  for (const ArithmeticPeak& peak : limits.arithmetic)
    if (peak.dtype == dtype) return peak.gflops.one;
  return 0;
}

TEST(DeviceLimits, AreThosePublished) {
  const std::optional<Probe> limits = device_limits(h100());
  ASSERT_TRUE(limits);
  EXPECT_NEAR(gflops(*limits, "f16"), 989'400, 500);
  EXPECT_EQ(gflops(*limits, "bf16"), gflops(*limits, "f16"));
  EXPECT_NEAR(gflops(*limits, "tf32"), 494'700, 250);
  EXPECT_EQ(limits->memory().read_gbs.one, 3352);
  DeviceFacts orin{.architecture = "sm_87", .multiprocessors = 16, .sm_mhz = 1300};
  EXPECT_NEAR(gflops(*device_limits(orin), "f16"), 42'600, 50);
  DeviceFacts t4{.architecture = "sm_75", .multiprocessors = 40, .sm_mhz = 1590};
  EXPECT_NEAR(gflops(*device_limits(t4), "f32"), 10'850, 50) << "8.1 TFLOP/s, or split factors";
  EXPECT_EQ(gflops(*device_limits(t4), "bf16"), 0);
}

// TFLOP/s of dense f16 products that NVIDIA publishes, and the multiprocessors and boost clocks.
TEST(DeviceLimits, OfEachArchitectureAreThosePublished) {
  const struct {
    const char* architecture;
    int multiprocessors;
    double sm_mhz, f16_tflops, tf32_tflops;
  } kDevices[] = {{"sm_75", 40, 1590, 65, 0},        {"sm_80", 108, 1410, 312, 156},
                  {"sm_86", 84, 1800, 154.8, 77.4},  {"sm_87", 16, 1300, 42.6, 21.3},
                  {"sm_89", 142, 2490, 362, 181},    {"sm_90", 132, 1830, 989.4, 494.7},
                  {"sm_100", 148, 1855, 2250, 1125}, {"sm_110", 20, 1575, 258, 129}};
  for (const auto& device : kDevices) {
    const std::optional<Probe> limits = device_limits({.architecture = device.architecture,
                                                       .multiprocessors = device.multiprocessors,
                                                       .sm_mhz = device.sm_mhz});
    ASSERT_TRUE(limits) << device.architecture;
    EXPECT_NEAR(gflops(*limits, "f16") * 1e-3, device.f16_tflops, 0.012 * device.f16_tflops)
        << device.architecture;
    EXPECT_NEAR(gflops(*limits, "tf32") * 1e-3, device.tf32_tflops, 0.012 * device.tf32_tflops)
        << device.architecture;
  }
}

TEST(DeviceLimits, OfF32AreThoseOfSplitFactorsIfTheyAreFaster) {
  EXPECT_NEAR(gflops(*device_limits(h100()), "f32"), 494'700 / 3.0, 100);
  EXPECT_EQ(device_limits(h100())->fma().unit, "tensor cores");
  DeviceFacts rtx{.architecture = "sm_120", .multiprocessors = 170, .sm_mhz = 2407};
  EXPECT_NEAR(gflops(*device_limits(rtx), "f32"), 104'800, 100);
  EXPECT_EQ(device_limits(rtx)->fma().unit, "CUDA cores");
}

TEST(DeviceLimits, AreNothingWhereNothingIsKnown) {
  DeviceFacts unknown{.architecture = "sm_999", .multiprocessors = 4, .sm_mhz = 1000};
  EXPECT_FALSE(device_limits(unknown));
  unknown.memory_gbs = 500;
  ASSERT_TRUE(device_limits(unknown));
  EXPECT_EQ(device_limits(unknown)->fma().gflops.one, 0) << "only memory can bind";
  DeviceFacts without_clock = h100();
  without_clock.sm_mhz = 0;
  EXPECT_EQ(gflops(*device_limits(without_clock), "f16"), 0);
}

}  // namespace
}  // namespace attest::core
