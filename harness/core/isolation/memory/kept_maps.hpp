// Maps of shared files that a process keeps for later, with their pages.
//
// To map a MiB takes a hundred microseconds: its pages are entered one by one, closed, and dropped
// one by one. To move a map to other addresses, pages and all, takes less than four.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <list>

namespace attest::core {

/// A part of a file, as it is mapped.
struct FilePart {
  dev_t device = 0;
  ino_t file = 0;
  int64_t offset = 0, bytes = 0;  // whole pages
  bool writable = false;

  bool operator==(const FilePart&) const = default;
};

/// The maps that this process keeps, at addresses that nobody else knows. Files that were closed
/// live on as long as a map of theirs is kept. Not for several threads at once.
class KeptMaps {
 public:
  static KeptMaps& instance();

  /// Moves the map at `at` away. What stays there has no pages; the caller closes it, or maps
  /// something else over it. False: the system cannot (Linux before 5.13), and nothing has changed.
  bool keep(const FilePart& part, char* at);
  /// Moves a map of that part to `at`, over what was there. False: none is kept.
  bool take(const FilePart& part, char* at);
  /// Unmaps what was kept first, until at most `most_bytes` are left.
  void release_all_but(int64_t most_bytes);
  int64_t bytes() const { return bytes_; }

 private:
  struct Kept {
    FilePart part;
    void* at;
  };
  std::list<Kept> kept_;  // the one kept last comes first
  int64_t bytes_ = 0;
};

}  // namespace attest::core
