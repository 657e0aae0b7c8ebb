// The CUDA device on a driver without one: what is looked up, what fails with which words, and that the gate never holds for
// ever.
#include "core/device/cuda_device.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "abi/attest.h"

namespace attest::core {
namespace {

class Cuda : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("ATTEST_CUDA_DRIVER", ATTEST_BINARY_DIR "/tests/fake_cuda.so", 1); }
  void SetUp() override { ASSERT_EQ(cuda_missing(), ""); }
  void TearDown() override { unsetenv("ATTEST_FAKE_CUDA"); }
};

TEST_F(Cuda, SaysWhatTheDeviceIs) {
  const DeviceFacts facts = read_cuda_facts();
  EXPECT_EQ(facts.name, "Fake");
  EXPECT_EQ(facts.architecture, "sm_90");
  EXPECT_EQ(facts.driver, "CUDA 12.4");
  EXPECT_EQ(facts.multiprocessors, 4);
  EXPECT_EQ(facts.cache_bytes, 1u << 20);
  EXPECT_THROW(cuda_device_of(1), DeviceError);
}

TEST_F(Cuda, IsAKindOfDevice) {
  const DeviceKind* kind = find_device_kind(ATTEST_CUDA);
  ASSERT_TRUE(kind);
  EXPECT_STREQ(kind->name, "cuda");
  EXPECT_TRUE(kind->own_memory);
  EXPECT_EQ(kind->missing(), "");
  EXPECT_FALSE(find_device_kind(ATTEST_CPU)->own_memory);
  EXPECT_EQ(find_device_kind(7), nullptr);
}

TEST_F(Cuda, CopiesInAndOut) {
  const std::unique_ptr<Device> device = open_cuda_device();
  const DeviceBuffer memory(*device, 64);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % 256, 0u);
  char in[64] = "there and back", out[64] = "";
  device->fill(memory.data(), 0xff, 64);
  device->copy_in(memory.data(), in, 32);
  device->copy_out(out, memory.data(), 64);
  device->synchronize();
  EXPECT_STREQ(out, in);
  EXPECT_EQ(out[32], '\xff');
}

TEST_F(Cuda, FailsInTheDriversWords) {
  const std::unique_ptr<Device> device = open_cuda_device();
  try {
    device->allocate(size_t{1} << 40);
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_STREQ(error.what(), "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
    EXPECT_TRUE(error.out_of_memory());
  }
  setenv("ATTEST_FAKE_CUDA", "fault", 1);
  try {
    device->synchronize();
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_FALSE(error.out_of_memory());
  }
}

TEST_F(Cuda, TimesWhatIsEnqueued) {
  const std::unique_ptr<Device> device = open_cuda_device();
  const std::unique_ptr<DeviceTimer> timer = device->make_timer();
  int calls = 0;
  const auto enqueue = [&] { ++calls, std::this_thread::sleep_for(std::chrono::microseconds(200)); };
  EXPECT_GT(timer->sample(enqueue, 5, false).run_ns, 0);
  const DeviceSample cold = timer->sample(enqueue, 3, true);
  EXPECT_GT(cold.run_ns, 0);
  EXPECT_GE(cold.launch_ns, 200e3) << "of one, on the host";
  EXPECT_LE(cold.launch_ns, cold.run_ns + 1e3);
  EXPECT_EQ(calls, 8);
  EXPECT_FALSE(timer->waits());
}

// The contract forbids it, and who does it must not hang the run.
TEST_F(Cuda, OpensForThoseWhoWaitForTheStream) {
  const std::unique_ptr<Device> device = open_cuda_device();
  const std::unique_ptr<DeviceTimer> timer = device->make_timer();
  timer->sample([&] { device->synchronize(); }, 1, false);
  EXPECT_TRUE(timer->waits());
  timer->sample([&] { device->synchronize(); }, 1, false);  // no longer held back
}

}  // namespace
}  // namespace attest::core
