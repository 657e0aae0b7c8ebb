// The tensors of one request as a worker has them: mapped from the harness's file, and by role for
// the plugin.
#pragma once
#include <vector>

#include "core/isolation/memory/buffers.hpp"
#include "core/isolation/status_page.hpp"

namespace attest::core {

/// Shared tensors of one direction, mapped, with their addresses noted on the status page.
struct MappedTensors {
  std::vector<Slot> slots;
  Mapping mapping;

  MappedTensors(std::vector<Slot> slots_of_file, const Descriptor& file, bool writable,
                StatusPage& status);
  /// Gets every page that elements lie in, the workspace's apart. `tensor`: by role.
  void touch(const attest_tensor* tensor);
  /// Puts the tensors of another set, of the same problem, at the same addresses; the workspace
  /// stays.
  void show(const Descriptor& file, std::span<const Slot> others, bool writable) {
    mapping.show(file.get(), slots, others, writable);
  }
  void* data(size_t i) const { return mapping.data(i, slots[i]); }
};

/// What a plugin's run gets.
struct Arguments {
  void* data[ATTEST_ROLES]{};
  void* workspace = nullptr;

  void add(const Slot& slot, void* at) {
    if (slot.role == kWorkspaceRole)
      workspace = at;
    else
      data[slot.role] = at;
  }
};

}  // namespace attest::core
