// The CUDA device on a driver without one: what is looked up, what fails with which words, and that
// the gate never holds for ever.
#include "core/device/cuda/cuda_clock.hpp"
#include "core/device/cuda/cuda_device.hpp"
#include "core/device/device_kinds.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "abi/attest.h"

namespace attest::core {
namespace {

class Cuda : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("ATTEST_CUDA_DRIVER", ATTEST_BINARY_DIR "/tests/fake_cuda.so", 1);
  }
  void SetUp() override { ASSERT_EQ(cuda_missing(), ""); }
  void TearDown() override { unsetenv("ATTEST_FAKE_CUDA"); }
};

TEST_F(Cuda, SaysWhatTheDeviceIs) {
  const DeviceFacts facts = read_cuda_facts();
  EXPECT_EQ(facts.name, "Fake");
  EXPECT_EQ(facts.architecture, "sm_90");
  EXPECT_EQ(facts.driver, "CUDA 12.4");
  EXPECT_EQ(facts.multiprocessors, 4);
  EXPECT_EQ(facts.sm_mhz, 2000);
  EXPECT_EQ(facts.memory_gbs, 128) << "1 GHz, twice 512 bits";
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
  const auto enqueue = [&] {
    ++calls;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  };
  EXPECT_GT(timer->sample(enqueue, 5, false).run_ns, 0);
  const DeviceSample cold = timer->sample(enqueue, 3, true);
  EXPECT_GT(cold.run_ns, 0);
  EXPECT_GE(cold.launch_ns, 200e3) << "of one, on the host";
  EXPECT_LE(cold.launch_ns, cold.run_ns + 1e3);
  EXPECT_EQ(calls, 8);
  EXPECT_FALSE(timer->waits());
}

TEST_F(Cuda, ReadsTheClockOfItsMultiprocessors) {
  const std::vector<ClockStamp> first = {
      {1000, 5000}, {0, 0}, {1000, 7000}, {1000, 9000}, {1000, 1}};
  // 1.5 and 2 GHz; unread at first; set back in between; faster than any is.
  const std::vector<ClockStamp> second = {
      {201000, 305000}, {201000, 1000}, {201000, 0}, {201000, 409000}, {201000, 1 << 30}};
  EXPECT_EQ(clock_mhz(first, second), 2000);
  EXPECT_EQ(clock_mhz(std::span(first).first(1), second), 1500);
  EXPECT_EQ(clock_mhz(second, first), 0) << "backwards";
  const std::vector<ClockStamp> soon = {{2000, 7000}};
  EXPECT_EQ(clock_mhz(first, soon), 0) << "a microsecond says nothing";
}

TEST_F(Cuda, SamplesHaveTheClockTheyWereTakenAt) {
  const std::unique_ptr<Device> device = open_cuda_device();
  const std::unique_ptr<DeviceTimer> timer = device->make_timer();
  const auto enqueue = [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
  EXPECT_NEAR(timer->sample(enqueue, 1, false).clock_mhz, 2000, 1);
  setenv("ATTEST_FAKE_CUDA", "no-ptx", 1);
  const std::unique_ptr<DeviceTimer> blind = device->make_timer();
  EXPECT_EQ(blind->sample(enqueue, 1, false).clock_mhz, 0);
  EXPECT_EQ(blind->clock_missing(),
            "cuModuleLoadData: CUDA_ERROR_INVALID_PTX (a PTX JIT compilation failed)");
}

TEST_F(Cuda, RecordsAndReplays) {
  const std::unique_ptr<Device> device = open_cuda_device();
  const DeviceBuffer memory(*device, 64);
  char out = 0;
  const auto fill = [&] { device->fill(memory.data(), 7, 64); };
  device->fill(memory.data(), 1, 64);
  const std::unique_ptr<Recording> recording = device->record(fill);
  device->copy_out(&out, memory.data(), 1);
  EXPECT_EQ(out, 1) << "nothing is done while it is recorded";
  recording->enqueue();
  device->copy_out(&out, memory.data(), 1);
  device->synchronize();
  EXPECT_EQ(out, 7);
  EXPECT_THROW(device->record([] {}), DeviceError) << "nothing to replay";
  EXPECT_THROW(device->record([&] { device->synchronize(); }), DeviceError);
  EXPECT_NO_THROW(device->record(fill)) << "what failed is over";
}

TEST_F(Cuda, CountsWhatThePoolHadAtTheMost) {
  void* library = dlopen(ATTEST_BINARY_DIR "/tests/fake_cuda.so", RTLD_NOW);
  const auto take = reinterpret_cast<int (*)(unsigned long long*, size_t, void*)>(
      dlsym(library, "cuMemAllocAsync"));
  const auto give =
      reinterpret_cast<int (*)(unsigned long long, void*)>(dlsym(library, "cuMemFreeAsync"));
  const std::unique_ptr<Device> device = open_cuda_device();
  EXPECT_FALSE(device->pool_growth_bytes()) << "nobody has watched";
  unsigned long long kept = 0, large = 0, small = 0;
  take(&kept, 4096, device->stream());
  take(&large, 1 << 20, device->stream());
  give(large, device->stream());
  device->watch_pool();
  EXPECT_EQ(device->pool_growth_bytes(), 0u);
  take(&small, 512, device->stream());
  give(small, device->stream());
  EXPECT_EQ(device->pool_growth_bytes(), 512u) << "neither what was before nor what is kept";
  give(kept, device->stream());
}

// The contract forbids it, and who does it must not hang the run.
TEST_F(Cuda, OpensForThoseWhoWaitForTheStream) {
  const std::unique_ptr<Device> device = open_cuda_device();
  const std::unique_ptr<DeviceTimer> timer = device->make_timer();
  timer->sample([&] { device->synchronize(); }, 1, false);
  EXPECT_TRUE(timer->waits());
  timer->sample([&] { device->synchronize(); }, 1, false);  // no longer held back
}

TEST_F(Cuda, TimesWithoutAGateWhereStreamsCannotWait) {
  setenv("ATTEST_FAKE_CUDA", "no-wait", 1);
  const std::unique_ptr<Device> device = open_cuda_device();
  const std::unique_ptr<DeviceTimer> timer = device->make_timer();
  EXPECT_GT(timer->sample([&] { device->synchronize(); }, 1, false).run_ns, 0);
  EXPECT_FALSE(timer->waits()) << "nothing to wait for";
}

}  // namespace
}  // namespace attest::core
