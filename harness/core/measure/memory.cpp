#include "core/measure/memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace attest::core {
namespace {

// "Key:   123 kB" of a /proc file, in bytes.
uint64_t read_kib(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.compare(0, key.size(), key) == 0) return std::stoull(line.substr(key.size())) * 1024;
  return 0;
}

std::optional<uint64_t> read_number(const char* file) {
  std::ifstream in(file);
  uint64_t value = 0;
  if (in >> value) return value;  // "max" is no limit
  return std::nullopt;
}

// What the process's control group still leaves: version 2 as seen inside a container, then version 1.
uint64_t cgroup_available() {
  for (const auto& [limit_file, used_file] : {std::pair{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
                                              std::pair{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"}}) {
    const auto limit = read_number(limit_file), used = read_number(used_file);
    if (limit && used) return *limit > *used ? *limit - *used : 0;
  }
  return std::numeric_limits<uint64_t>::max();
}

}  // namespace

PeakMemory::PeakMemory() {
  std::ofstream reset("/proc/self/clear_refs");
  reset << "5" << std::flush;  // 5: reset the high-water mark (proc(5))
  available_ = reset.good();
  before_bytes_ = read_kib("/proc/self/status", "VmRSS:");
  available_ &= before_bytes_ > 0;
}

uint64_t PeakMemory::growth_bytes() const {
  const uint64_t peak = read_kib("/proc/self/status", "VmHWM:");
  return peak > before_bytes_ ? peak - before_bytes_ : 0;
}

MachineMemory read_memory() {
  MachineMemory memory{read_kib("/proc/meminfo", "MemTotal:"), read_kib("/proc/meminfo", "MemAvailable:")};
  memory.available_bytes = std::min(memory.available_bytes, cgroup_available());
  return memory;
}

}  // namespace attest::core
