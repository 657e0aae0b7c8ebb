// Peak memory of a known allocation; limits of control groups; affinity there and back.
#include "core/measure/machine/memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <thread>

#include "core/measure/machine/affinity.hpp"
#include "core/measure/testing/fake_root.hpp"

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

constexpr uint64_t kMiB = 1 << 20;

void write_meminfo(const FakeRoot& root) {
  root.write("proc/meminfo",
             "MemTotal:        8388608 kB\nMemFree:          100000 kB\nMemAvailable:    6291456 "
             "kB\nSwapTotal:       2048 "
             "kB\nSwapFree:        1024 kB\n");
}

TEST(Memory, WithoutGroupsTheMachinesOwn) {
  const FakeRoot root;
  write_meminfo(root);
  const MachineMemory memory = read_memory(root.path());
  EXPECT_EQ(memory.total_bytes, 8192 * kMiB);
  EXPECT_EQ(memory.available_bytes, 6144 * kMiB);
  EXPECT_EQ(memory.swap_total_bytes, 2 * kMiB);
  EXPECT_EQ(memory.swap_used_bytes, kMiB);
  EXPECT_EQ(read_memory(FakeRoot().path()).total_bytes, 0u);
}

TEST(Memory, TheTightestGroupHolds) {
  const FakeRoot root;
  write_meminfo(root);
  root.write("proc/self/cgroup", "0::/ci/job\n");
  root.write("sys/fs/cgroup/ci/job/memory.max", "max\n");
  root.write("sys/fs/cgroup/ci/job/memory.current", "1\n");
  root.write("sys/fs/cgroup/ci/memory.max", std::to_string(1024 * kMiB));
  root.write("sys/fs/cgroup/ci/memory.current", std::to_string(600 * kMiB));
  EXPECT_EQ(read_memory(root.path()).total_bytes, 1024 * kMiB);
  EXPECT_EQ(read_memory(root.path()).available_bytes, 424 * kMiB);
  root.write("sys/fs/cgroup/ci/memory.stat",
             "anon 5\ninactive_file " + std::to_string(100 * kMiB) + "\n");
  EXPECT_EQ(read_memory(root.path()).available_bytes, 524 * kMiB);
}

TEST(Memory, GroupsOfVersionOneAndOfContainers) {
  const FakeRoot root;
  write_meminfo(root);
  root.write("proc/self/cgroup",
             "5:cpu,cpuacct:/\n4:memory:/docker/0123\n0::/\n");  // a path of the host's
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(512 * kMiB));
  root.write("sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(500 * kMiB));
  root.write("sys/fs/cgroup/memory/memory.stat",
             "cache 9\ntotal_inactive_file " + std::to_string(200 * kMiB) + "\n");
  EXPECT_EQ(read_memory(root.path()).available_bytes, 212 * kMiB);
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");  // none
  EXPECT_EQ(read_memory(root.path()).available_bytes, 6144 * kMiB);
}

TEST(Affinity, ThereAndBack) {
  const std::vector<int> all = allowed_cpus();
  ASSERT_FALSE(all.empty());
  std::thread([&] {  // a thread's mask is its own
    ASSERT_TRUE(pin_process(cpu_list({all.back()})));
    EXPECT_EQ(allowed_cpus(), std::vector<int>{all.back()});
  })
      .join();
  EXPECT_EQ(allowed_cpus(), all);
}

TEST(Affinity, RefusesNonsense) {
  for (const char* list : {"", "x", "0;1", "-1", "99999999"})
    EXPECT_FALSE(pin_process(list)) << list;
}

}  // namespace
}  // namespace attest::core
