// Maps of shared files that a process puts away for a while, with their pages.
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
  ino_t inode = 0;
  int64_t offset = 0, bytes = 0;  // whole pages
  bool writable = false;

  bool operator==(const FilePart&) const = default;
};

/// The maps that this process keeps, with inaccessible memory on both sides of each. A file that
/// was closed lives on as long as a map of it is kept. Not for several threads at once.
class KeptMaps {
 public:
  static KeptMaps& instance();

  /// Whether the system moves such maps: Linux 5.13 does, and later ones.
  bool can_keep() const { return can_keep_; }
  /// Moves the map at `at` away. What stays there has no pages; the caller closes it, or maps
  /// something else over it. False: nothing has changed.
  bool keep(const FilePart& part, char* at);
  /// Moves a map of that part to `at`, over what was there. False: there is none, and nothing has
  /// changed.
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
