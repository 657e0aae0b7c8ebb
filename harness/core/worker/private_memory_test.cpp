// Private memory is kept for the next object, out of reach in between, and not without limit.
#include "core/worker/private_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <vector>

namespace attest::core {
namespace {

using Pieces = std::vector<PrivateMemory::Piece>;
constexpr size_t kMiB = size_t{1} << 20;

TEST(PrivateMemory, HasPiecesApartAndOffAPage) {
  const Pieces pieces{{100, 64, false},      {5000, 2, false},     {3 * kMiB, 64, false},
                      {64 * kMiB, 64, true}, {4 * kMiB, 8, false}, {4096, 256, false}};
  const PrivateMemory memory(pieces);
  for (size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data(i)) % 4096, pieces[i].offset);
    memory.data(i)[0] = memory.data(i)[pieces[i].bytes - 1] = char(i);
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_EQ(memory.data(i)[0], char(i));
    EXPECT_EQ(memory.data(i)[pieces[i].bytes - 1], char(i));
  }
}

TEST(PrivateMemory, IsThatOfTheObjectBefore) {
  const auto addresses = [](const Pieces& pieces) {
    const PrivateMemory memory(pieces);
    for (size_t i = 0; i < pieces.size(); ++i) memory.data(i)[0] = 1;
    return std::pair(memory.data(0), memory.data(1));
  };
  const auto before = addresses({{10 * kMiB, 64, false}, {10000, 64, false}});
  EXPECT_EQ(addresses({{2 * kMiB, 64, false}, {100, 64, false}}), before);
  EXPECT_EQ(addresses({{11 * kMiB, 64, false}, {20000, 64, false}}), before);
}

TEST(PrivateMemoryDeathTest, IsOutOfReachWhileItIsKept) {
  char* gone[2];
  {
    const PrivateMemory memory(Pieces{{3 * kMiB, 64, false}, {100, 64, false}});
    for (const size_t i : {0, 1}) *(gone[i] = memory.data(i)) = 1;
  }
  for (char* const at : gone) EXPECT_DEATH(*at = 1, "");
}

TEST(PrivateMemory, IsKeptUpToALimitAndNotIfItIsSparse) {
  const size_t before = PrivateMemory::kept_bytes();
  {
    const PrivateMemory memory(Pieces{{257 * kMiB, 64, false}, {40 * kMiB, 64, true}});
    memory.data(0)[257 * kMiB - 1] = 1;
  }
  EXPECT_EQ(PrivateMemory::kept_bytes(), before);
  {
    const PrivateMemory memory(Pieces{{30 * kMiB, 64, false}});
  }
  EXPECT_GE(PrivateMemory::kept_bytes(), 30 * kMiB);
  const PrivateMemory memory(Pieces{{20 * kMiB, 64, false}});
  EXPECT_GE(PrivateMemory::kept_bytes(), 9 * kMiB);
  EXPECT_LE(PrivateMemory::kept_bytes(), 11 * kMiB);
}

