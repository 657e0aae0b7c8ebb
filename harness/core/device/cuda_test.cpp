// The CUDA device on a driver without one: what is looked up, what fails with which words, and that the gate never holds for
// ever.
#include "core/device/cuda.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "core/device/cuda_timer.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

class Cuda : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("ATTEST_CUDA_DRIVER", ATTEST_BINARY_DIR "/tests/fake_cuda.so", 1); }
  void SetUp() override { ASSERT_EQ(cuda_missing(), ""); }
  void TearDown() override { unsetenv("ATTEST_FAKE_CUDA"); }
};

TEST_F(Cuda, SaysWhatTheDeviceIs) {
  const CudaFacts facts = read_cuda_facts();
  EXPECT_EQ(facts.name, "Fake");
  EXPECT_EQ(facts.major, 9);
  EXPECT_EQ(facts.multiprocessors, 4);
  EXPECT_EQ(facts.l2_bytes, 1u << 20);
  EXPECT_THROW(read_cuda_facts(1), Error);
}

TEST_F(Cuda, CopiesInAndOut) {
  const CudaContext context;
  const CudaStream stream;
  const CudaMemory memory(64);
  EXPECT_EQ(memory.address() % 256, 0u);
  char in[64] = "there and back", out[64] = "";
  cuda_fill(memory.address(), 0xff, 64, stream);
  cuda_copy_in(memory.address(), in, 32, stream);
  cuda_copy_out(out, memory.address(), 64, stream);
  stream.synchronize();
  EXPECT_STREQ(out, in);
  EXPECT_EQ(out[32], '\xff');
}

TEST_F(Cuda, FailsInTheDriversWords) {
  try {
    CudaMemory(size_t{1} << 40);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
  }
  const CudaStream stream;
  setenv("ATTEST_FAKE_CUDA", "fault", 1);
  EXPECT_THROW(stream.synchronize(), Error);
}

TEST_F(Cuda, TimesWhatIsEnqueued) {
  const CudaStream stream;
  CudaTimer timer(stream, read_cuda_facts().l2_bytes);
  int calls = 0;
  EXPECT_GT(timer.sample([&] { ++calls; }, 5, false), 0);
  EXPECT_GT(timer.sample([&] { ++calls; }, 3, true), 0);
  EXPECT_EQ(calls, 8);
  EXPECT_FALSE(timer.waits());
}

// The contract forbids it, and who does it must not hang the run.
TEST_F(Cuda, OpensForThoseWhoWaitForTheStream) {
  const CudaStream stream;
  CudaTimer timer(stream, 1024);
  timer.sample([&] { stream.synchronize(); }, 1, false);
  EXPECT_TRUE(timer.waits());
  timer.sample([&] { stream.synchronize(); }, 1, false);  // no longer held back
}

}  // namespace
}  // namespace attest::core
