#include "core/isolation/shared_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <list>
#include <mutex>
#include <utility>

#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

constexpr int64_t kLeastBytes = int64_t{64} << 10;
// Memory that is more than so many times larger than what is asked for stays for others.
constexpr int64_t kLargestExcess = 4;

int64_t most_kept_bytes() {
  static const int64_t machine_bytes = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  return std::min(int64_t{512} << 20, machine_bytes / 16);
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

/// The memory that waits for its next owner, the most recently used first.
class SharedMemory::Kept {
 public:
  // Never destroyed: owners may outlive any static object.
  static Kept& instance() {
    static Kept& kept = *new Kept;
    return kept;
  }

  /// Memory of at least `bytes`; empty if none is kept that fits.
  Piece take(int32_t access, int64_t bytes) {
    const std::scoped_lock lock(mutex_);
    auto best = pieces_.end();
    for (auto at = pieces_.begin(); at != pieces_.end(); ++at)
      if (at->first == access && at->second.bytes >= bytes &&
          at->second.bytes <= kLargestExcess * bytes &&
          (best == pieces_.end() || at->second.bytes < best->second.bytes))
        best = at;
    if (best == pieces_.end()) return {};
    Piece piece = std::move(best->second);
    pieces_.erase(best);
    bytes_ -= piece.bytes;
    return piece;
  }

  void give(int32_t access, Piece piece) {
    const std::scoped_lock lock(mutex_);
    bytes_ += piece.bytes;
    pieces_.emplace_front(access, std::move(piece));
    while (bytes_ > most_kept_bytes()) {
      bytes_ -= pieces_.back().second.bytes;
      release(pieces_.back().second);
      pieces_.pop_back();
    }
  }

 private:
  std::mutex mutex_;
  std::list<std::pair<int32_t, Piece>> pieces_;
  int64_t bytes_ = 0;
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
  if (!piece_.base)
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

}  // namespace attest::core