bool has_page(const char* at) {
  constexpr size_t kPageBytes = 4096;
  unsigned char is_there = 0;
  auto* const page =
      reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(at) / kPageBytes * kPageBytes);
  return mincore(page, kPageBytes, &is_there) == 0 && (is_there & 1);
}
// Emulators say that they give pages ahead, and do not. Linux before 5.14 refuses.
bool system_populates() {
  constexpr int kPopulateWrite = 23;
  void* memory = mmap(nullptr, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool done =
      madvise(memory, 1 << 16, kPopulateWrite) != 0 || has_page(static_cast<const char*>(memory));
  munmap(memory, 1 << 16);
  return done;
}

Nodes one_node() { return {allowed_cpus()}; }
/// Of which the second is made up where there is one CPU.
Nodes two_nodes() {
  const std::vector<int> cpus = allowed_cpus();
  return {{cpus.front()}, {cpus.back()}};
}

// Its pieces are larger than those of the tests before it, of which pages are kept.
TEST(PrivateMemory, GetsThePagesOfThePiecesThatAreNamed) {
  const PrivateMemory memory(Pieces{{40 * kMiB, 64, false}, {40 * kMiB, 64, false}});
  memory.populate(std::vector<size_t>{0}, one_node());
  for (const size_t at : {20 * kMiB + 1, 40 * kMiB - 1})
    EXPECT_EQ(has_page(memory.data(0) + at), system_populates()) << at;
  EXPECT_FALSE(has_page(memory.data(1) + 40 * kMiB - 1));
}

// One thread that fills a small piece would get all of it from its own node.
TEST(PrivateMemory, GetsThePagesOfSmallPiecesWhereThereAreSeveralNodes) {
  constexpr size_t kBytes = 300 << 10;
  const auto last_page_is_there = [](const Nodes& nodes) {
    const PrivateMemory memory(Pieces{{kBytes, 64, false}});
    memory.populate(std::vector<size_t>{0}, nodes);
    return has_page(memory.data(0) + kBytes - 1);
  };
  EXPECT_FALSE(last_page_is_there(one_node()));
  EXPECT_EQ(last_page_is_there(two_nodes()), system_populates());
}

// Those of the workspace, which threads of the implementation touch. Some workspaces have no whole
// huge page.
TEST(PrivateMemory, KeepsNoPagesOfOtherPiecesWhereThereAreSeveralNodes) {
  const auto kept_pages = [](size_t bytes, const Nodes& nodes) {
    const Pieces pieces{{100, 64, false}, {bytes, 256, false}};
    {
      const PrivateMemory memory(pieces);
      for (size_t at = 0; at < bytes; at += 4096) memory.data(1)[at] = 1;
    }
    const PrivateMemory memory(pieces);
    memory.populate(std::vector<size_t>{0}, nodes);
    size_t pages = 0;
    for (size_t at = 0; at < bytes; at += 4096) pages += has_page(memory.data(1) + at);
    return pages;
  };
  for (const size_t bytes : {kMiB / 8, kMiB * 3 / 2, 8 * kMiB}) {
    EXPECT_EQ(kept_pages(bytes, one_node()), bytes / 4096) << bytes;
    EXPECT_EQ(kept_pages(bytes, two_nodes()), 0u) << bytes;
  }
}

// A page that is kept keeps its byte; a new one has 0.
TEST(PrivateMemory, ATensorHasNewPagesWhereAWorkspaceWasIfThereAreSeveralNodes) {
  const auto byte_of_workspace = [](const Nodes& nodes) {
    size_t at;  // from the tensor, whose memory begins where that of both pieces began
    {
      const PrivateMemory memory(Pieces{{2 * kMiB, 64, false}, {8 * kMiB, 64, false}});
      at = size_t(memory.data(1) + 4 * kMiB - memory.data(0));
      memory.data(0)[at] = 1;
    }
    const PrivateMemory memory(Pieces{{10 * kMiB, 64, false}});
    memory.populate(std::vector<size_t>{0}, nodes);
    return int(memory.data(0)[at]);
  };
  EXPECT_EQ(byte_of_workspace(one_node()), 1);
  EXPECT_EQ(byte_of_workspace(two_nodes()), 0);
}

// Else a later piece would have the rest of a huge page that was broken up.
TEST(PrivateMemory, GivesBackAHugePageWholeIfAPieceEndsInIt) {
  constexpr size_t kBytes = kMiB * 5 / 2, kHugePageBytes = 2 * kMiB;
  char* last;  // byte of the huge page in which kBytes end
  {
    const PrivateMemory memory(Pieces{{6 * kMiB, 64, false}});
    const auto end = reinterpret_cast<uintptr_t>(memory.data(0)) + kBytes;
    last = reinterpret_cast<char*>(end | (kHugePageBytes - 1));
    *last = 1;
  }
  PrivateMemory(Pieces{{kBytes, 64, false}}).populate({}, two_nodes());
  const PrivateMemory memory(Pieces{{6 * kMiB, 64, false}});
  EXPECT_EQ(*last, 0);
}

}  // namespace
}  // namespace attest::core
