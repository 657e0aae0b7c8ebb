// Memory that this process shares with workers: files without a name, mapped here.
#pragma once
#include <cstdint>

namespace attest::core {

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

/// What becomes of shared memory at the end of its owner's life.
enum class Reuse {
  kNever,   // of sparse tensors, whose pages are mostly absent
  kKept,    // for the next owner with the same access, whatever it holds
  kZeroed,  // likewise, but the next owner finds zeros
};

/// A file in memory that is mapped readable and writable in this process. New pages cost some
/// twenty times as much as writing over old ones, so this process keeps the memory of owners that
/// are gone: a sixteenth of the machine's memory, 512 MiB at most, unless keep_at_most is called.
/// It keeps at most 256 pieces, and at most as many as a quarter of the files that it may open.
class SharedMemory {
 public:
  /// At least `bytes` of memory. `access`: of the workers, ATTEST_READ or ATTEST_WRITE. Memory of
  /// one access never becomes that of the other. Throws Error if the system refuses.
  SharedMemory(int32_t access, int64_t bytes, Reuse reuse);
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  int descriptor() const { return piece_.file.get(); }
  char* data() const { return piece_.base; }
  /// False where an earlier owner had it: it has pages then.
  bool is_new() const { return is_new_; }
  /// Sets how many bytes of memory without an owner this process keeps. The oldest go first.
  static void keep_at_most(int64_t bytes);
  /// Gives all memory without an owner back to the system.
  static void give_back();
  /// Gets the pages of [begin, begin + bytes) from the system, on all CPUs at once. For what is
  /// about to be filled: one thread that fills it would wait for each new page in turn.
  void populate(int64_t begin, int64_t bytes) const;

 private:
  struct Piece {
    Descriptor file{};
    char* base = nullptr;
    int64_t bytes = 0;
  };
  class Kept;
  static Piece make(int64_t bytes);
  static void release(Piece& piece);

  int32_t access_;
  Reuse reuse_;
  Piece piece_;
  bool is_new_ = false;
};

}  // namespace attest::core
