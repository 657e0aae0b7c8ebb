// Memory of this process and of the machine.
#pragma once
#include <cstdint>

namespace attest::core {

/// How far resident memory rose above where it stood, at its highest: the kernel's high-water mark, reset at construction.
///
///   const PeakMemory peak;
///   work();
///   if (peak.available()) use(peak.growth_bytes());
class PeakMemory {
 public:
  PeakMemory();
  /// False where the kernel does not let the mark be reset (/proc/self/clear_refs, since Linux 4.0).
  bool available() const { return available_; }
  uint64_t growth_bytes() const;

 private:
  uint64_t before_bytes_ = 0;
  bool available_ = false;
};

struct MachineMemory {
  uint64_t total_bytes = 0, available_bytes = 0;  // available: what can be had without swapping, a cgroup's limit considered
};
MachineMemory read_memory();

}  // namespace attest::core
