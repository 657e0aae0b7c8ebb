// Tensors in memory that two processes share: guard pages, canaries, poison.
//
// The parent creates a SharedTensors and hands its descriptor and slots to the worker, which maps
// them (Mapping). Inputs are sealed, so that nobody but the parent can ever map them writable.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/isolation/memory/guards.hpp"
#include "core/isolation/memory/shared_memory.hpp"
#include "core/operations/operation.hpp"

namespace attest::core {

/// The pseudo role of the workspace in a list of slots.
inline constexpr int32_t kWorkspaceRole = -1;

/// Inaccessible memory on both sides of every mapped tensor.
inline constexpr int64_t kGuardBytes = int64_t{1} << 20;

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
/// each.
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
  char* map(size_t i) const { return maps_[i]; }
  void* data(size_t i, const Slot& slot) const { return maps_[i] + slot.data_offset; }

 private:
  char* base_ = nullptr;
  size_t bytes_ = 0;
  std::vector<char*> maps_;
};

/// All tensors of a problem with one kind of access, created by the parent. Their file keeps its
/// size.
class SharedTensors {
 public:
  /// `access`: ATTEST_READ: the inputs, which are zero; ATTEST_WRITE: the outputs and
  /// `workspace_bytes` of workspace, which may hold anything until `poison` is called.
  SharedTensors(const Problem& problem, int32_t access, uint64_t workspace_bytes = 0);

  int descriptor() const { return memory_->descriptor(); }
  std::span<const Slot> slots() const { return slots_; }
  /// By role; roles of the other kind of access are absent.
  const Tensors& tensors() const { return tensors_; }
  /// Moves all tensors to that side of their memory (they start at the end) and writes the canaries
  /// anew; elements are lost.
  void place(Side side);
  /// Refuses new writable mappings; this one stays.
  void seal();
  /// Fills every output with NaN (its dtype's poison), the workspace with `leftover` and the gaps
  /// with canaries.
  void poison(Leftover leftover = Leftover::kNaN);
  /// Whose surroundings were written, and where ("o was written past its end, at byte 4 behind
  /// it"), or "".
  std::string broken_canary() const;

 private:
  char* map(size_t i) const { return memory_->data() + slots_[i].file_offset; }
  Surroundings surroundings(size_t i) const;
  void populate() const;

  const Problem& problem_;
  Canary canary_;
  std::vector<Slot> slots_;
  std::unique_ptr<SharedMemory> memory_;
  Tensors tensors_{};
};

}  // namespace attest::core
