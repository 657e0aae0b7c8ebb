// What a process maps of a file of tensors: the slots apart, with inaccessible memory around each.
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/isolation/memory/kept_maps.hpp"

namespace attest::core {

/// The pseudo role of the workspace in a list of slots.
inline constexpr int32_t kWorkspaceRole = -1;

/// Where one tensor lies in the shared file, in bytes. The data start at an odd multiple of the
/// promised alignment: 64 for tensors, their element in an unaligned problem, 256 for the
/// workspace.
struct Slot {
  int32_t role = 0;
  int64_t file_offset = 0;  // a multiple of the page size
  int64_t map_bytes = 0;    // likewise
  int64_t data_offset = 0;  // of the first element, in the slot
  int64_t data_bytes = 0;
  int64_t alignment = 0;
};

/// Memory mapped in this process: slots apart from each other, inaccessible memory on both sides of
/// each. A large map that has all its pages is kept (KeptMaps) when it is closed or replaced.
class Mapping {
 public:
  Mapping() = default;
  /// Maps every slot of `fd` readable, and writable if asked. Throws Error when the system refuses.
  Mapping(int fd, std::span<const Slot> slots, bool writable);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  /// Puts the tensors of another file, of the same problem, at the same addresses; the workspace
  /// stays. `now`: the slots that this was made with. Throws Error where the slots differ.
  void show(int fd, std::span<const Slot> now, std::span<const Slot> slots, bool writable);

  /// Puts the memory out of reach: later accesses fault. Returns the first address and the number
  /// of bytes.
  std::pair<void*, size_t> close();
  /// Unmaps the memory but keeps the addresses reserved and out of reach.
  void withdraw();

  /// First byte of slot `i`, and its first element.
  char* map(size_t i) const { return maps_[i].at; }
  void* data(size_t i, const Slot& slot) const { return map(i) + slot.data_offset; }

  /// Whether every page of slot `i` is there. Whoever has read them all says so.
  bool has_pages(size_t i) const { return maps_[i].has_pages; }
  void note_pages(size_t i) { maps_[i].has_pages = true; }

 private:
  struct Map {
    char* at;
    FilePart part;
    bool has_pages;
  };
  Map map_file(int fd, const Slot& slot, bool writable, char* at) const;
  static void put_away(Map& map);

  char* base_ = nullptr;
  size_t bytes_ = 0;
  std::vector<Map> maps_;
};

}  // namespace attest::core
