#include "core/isolation/memory/shared_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "core/tensor/error.hpp"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif

namespace attest::core {
namespace {

constexpr int64_t kLeastBytes = int64_t{64} << 10;
// Pages that one thread gets at a time.
constexpr int64_t kStep_bytes = int64_t{1} << 20;
// Memory that is more than so many times larger than what is asked for stays for others.
constexpr int64_t kLargestExcess = 4;

std::atomic<int64_t>& most_kept_bytes() {
  static std::atomic<int64_t> bytes =
      std::min(int64_t{512} << 20, sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 16);
  return bytes;
}

// Each piece has an open file. Every start of a process copies and closes all open files; 5,000 of
// them take at least 0.13 ms of processor time. A case of few tokens has some hundred in use.
constexpr size_t kMostPieces = 256;

// A quarter of the files that this process may open, 256 of the usual 1,024, leaves room for the
// tensors of a case, for workers and for relations.
size_t most_kept_pieces() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return 0;
  return std::min(kMostPieces, size_t(files.rlim_cur / 4));
}

// In steps of a quarter of a power of two, so that problems of nearly the same size can have each
// other's memory.
int64_t rounded(int64_t bytes) {
  const int64_t step = std::max(kLeastBytes, int64_t(std::bit_floor(uint64_t(bytes)) / 4));
  return (bytes + step - 1) / step * step;
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}
Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

/// The memory that waits for its next owner. Some hundred pieces may wait at once, so that they are
/// found by their size and forgotten by their age without a walk over all.
class SharedMemory::Kept {
 public:
  // Never destroyed: owners may outlive any static object.
  static Kept& instance() {
    static Kept& kept = *new Kept;
    return kept;
  }

  /// The smallest memory of at least `bytes`, of several the one used last; empty if none is kept
  /// that fits.
  Piece take(int32_t access, int64_t bytes) {
    const std::scoped_lock lock(mutex_);
    const auto best = by_size_.lower_bound({access, bytes, kNewest});
    if (best == by_size_.end()) return {};
    const auto [kept_access, kept_bytes, negative_age] = best->first;
    if (kept_access != access || kept_bytes > kLargestExcess * bytes) return {};
    Piece piece = std::move(best->second);
    by_age_.erase(-negative_age);
    by_size_.erase(best);
    bytes_ -= piece.bytes;
    return piece;
  }

  void give(int32_t access, Piece piece) {
    const std::scoped_lock lock(mutex_);
    bytes_ += piece.bytes;
    const Key key{access, piece.bytes, -++given_};
    by_age_.emplace(given_, key);
    by_size_.emplace(key, std::move(piece));
    release_all_but(most_kept_bytes(), most_kept_pieces());
  }

  void keep(int64_t most_bytes) {
    const std::scoped_lock lock(mutex_);
    release_all_but(most_bytes, most_kept_pieces());
  }

 private:
  // The access, the bytes, and minus the count of pieces given until this one was.
  using Key = std::tuple<int32_t, int64_t, int64_t>;
  static constexpr int64_t kNewest = std::numeric_limits<int64_t>::min();

  // The oldest go first.
  void release_all_but(int64_t most_bytes, size_t most_pieces) {
    while (bytes_ > most_bytes || by_size_.size() > most_pieces) {
      const auto oldest = by_size_.find(by_age_.begin()->second);
      bytes_ -= oldest->second.bytes;
      release(oldest->second);
      by_size_.erase(oldest);
      by_age_.erase(by_age_.begin());
    }
  }

  std::mutex mutex_;
  std::map<Key, Piece> by_size_;
  std::map<int64_t, Key> by_age_;
  int64_t bytes_ = 0, given_ = 0;
};

SharedMemory::Piece SharedMemory::make(int64_t bytes) {
  Descriptor file(memfd_create("attest", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ftruncate(file.get(), bytes) != 0)
    throw Error(
        fmt::format("cannot create {} bytes of shared memory: {}", bytes, std::strerror(errno)));
  void* base = mmap(nullptr, size_t(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (base == MAP_FAILED)
    throw Error(
        fmt::format("cannot map {} bytes of shared memory: {}", bytes, std::strerror(errno)));
  return {std::move(file), static_cast<char*>(base), bytes};
}

void SharedMemory::release(Piece& piece) { munmap(piece.base, size_t(piece.bytes)); }

SharedMemory::SharedMemory(int32_t access, int64_t bytes, Reuse reuse)
    : access_(access), reuse_(reuse) {
  if (reuse != Reuse::kNever) piece_ = Kept::instance().take(access, bytes);
  is_new_ = !piece_.base;
  if (is_new_)
    piece_ = make(reuse == Reuse::kNever ? bytes : rounded(bytes));
  else if (reuse == Reuse::kZeroed)
    std::memset(piece_.base, 0, size_t(bytes));
}

SharedMemory::~SharedMemory() {
  if (!piece_.base) return;
  if (reuse_ == Reuse::kNever || piece_.bytes > most_kept_bytes())
    release(piece_);
  else
    Kept::instance().give(access_, std::move(piece_));
}

void SharedMemory::keep_at_most(int64_t bytes) {
  most_kept_bytes() = bytes;
  Kept::instance().keep(bytes);
}
void SharedMemory::give_back() { Kept::instance().keep(0); }

// Older systems refuse; whoever fills the memory then gets the pages.
void SharedMemory::populate(int64_t begin, int64_t bytes) const {
  const int64_t end = begin + bytes;
#pragma omp parallel for schedule(dynamic, 1) if (bytes > kStep_bytes)
  for (int64_t at = begin; at < end; at += kStep_bytes)
    madvise(piece_.base + at, size_t(std::min(kStep_bytes, end - at)), MADV_POPULATE_WRITE);
}

}  // namespace attest::core
