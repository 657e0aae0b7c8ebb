// Which CPU gets which pages of tensors. The rule for those of timed runs, and its reason, are in
// core/run/README.md, "Where the tensors of timed runs lie".
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/measure/machine/affinity.hpp"

namespace attest::core {

/// Addresses [begin, end), which CPUs get in steps.
struct MemoryRange {
  uintptr_t begin, end;
  uintptr_t step_bytes;  // whole pages
};

/// The steps of all pages, by CPU in the order of the nodes. Each byte is in one step.
std::vector<std::vector<MemoryRange>> share_pages(std::span<const MemoryRange> all,
                                                  const Nodes& nodes);

/// Calls get(step) for each step of all pages on the CPU whose it is, on all CPUs at once. False:
/// the system starts no more threads, and some steps are left out.
bool get_pages(std::span<const MemoryRange> all, const Nodes& nodes,
               const std::function<void(const MemoryRange&)>& get);

}  // namespace attest::core
