// Peak memory of a known allocation; affinity there and back.
#include "core/measure/memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <thread>

#include "core/measure/affinity.hpp"

namespace attest::core {
namespace {

constexpr size_t kSize = 64u << 20;

void touch_and_free() {
  void* memory = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::memset(memory, 1, kSize);
  munmap(memory, kSize);
}

TEST(Memory, SeesWhatIsGoneAgain) {
  touch_and_free();  // an earlier peak must not count
  const PeakMemory quiet;
  if (!quiet.available()) GTEST_SKIP() << "the high-water mark cannot be reset here";
  EXPECT_LT(quiet.growth_bytes(), 16u << 20);
  const PeakMemory peak;
  touch_and_free();
  EXPECT_GT(peak.growth_bytes(), 60u << 20);
  EXPECT_LT(peak.growth_bytes(), 80u << 20);
}

TEST(Memory, MachineHasSome) {
  const MachineMemory memory = read_memory();
  EXPECT_GT(memory.available_bytes, 0u);
  EXPECT_GE(memory.total_bytes, memory.available_bytes);
}

TEST(Affinity, ThereAndBack) {
  const std::vector<int> all = allowed_cpus();
  ASSERT_FALSE(all.empty());
  std::thread([&] {  // a thread's mask is its own
    ASSERT_TRUE(pin_process(cpu_list({all.back()})));
    EXPECT_EQ(allowed_cpus(), std::vector<int>{all.back()});
  }).join();
  EXPECT_EQ(allowed_cpus(), all);
}

TEST(Affinity, RefusesNonsense) {
  for (const char* list : {"", "x", "0;1", "-1", "99999999"}) EXPECT_FALSE(pin_process(list)) << list;
}

}  // namespace
}  // namespace attest::core
