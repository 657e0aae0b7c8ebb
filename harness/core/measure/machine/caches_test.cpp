// Caches and cores as other machines describe them.
#include "core/measure/machine/caches.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "core/measure/machine/files.hpp"
#include "core/measure/testing/fake_root.hpp"
#include "core/measure/testing/pointer_chase.hpp"
#include "core/statistics/statistics.hpp"

namespace attest::core {
namespace {

TEST(Caches, Sizes) {
  EXPECT_EQ(parse_size("32K"), 32768u);
  EXPECT_EQ(parse_size("1M"), 1u << 20);
  EXPECT_EQ(parse_size("491520K"), uint64_t{480} << 20);
  EXPECT_EQ(parse_size("12"), 12u);
  EXPECT_EQ(parse_size("lots"), 0u);
  EXPECT_EQ(parse_size("1X"), 0u);
}

TEST(Caches, SharedOnesCountOnce) {
  const FakeRoot root;
  for (const int cpu : {0, 1, 2, 3}) {
    const std::string cache = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/";
    root.write(cache + "index0/level", "1\n");
    root.write(cache + "index0/type", "Data\n");
    root.write(cache + "index0/size", "48K\n");
    root.write(cache + "index1/level", "3\n");
    root.write(cache + "index1/type", "Unified\n");
    root.write(cache + "index1/size", "16M\n");
    root.write(cache + "index1/shared_cpu_list", cpu < 2 ? "0-1\n" : "2-3\n");
  }
  EXPECT_EQ(last_level_cache_bytes({0}, root.path()), 16u << 20);
  EXPECT_EQ(last_level_cache_bytes({0, 1}, root.path()), 16u << 20);
  EXPECT_EQ(last_level_cache_bytes({1, 2, 3}, root.path()), 32u << 20);
  EXPECT_EQ(last_level_cache_bytes({9}, root.path()), 32u << 20);  // unknown
  const std::vector<Cache> caches = read_caches(2, root.path());
  ASSERT_EQ(caches.size(), 2u);
  EXPECT_EQ(caches[0].type, "Data");
  EXPECT_EQ(caches[1].cpus, (std::vector<int>{2, 3}));
}

// Reading maps a page. The streams of 4 pages and a few lines are not equally long.
TEST(Caches, ReadingLinesReadsThemAll) {
  const auto page = size_t(sysconf(_SC_PAGESIZE));
  for (const size_t bytes : {size_t{64}, 4 * page, 4 * page + 64, 16 * page + 192}) {
    const size_t pages = (bytes + page - 1) / page;
    void* const memory =
        mmap(nullptr, pages * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    madvise(memory, pages * page, MADV_NOHUGEPAGE);
    read_lines(static_cast<const std::byte*>(memory), bytes);
    std::vector<unsigned char> is_there(pages);
    ASSERT_EQ(mincore(memory, pages * page, is_there.data()), 0);
    for (size_t i = 0; i < pages; ++i) EXPECT_TRUE(is_there[i] & 1) << i << " of " << bytes;
    munmap(memory, pages * page);
  }
}

void expect_cold_after_flush(FlushFile file) {
  const std::vector<uint64_t> chain = make_chain();
  std::vector<double> warm, cold;
  std::thread([&] {  // kept to one CPU: after a move the other core's caches are cold by themselves
    ASSERT_TRUE(pin_process(cpu_list({allowed_cpus().front()})));
    CacheFlusher flusher(0, file);
    for (int i = 0; i < 11; ++i) {
      chase_ns(chain);
      warm.push_back(chase_ns(chain));
      flusher.flush();
      cold.push_back(chase_ns(chain));
    }
  })
      .join();
  EXPECT_GT(summarise(cold).min, 2 * summarise(warm).min);
}

TEST(Caches, FlushingEmptiesThem) { expect_cold_after_flush({}); }

TEST(Caches, FlushingWithAFileEmptiesThem) {
  const FlushFile file = make_flush_file();
  ASSERT_GE(file.descriptor, 0);
  expect_cold_after_flush(file);
  close(file.descriptor);
}

// Every page is one of its own, and nobody can change it or take it away.
TEST(Caches, AFlushFileHasItsPagesAndKeepsThem) {
  const FlushFile file = make_flush_file();
  ASSERT_GE(file.descriptor, 0);
  struct stat facts{};
  ASSERT_EQ(fstat(file.descriptor, &facts), 0);
  EXPECT_GE(uint64_t(facts.st_size),
            std::min(uint64_t{512} << 20, 2 * last_level_cache_bytes(allowed_cpus())));
  EXPECT_GE(facts.st_blocks * 512, facts.st_size);
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor, 0),
            MAP_FAILED);
  EXPECT_NE(ftruncate(file.descriptor, 4096), 0);
  EXPECT_EQ(PageBuffer(file).size(), size_t(facts.st_size));
  close(file.descriptor);
}

// A flusher with pages of its own would empty the caches as well.
TEST(Caches, AFlusherReadsTheFlushFile) {
  const auto is_mapped = [] {
    return read_text("/proc/self/maps").find("memfd:attest-flush") != std::string::npos;
  };
  const FlushFile file = make_flush_file();
  ASSERT_GE(file.descriptor, 0);
  EXPECT_FALSE(is_mapped()) << "by make_flush_file";
  {
    const CacheFlusher flusher(0, file);
    EXPECT_TRUE(is_mapped());
  }
  EXPECT_FALSE(is_mapped());
  close(file.descriptor);
}

// One that is too small for the caches of this process does not replace its buffer.
TEST(Caches, ASmallFlushFileIsNotUsed) {
  const FlushFile file{memfd_create("small", MFD_CLOEXEC)};
  ASSERT_EQ(ftruncate(file.descriptor, 1 << 20), 0);
  expect_cold_after_flush(file);
  close(file.descriptor);
}

// Three shares do not divide a huge page.
TEST(Caches, EachCpuTouchesItsShareOfABuffer) {
  const PageBuffer buffer(3 << 20, std::vector<int>(3, allowed_cpus().front()));
  EXPECT_EQ(buffer.size(), 4u << 20);
  EXPECT_TRUE(std::all_of(buffer.data(), buffer.data() + buffer.size(),
                          [](std::byte byte) { return byte == std::byte{1}; }));
}

TEST(Affinity, WorksOnEveryCpuAtOnce) {
  const std::vector<int> cpus = allowed_cpus();
  std::vector<std::vector<int>> seen(cpus.size());
  std::atomic<size_t> begun = 0, together = 0;
  on_every_cpu(cpus, [&](size_t i) {
    seen[i] = allowed_cpus();
    ++begun;
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (begun < cpus.size() && std::chrono::steady_clock::now() < patience)
      std::this_thread::yield();
    together += begun == cpus.size();
  });
  for (size_t i = 0; i < cpus.size(); ++i) EXPECT_EQ(seen[i], std::vector<int>{cpus[i]});
  EXPECT_EQ(together, cpus.size());
  EXPECT_EQ(allowed_cpus(), cpus);
}

TEST(Affinity, TakesWholeCoresFirst) {
  const FakeRoot root;
  for (const int cpu : {0, 1, 2, 3, 4, 5})
    root.write(
        "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
        cpu < 2   ? "0-1"
        : cpu < 4 ? "2-3"
                  : "4-5");
  const std::vector<int> allowed{0, 1, 2, 3, 5};
  EXPECT_EQ(choose_cpus(2, allowed, root.path()), (std::vector<int>{0, 2}));
  EXPECT_EQ(choose_cpus(3, allowed, root.path()), (std::vector<int>{0, 2, 5}));
  EXPECT_EQ(choose_cpus(4, allowed, root.path()), (std::vector<int>{0, 1, 2, 5}));
  EXPECT_EQ(choose_cpus(9, allowed, root.path()), allowed);
  EXPECT_EQ(choose_cpus(2, {4, 6}, FakeRoot().path()),
            (std::vector<int>{4, 6}));  // no description at all
}

TEST(Affinity, CpusByNode) {
  const FakeRoot root;
  const std::string node = "sys/devices/system/node/";
  root.write(node + "online", "0-2\n");
  root.write(node + "node0/cpulist", "0-3,8-11\n");
  root.write(node + "node1/cpulist", "4-7,12-15\n");
  root.write(node + "node2/cpulist", "\n");  // memory alone
  EXPECT_EQ(cpus_by_node({1, 2, 5, 9, 14}, root.path()), (Nodes{{1, 2, 9}, {5, 14}}));
  EXPECT_EQ(cpus_by_node({4, 5}, root.path()), (Nodes{{4, 5}}));
  EXPECT_EQ(cpus_by_node({0, 4, 99}, root.path()), (Nodes{{0, 99}, {4}})) << "one of no node";
  EXPECT_EQ(cpus_by_node({3, 4}, FakeRoot().path()), (Nodes{{3, 4}})) << "no description at all";
}

TEST(Affinity, Lists) {
  EXPECT_EQ(parse_cpu_list("0-2,5"), (std::vector<int>{0, 1, 2, 5}));
  EXPECT_EQ(parse_cpu_list("7"), std::vector<int>{7});
  for (const char* list :
       {"", "x", "0;1", "-1", "3-1", "1-", "1,,2", "1,", "99999999", "0-99999999999999999999"})
    EXPECT_TRUE(parse_cpu_list(list).empty()) << list;
  EXPECT_EQ(cpu_list({0, 1, 5}), "0,1,5");
}

}  // namespace
}  // namespace attest::core
