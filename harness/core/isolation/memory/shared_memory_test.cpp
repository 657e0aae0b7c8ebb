// Shared memory is handed on: inputs as zeros, never to another access, and sparse memory never.
#include "core/isolation/memory/shared_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <list>
#include <optional>

#include "attest.h"

namespace attest::core {
namespace {

// Sizes that no other test of this program uses.
constexpr int64_t kBytes = 5 << 20;

ino_t file_of(const SharedMemory& memory) {
  struct stat facts{};
  EXPECT_EQ(fstat(memory.descriptor(), &facts), 0);
  return facts.st_ino;
}
bool is_zero(const SharedMemory& memory, int64_t bytes) {
  return std::all_of(memory.data(), memory.data() + bytes, [](char byte) { return byte == 0; });
}

// The file of memory that was full of ones when its owner went.
ino_t used(int32_t access, int64_t bytes, Reuse reuse) {
  const SharedMemory memory(access, bytes, reuse);
  std::fill_n(memory.data(), bytes, char(1));
  return file_of(memory);
}

TEST(SharedMemory, IsHandedOnAndZeroWhereThatIsPromised) {
  const ino_t inputs = used(ATTEST_READ, kBytes, Reuse::kZeroed),
              outputs = used(ATTEST_WRITE, kBytes, Reuse::kKept);
  const SharedMemory zeroed(ATTEST_READ, kBytes - 100, Reuse::kZeroed),
      kept(ATTEST_WRITE, kBytes - 100, Reuse::kKept);
  EXPECT_EQ(file_of(zeroed), inputs);
  EXPECT_TRUE(is_zero(zeroed, kBytes - 100));
  EXPECT_EQ(file_of(kept), outputs);
  EXPECT_EQ(kept.data()[0], 1);
}

TEST(SharedMemory, HasOneOwnerAtATimeAndKeepsItsAccess) {
  const ino_t inputs = used(ATTEST_READ, 2 * kBytes, Reuse::kZeroed);
  const SharedMemory outputs(ATTEST_WRITE, 2 * kBytes, Reuse::kKept);
  EXPECT_NE(file_of(outputs), inputs);
  const SharedMemory first(ATTEST_READ, 2 * kBytes, Reuse::kZeroed),
      second(ATTEST_READ, 2 * kBytes, Reuse::kZeroed);
  EXPECT_EQ(file_of(first), inputs);
  EXPECT_NE(file_of(second), inputs);
  EXPECT_TRUE(is_zero(second, 2 * kBytes));
}

TEST(SharedMemory, OfSparseTensorsIsNew) {
  const ino_t sparse = used(ATTEST_WRITE, 3 * kBytes, Reuse::kNever);
  const SharedMemory dense(ATTEST_WRITE, 3 * kBytes, Reuse::kKept);
  EXPECT_NE(file_of(dense), sparse);
  used(ATTEST_READ, 3 * kBytes, Reuse::kZeroed);
  const SharedMemory next(ATTEST_READ, 3 * kBytes, Reuse::kNever);
  struct stat facts{};
  ASSERT_EQ(fstat(next.descriptor(), &facts), 0);
  EXPECT_EQ(facts.st_blocks, 0);
}

// Linux before 5.14 and emulators do not give pages ahead.
bool system_populates() {
  const auto page = size_t(sysconf(_SC_PAGESIZE));
  void* memory = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  constexpr int kPopulateWrite = 23;
  unsigned char is_there = 0;
  const bool done = madvise(memory, page, kPopulateWrite) == 0 &&
                    mincore(memory, page, &is_there) == 0 && (is_there & 1);
  munmap(memory, page);
  return done;
}

TEST(SharedMemory, GetsThePagesThatAreAskedFor) {
  const SharedMemory memory(ATTEST_WRITE, 7 * kBytes, Reuse::kNever);
  EXPECT_TRUE(memory.is_new());
  constexpr int64_t kPage = 64 << 10;  // a multiple of every page size
  memory.populate(kPage, 2 * kBytes + kPage);
  struct stat facts{};
  ASSERT_EQ(fstat(memory.descriptor(), &facts), 0);
  EXPECT_EQ(facts.st_blocks == 0, !system_populates());
  EXPECT_LT(facts.st_blocks * 512, 3 * kBytes);
  EXPECT_TRUE(is_zero(memory, 3 * kBytes));
  used(ATTEST_WRITE, 9 * kBytes, Reuse::kKept);
  EXPECT_FALSE(SharedMemory(ATTEST_WRITE, 9 * kBytes, Reuse::kKept).is_new());
}

TEST(SharedMemory, IsKeptUpToALimitAndGivenBack) {
  constexpr int64_t kLess = 12 * kBytes, kMore = 14 * kBytes;
  const auto is_kept = [](int64_t bytes) {
    return !SharedMemory(ATTEST_WRITE, bytes, Reuse::kKept).is_new();
  };
  SharedMemory::keep_at_most(kMore - 1);
  used(ATTEST_WRITE, kMore, Reuse::kKept);
  EXPECT_FALSE(is_kept(kMore));
  used(ATTEST_WRITE, kLess, Reuse::kKept);
  EXPECT_TRUE(is_kept(kLess));
  SharedMemory::give_back();
  EXPECT_FALSE(is_kept(kLess));
  EXPECT_TRUE(is_kept(kLess)) << "the limit stays as it was";
  SharedMemory::keep_at_most(kLess - 1);
  EXPECT_FALSE(is_kept(kLess)) << "what is kept already counts too";
  SharedMemory::keep_at_most(int64_t{512} << 20);
}

int64_t open_files() {
  namespace fs = std::filesystem;
  return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
}

// How many files stay open when `count` owners go in a process that may open `limit` files.
int64_t kept_files(int count, rlim_t limit) {
  rlimit before{};
  EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  SharedMemory::give_back();
  const int64_t others = open_files();
  const rlimit changed{std::min(limit, before.rlim_max), before.rlim_max};
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &changed), 0);
  {
    std::list<SharedMemory> many;
    for (int i = 0; i < count; ++i) many.emplace_back(ATTEST_WRITE, 1, Reuse::kKept);
    EXPECT_EQ(open_files(), others + count);
  }
  const int64_t kept = open_files() - others;
  SharedMemory::give_back();
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  return kept;
}

// Small cases leave thousands of small pieces, and a process may open 1,024 files by default.
TEST(SharedMemory, IsKeptInAQuarterOfTheFilesThatMayBeOpen) { EXPECT_EQ(kept_files(100, 256), 64); }

// Where a process may open more, each start of a process would copy and close them all.
TEST(SharedMemory, IsKeptIn256FilesAtMost) { EXPECT_EQ(kept_files(400, 4096), 256); }

// A small problem does not take the memory that a large one will want.
TEST(SharedMemory, GoesToOwnersOfItsSize) {
  const ino_t large = used(ATTEST_WRITE, 40 * kBytes, Reuse::kKept);
  const SharedMemory small(ATTEST_WRITE, kBytes / 5, Reuse::kKept);
  EXPECT_NE(file_of(small), large);
}

}  // namespace
}  // namespace attest::core
