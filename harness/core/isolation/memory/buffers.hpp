// Tensors in memory that two processes share: guard pages, canaries, poison.
//
// The parent creates a SharedTensors and hands its descriptor and slots to the worker, which maps
// them (Mapping). Inputs are sealed, so that nobody but the parent can ever map them writable.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/isolation/memory/guards.hpp"
#include "core/isolation/memory/mapping.hpp"
#include "core/isolation/memory/shared_memory.hpp"
#include "core/operations/operation.hpp"

namespace attest::core {

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
