// Memory of this process and of the machine.
#pragma once
#include <cstdint>
#include <filesystem>

namespace attest::core {

/// The peak growth of resident memory since construction, from the kernel's high-water mark. The
/// constructor resets the mark.
///
///   const PeakMemory peak;
///   work();
///   if (peak.available()) use(peak.growth_bytes());
class PeakMemory {
 public:
  PeakMemory();
  /// False if the kernel cannot reset the mark (/proc/self/clear_refs, since Linux 4.0).
  bool available() const { return available_; }
  uint64_t growth_bytes() const;

 private:
  uint64_t before_bytes_ = 0;
  bool available_ = false;
};

struct MachineMemory {
  // The machine's memory, or the limit of this process's control group if that is less
  uint64_t total_bytes = 0;
  uint64_t available_bytes = 0;  // without swapping, within the control group
  uint64_t swap_total_bytes = 0, swap_used_bytes = 0;
};

/// Reads proc/meminfo under `root`, and the limits of this process's control group and all groups
/// above it (versions 1 and 2).
MachineMemory read_memory(const std::filesystem::path& root = "/");

}  // namespace attest::core
