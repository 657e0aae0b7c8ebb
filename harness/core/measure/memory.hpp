// Memory of this process and of the machine.
#pragma once
#include <cstdint>
#include <filesystem>

namespace attest::core {

/// How far resident memory rose above where it stood, at its highest: the kernel's high-water mark,
/// reset at construction.
///
///   const PeakMemory peak;
///   work();
///   if (peak.available()) use(peak.growth_bytes());
class PeakMemory {
 public:
  PeakMemory();
  /// False where the kernel does not let the mark be reset (/proc/self/clear_refs, since
  /// Linux 4.0).
  bool available() const { return available_; }
  uint64_t growth_bytes() const;

 private:
  uint64_t before_bytes_ = 0;
  bool available_ = false;
};

struct MachineMemory {
  // Of the machine, or the limit of this process's control group where that is less
  uint64_t total_bytes = 0;
  uint64_t available_bytes = 0;  // what can be had without swapping and within the control group
  uint64_t swap_total_bytes = 0, swap_used_bytes = 0;
};

/// Reads proc/meminfo and the limits of control groups (versions 1 and 2, this process's group and
/// those above it) under `root`.
MachineMemory read_memory(const std::filesystem::path& root = "/");

}  // namespace attest::core
