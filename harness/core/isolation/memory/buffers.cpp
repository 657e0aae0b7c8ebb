#include "core/isolation/memory/buffers.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "core/tensor/runs.hpp"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010  // Linux 5.1
#endif

namespace attest::core {
namespace {

// What attest.h promises: of tensors, and of the workspace.
constexpr int64_t kAlignment = 64, kWorkspaceAlignment = 256;

int64_t page_size() {
  static const int64_t size = sysconf(_SC_PAGESIZE);
  return size;
}
int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// At an odd multiple of the alignment, so that one who assumes more shows it, and as near to that
// side as this allows.
int64_t data_offset(const Slot& slot, Side side) {
  if (side == Side::kFront) return slot.alignment;
  const int64_t last = slot.map_bytes - slot.data_bytes;
  return last - (last - slot.alignment) % (2 * slot.alignment);
}

Slot make_slot(int32_t role, int64_t bytes, int64_t file_offset, int64_t alignment) {
  Slot slot{.role = role, .file_offset = file_offset, .data_bytes = bytes, .alignment = alignment};
  slot.map_bytes = round_up(bytes + 2 * alignment, page_size());
  return slot;
}

}  // namespace

SharedTensors::SharedTensors(const Problem& problem, int32_t access, uint64_t workspace_bytes)
    : problem_(problem), canary_(access == ATTEST_READ ? Canary::kInput : Canary::kOutput) {
  int64_t bytes = 0;
  Reuse reuse = access == ATTEST_READ ? Reuse::kZeroed : Reuse::kKept;
  const bool unaligned = (problem.features & ATTEST_WITH_UNALIGNED) != 0;
  auto add = [&](int32_t role, int64_t data_bytes, int64_t alignment) {
    slots_.push_back(make_slot(role, data_bytes, bytes, alignment));
    bytes += slots_.back().map_bytes;
  };
  for (const Role& role : problem.operation->roles()) {
    const TensorSpec& spec = problem.tensor[size_t(role.index)];
    if (!present(spec) || !(role.access & access)) continue;
    add(role.index, extent_bytes(spec), unaligned ? int64_t(dtype_bytes(spec.dtype)) : kAlignment);
    if (is_sparse(spec)) reuse = Reuse::kNever;
  }
  if (workspace_bytes > 0) add(kWorkspaceRole, int64_t(workspace_bytes), kWorkspaceAlignment);
  memory_ = std::make_unique<SharedMemory>(access, bytes, reuse);
  // A worker could truncate the file otherwise, and this process would fault.
  fcntl(descriptor(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  if (memory_->is_new() && reuse != Reuse::kNever) populate();
  place(Side::kEnd);
}

// Gets the pages that a fill or `poison` writes next. In the gaps of a tensor that is not dense,
// most may never be needed.
void SharedTensors::populate() const {
  for (const Slot& slot : slots_) {
    const bool is_workspace = slot.role == kWorkspaceRole;
    if (!is_workspace && !fills_extent(problem_.tensor[size_t(slot.role)])) continue;
    const int64_t most = is_workspace ? kPoisonedWorkspace : slot.map_bytes,
                  front = std::min(slot.map_bytes, round_up(most, page_size())),
                  back = std::min(slot.map_bytes - front, front);
    memory_->populate(slot.file_offset, front);
    if (back > 0) memory_->populate(slot.file_offset + slot.map_bytes - back, back);
  }
}

void SharedTensors::place(Side side) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].data_offset = data_offset(slots_[i], side);
    const auto role = size_t(slots_[i].role);
    if (slots_[i].role != kWorkspaceRole)
      tensors_[role] = {problem_.tensor[role], map(i) + slots_[i].data_offset};
  }
  for (size_t i = 0; i < slots_.size(); ++i) write_canaries(surroundings(i));
}

Surroundings SharedTensors::surroundings(size_t i) const {
  const Slot& slot = slots_[i];
  const TensorSpec* spec =
      slot.role == kWorkspaceRole ? nullptr : &tensors_[size_t(slot.role)].spec;
  return {map(i), slot.map_bytes, slot.data_offset, slot.data_bytes, spec, canary_};
}

void SharedTensors::seal() {
  // Older kernels refuse the flag; the worker's read-only mapping then protects the inputs alone.
  fcntl(descriptor(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
}

void SharedTensors::poison(Leftover leftover) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    write_canaries(surroundings(i));
    if (slots_[i].role == kWorkspaceRole)
      fill_workspace(map(i) + slots_[i].data_offset, slots_[i].data_bytes, leftover);
    else
      poison_tensor(tensors_[size_t(slots_[i].role)]);
  }
}

std::string SharedTensors::broken_canary() const {
  for (size_t i = 0; i < slots_.size(); ++i) {
    const std::string broken = core::broken_canary(surroundings(i));
    if (broken.empty()) continue;
    return fmt::format("{} {}",
                       slots_[i].role == kWorkspaceRole
                           ? "workspace"
                           : find_role(*problem_.operation, slots_[i].role)->name,
                       broken);
  }
  return {};
}

}  // namespace attest::core
