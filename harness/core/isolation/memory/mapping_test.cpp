// Maps that are put away keep their pages, cannot be reached meanwhile, and come back as they were
// asked for.
#include "core/isolation/memory/mapping.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "core/isolation/memory/shared_memory.hpp"

namespace attest::core {
namespace {

constexpr int64_t kMap_bytes = 4 << 20;
constexpr size_t kPage_bytes = 4096;

Descriptor file_of(char byte, int64_t bytes = 2 * kMap_bytes) {
  Descriptor file(memfd_create("mapping_test", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(file.get(), bytes), 0);
  for (int64_t at = 0; at < bytes; at += 4096) EXPECT_EQ(pwrite(file.get(), &byte, 1, at), 1);
  return file;
}

Slot slot_of(int32_t role, int64_t offset = 0) {
  return {.role = role, .file_offset = offset, .map_bytes = kMap_bytes, .data_bytes = kMap_bytes};
}

/// Asks the system, which answers where an access would fault.
bool is_readable(const char* at) {
  int pipe_ends[2];
  EXPECT_EQ(pipe(pipe_ends), 0);
  const Descriptor to_read(pipe_ends[0]), to_write(pipe_ends[1]);
  return write(to_write.get(), at, 1) == 1;
}

/// Whether nothing is mapped at that page.
bool is_free(uintptr_t page) {
  void* const mapped = mmap(reinterpret_cast<void*>(page), kPage_bytes, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (mapped == MAP_FAILED) return false;
  munmap(mapped, kPage_bytes);
  return mapped == reinterpret_cast<void*>(page);  // qemu takes the address for a wish
}

/// The addresses, begin and end, that this process has mapped of a file.
std::vector<std::pair<uintptr_t, uintptr_t>> maps_of(const Descriptor& file) {
  struct stat facts{};
  EXPECT_EQ(fstat(file.get(), &facts), 0);
  std::vector<std::pair<uintptr_t, uintptr_t>> maps;
  std::ifstream lines("/proc/self/maps");
  for (std::string line; std::getline(lines, line);) {
    uintptr_t begin = 0, end = 0;
    unsigned long inode = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %*s %*s %*s %lu", &begin, &end, &inode) == 3 &&
        inode == facts.st_ino)
      maps.emplace_back(begin, end);
  }
  return maps;
}

class Maps : public testing::Test {
 protected:
  void SetUp() override {
    if (!KeptMaps::instance().can_keep())
      GTEST_SKIP() << "Linux before 5.13 does not move such maps";
  }
  void TearDown() override { KeptMaps::instance().release(); }

  static int64_t kept_bytes() { return KeptMaps::instance().bytes(); }
  static Mapping full(const Descriptor& file, const Slot& slot, bool writable = false) {
    Mapping mapping(file.get(), {&slot, 1}, writable);
    mapping.note_pages(0);
    return mapping;
  }
};

TEST_F(Maps, OfAClosedMappingAreKeptOutOfReach) {
  const Descriptor file = file_of('a');
  Mapping mapping = full(file, slot_of(0));
  char* const was = mapping.map(0);
  ASSERT_TRUE(is_readable(was));
  mapping.close();
  EXPECT_FALSE(is_readable(was));
  EXPECT_EQ(kept_bytes(), kMap_bytes);

  const Slot slot = slot_of(0);
  const Mapping again(file.get(), {&slot, 1}, false);
  EXPECT_TRUE(again.has_pages(0));
  EXPECT_NE(again.map(0), was) << "the addresses of what is closed stay reserved";
  EXPECT_EQ(again.map(0)[kMap_bytes - 4096], 'a');
  EXPECT_EQ(kept_bytes(), 0);
}

TEST_F(Maps, ComeBackOnlyForThePartAndTheAccessThatTheyWereMadeFor) {
  const Descriptor file = file_of('a'), other = file_of('b');
  full(file, slot_of(0)).close();
  const auto found = [](const Descriptor& from, const Slot& slot, bool writable) {
    return Mapping(from.get(), {&slot, 1}, writable).has_pages(0);
  };
  EXPECT_FALSE(found(other, slot_of(0), false)) << "another file";
  EXPECT_FALSE(found(file, slot_of(0, kMap_bytes), false)) << "another place in the file";
  EXPECT_FALSE(found(file, slot_of(0), true)) << "to be written";
  Slot less = slot_of(0);
  less.map_bytes /= 2;
  EXPECT_FALSE(found(file, less, false)) << "less of it";
  EXPECT_TRUE(found(file, slot_of(0), false));
}

TEST_F(Maps, WithoutAllTheirPagesAreDropped) {
  const Descriptor file = file_of('a');
  const Slot slot = slot_of(0);
  Mapping mapping(file.get(), {&slot, 1}, false);
  char* const was = mapping.map(0);
  mapping.close();
  EXPECT_FALSE(is_readable(was));
  EXPECT_EQ(kept_bytes(), 0);
}

TEST_F(Maps, TakeTurnsAtTheSameAddresses) {
  const Descriptor first = file_of('a'), second = file_of('b');
  const Slot slot = slot_of(0);
  Mapping mapping = full(first, slot, true);
  char* const at = mapping.map(0);
  mapping.show(second.get(), {&slot, 1}, {&slot, 1}, true);
  EXPECT_EQ(*at, 'b');
  EXPECT_FALSE(mapping.has_pages(0)) << "nobody has read them";
  mapping.note_pages(0);
  mapping.show(first.get(), {&slot, 1}, {&slot, 1}, true);
  EXPECT_EQ(*at, 'a');
  EXPECT_TRUE(mapping.has_pages(0));
  *at = 'c';
  char written = 0;
  EXPECT_EQ(pread(first.get(), &written, 1, 0), 1);
  EXPECT_EQ(written, 'c') << "the file is what is written";
}

// Else a plugin that writes past its own memory could change outputs unseen.
TEST_F(Maps, ThatAreKeptHaveInaccessibleMemoryAroundThem) {
  const Descriptor file = file_of('a');
  full(file, slot_of(0)).close();
  const std::vector<std::pair<uintptr_t, uintptr_t>> maps = maps_of(file);
  ASSERT_EQ(maps.size(), 1);
  EXPECT_TRUE(is_readable(reinterpret_cast<const char*>(maps[0].first)));
  for (const uintptr_t guard : {maps[0].first - kPage_bytes, maps[0].second}) {
    EXPECT_FALSE(is_readable(reinterpret_cast<const char*>(guard)));
    EXPECT_FALSE(is_free(guard)) << "a plugin could be given it";
  }
}

TEST_F(Maps, AreGoneWhenTheyAreReleased) {
  const Descriptor file = file_of('a');
  full(file, slot_of(0)).close();
  KeptMaps::instance().release();
  EXPECT_EQ(kept_bytes(), 0);
  const Slot slot = slot_of(0);
  EXPECT_FALSE(Mapping(file.get(), {&slot, 1}, false).has_pages(0));
}

}  // namespace
}  // namespace attest::core
