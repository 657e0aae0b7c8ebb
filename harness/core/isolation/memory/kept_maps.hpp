// KeptMaps puts maps of shared files away for a while, with their pages.
//
// To map a MiB takes a hundred microseconds: its pages are entered one by one, closed, and dropped
// one by one. To move a map to other addresses, pages and all, takes less than four.
#pragma once
#include <sys/mman.h>
#include <sys/types.h>

#include <cstdint>
#include <list>

namespace attest::core {

/// The bytes of inaccessible memory on either side of every map of a tensor.
inline constexpr int64_t kGuardBytes = int64_t{1} << 20;

/// A part of a file, as it is mapped.
struct FilePart {
  dev_t device = 0;
  ino_t inode = 0;
  int64_t offset = 0, bytes = 0;  // whole pages
  bool writable = false;

  bool operator==(const FilePart&) const = default;
  /// What a process may do with a map of it, as mmap takes it.
  int protection() const { return PROT_READ | (writable ? PROT_WRITE : 0); }
};

/// Keeps maps at addresses of their own, with inaccessible memory on both sides of each map. A file
/// that was closed lives on until its last map is released. Only one thread may use this object.
class KeptMaps {
 public:
  static KeptMaps& instance();

  /// Whether the system moves such maps: Linux 5.13 does, and later ones.
  bool can_keep() const { return can_keep_; }
  /// Moves the pages of the map at `at` to other addresses. The map at `at` stays and has no pages
  /// then, so the caller must close or replace it. If the system refuses, nothing changes.
  void keep(const FilePart& part, char* at);
  /// Moves a map of `part` to `at`, over what was there. Returns false and changes nothing if none
  /// is kept or the system refuses.
  bool take(const FilePart& part, char* at);
  /// Unmaps all that is kept.
  void release();
  int64_t bytes() const;

 private:
  struct Kept {
    FilePart part;
    char* reserved;  // guards included
  };
  KeptMaps();

  bool can_keep_;
  std::list<Kept> kept_;
};

}  // namespace attest::core
