#include "core/worker/private_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/tensor/error.hpp"
#include "core/worker/page_placement.hpp"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif

namespace attest::core {
namespace {

constexpr size_t kPage = 4096, kHugePage = size_t{2} << 20;
constexpr size_t kOrdinaryStep = size_t{64} << 10;  // of ordinary pages for one CPU

// Below this, threads cost as much as they save, if there is one NUMA node.
constexpr size_t kLeastPopulated_bytes = 2 * kHugePage;

constexpr const char* kNoMemory = "out of memory for the timed tensors";

void* map(size_t bytes, int protection, int flags = 0) {
  void* base = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  if (base == MAP_FAILED) throw Error(kNoMemory);
  return base;
}

size_t most_kept_bytes() {
  static const size_t machine_bytes = size_t(sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
  return std::min(size_t{256} << 20, machine_bytes / 64 / kHugePage * kHugePage);
}

// The pieces that have the same kind of pages, one after another. Addresses for most_kept_bytes()
// are reserved once, so that memory that grows keeps the pages that it has.
class Arena {
 public:
  explicit Arena(bool is_huge) : is_huge_(is_huge) {}
  bool is_huge() const { return is_huge_; }
  size_t unused_bytes() const { return opened_bytes_ - used_bytes_; }

  char* open(size_t bytes) {
    if (bytes == 0) return nullptr;
    if (bytes > most_kept_bytes()) {
      beyond_bytes_ = bytes;
      return beyond_ = prepared(map(bytes, PROT_READ | PROT_WRITE), bytes);
    }
    if (!kept_) kept_ = prepared(map(most_kept_bytes(), PROT_NONE), most_kept_bytes());
    opened_bytes_ = std::max(opened_bytes_, bytes);
    if (mprotect(kept_, opened_bytes_, PROT_READ | PROT_WRITE) != 0) throw Error(kNoMemory);
    used_bytes_ = bytes;
    return kept_;
  }
  // Drops the pages in use and what they hold. The last huge page is dropped whole: nothing behind
  // is in use, and its remains would be ordinary pages where they were.
  void give_back_pages() const {
    const auto begin = reinterpret_cast<uintptr_t>(kept_);
    const uintptr_t end = (begin + used_bytes_ + kHugePage - 1) / kHugePage * kHugePage;
    madvise(kept_, std::min(end - begin, opened_bytes_), MADV_DONTNEED);
  }
  // A thread that goes on with memory that is kept faults.
  void close() {
    if (beyond_) munmap(beyond_, beyond_bytes_);
    beyond_ = nullptr;
    used_bytes_ = 0;
    if (!kept_ || mprotect(kept_, opened_bytes_, PROT_NONE) == 0) return;
    munmap(kept_, most_kept_bytes());
    kept_ = nullptr;
    opened_bytes_ = 0;
  }

 private:
  char* prepared(void* memory, size_t bytes) const {
    if (is_huge_) madvise(memory, bytes, MADV_HUGEPAGE);
    return static_cast<char*>(memory);
  }

  bool is_huge_;
  char *kept_ = nullptr, *beyond_ = nullptr;  // what is kept; one piece too large for that
  size_t opened_bytes_ = 0, used_bytes_ = 0;  // of kept_: ever; now
  size_t beyond_bytes_ = 0;
};
Arena ordinary(false), huge(true);

Arena& arena_of(const PrivateMemory::Piece& piece) {
  return piece.bytes >= kHugePage / 2 ? huge : ordinary;
}
// With a page behind it, so that no two pieces share one.
size_t bytes_in_arena(const PrivateMemory::Piece& piece) {
  return (piece.offset + piece.bytes + 2 * kPage - 1) / kPage * kPage;
}

}  // namespace

PrivateMemory::PrivateMemory(std::span<const Piece> pieces)
    : pieces_(pieces.begin(), pieces.end()) {
  size_t ordinary_bytes = 0, huge_bytes = 0;
  for (const Piece& piece : pieces)
    if (!piece.sparse)
      (arena_of(piece).is_huge() ? huge_bytes : ordinary_bytes) += bytes_in_arena(piece);
  char *ordinary_at = ordinary.open(ordinary_bytes), *huge_at = huge.open(huge_bytes);
  for (const Piece& piece : pieces) {
    if (piece.sparse) {
      // One with a huge page for every few elements would not fit anywhere.
      const size_t bytes = piece.offset + piece.bytes;
      sparse_.push_back({map(bytes, PROT_READ | PROT_WRITE, MAP_NORESERVE), bytes});
      madvise(sparse_.back().base, bytes, MADV_NOHUGEPAGE);
      data_.push_back(static_cast<char*>(sparse_.back().base) + piece.offset);
      continue;
    }
    char*& at = arena_of(piece).is_huge() ? huge_at : ordinary_at;
    data_.push_back(at + piece.offset);
    at += bytes_in_arena(piece);
  }
}

PrivateMemory::~PrivateMemory() {
  for (const Sparse& one : sparse_) munmap(one.base, one.bytes);
  ordinary.close();
  huge.close();
}

void PrivateMemory::populate(std::span<const size_t> pieces, const Nodes& nodes) const {
  std::vector<MemoryRange> pages;
  size_t bytes = 0;
  for (const size_t i : pieces) {
    const auto at = reinterpret_cast<uintptr_t>(data_[i]);
    pages.push_back({at / kPage * kPage, at + pieces_[i].bytes,
                     arena_of(pieces_[i]).is_huge() ? kHugePage : kOrdinaryStep});
    bytes += pieces_[i].bytes;
  }
  if (nodes.size() > 1) {
    ordinary.give_back_pages();
    huge.give_back_pages();
  } else if (bytes < kLeastPopulated_bytes) {
    return;
  }
  get_pages(pages, nodes, [](const MemoryRange& step) {
    auto* const begin = reinterpret_cast<char*>(step.begin);
    const size_t step_bytes = step.end - step.begin;
    if (madvise(begin, step_bytes, MADV_POPULATE_WRITE) == 0 || errno != EINVAL) return;
    // Linux before 5.14
    for (size_t at = 0; at < step_bytes; at += kPage) static_cast<volatile char*>(begin)[at] = 0;
  });
}

size_t PrivateMemory::kept_bytes() { return ordinary.unused_bytes() + huge.unused_bytes(); }

}  // namespace attest::core
