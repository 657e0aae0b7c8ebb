// What the management library says of a device, and what becomes of what it does not.
#include "core/device/cuda/nvml.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace attest::core {
namespace {

constexpr const char* kBusId = "0000:17:00.0";

class NvmlTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("ATTEST_NVML", ATTEST_BINARY_DIR "/tests/fake_nvml.so", 1);
  }
  void SetUp() override { ASSERT_EQ(nvml_missing(), ""); }
  void TearDown() override { unsetenv("ATTEST_FAKE_NVML"); }
};

TEST_F(NvmlTest, ReadsTheStateOfADevice) {
  const DeviceState state = read_nvml_state(kBusId);
  EXPECT_EQ(state.sm_mhz, 1980);
  EXPECT_EQ(state.memory_mhz, 3201);
  EXPECT_EQ(state.celsius, 41);
  EXPECT_EQ(state.watts, 120.5);
  EXPECT_EQ(state.energy_j.value_or(0) + 5, read_nvml_state(kBusId).energy_j);
  EXPECT_TRUE(state.held_down_by.empty()) << "idle is no fault";
  EXPECT_EQ(state.ecc, "on") << "as it is now, not as it will be after a reset";
}

TEST_F(NvmlTest, SaysWhatHoldsClocksDown) {
  setenv("ATTEST_FAKE_NVML", "hot", 1);
  EXPECT_THAT(read_nvml_state(kBusId).held_down_by, ::testing::ElementsAre("power cap", "heat"));
}

TEST_F(NvmlTest, LeavesOutWhatIsNotKnown) {
  setenv("ATTEST_FAKE_NVML", "poor", 1);
  const DeviceState state = read_nvml_state(kBusId);
  EXPECT_EQ(state.sm_mhz, 1980);
  EXPECT_FALSE(state.celsius || state.watts || state.energy_j);
  EXPECT_EQ(state.ecc, "");
  EXPECT_FALSE(read_nvml_state("0000:99:00.0").sm_mhz) << "another device's state is nobody's";
}

}  // namespace
}  // namespace attest::core
