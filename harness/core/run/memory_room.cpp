#include "core/run/memory_room.hpp"

#include <fmt/format.h>

#include "core/isolation/memory/shared_memory.hpp"
#include "core/measure/machine/memory.hpp"

namespace attest::core {
namespace {

// For less than this, the files that say how much memory is available are not read: they are asked
// about for every check of every case.
constexpr double kAlwaysThere_bytes = double(64 << 20);

}  // namespace

std::string print_memory(double bytes) {
  return bytes < 0x1p30 ? fmt::format("{:.3g} MiB", bytes / 0x1p20)
                        : fmt::format("{:.3g} GiB", bytes / 0x1p30);
}

Outcome fits_in_memory(double bytes, double share, uint64_t memory_bytes,
                       const std::string& needs) {
  if (memory_bytes > 0 && bytes > double(memory_bytes))
    return {ReasonCode::kSkippedMemory,
            fmt::format("{}; --memory allows {}", needs, print_memory(double(memory_bytes)))};
  if (bytes < kAlwaysThere_bytes) return {};
  MachineMemory memory = read_memory();
  const auto most = [&] { return share * double(memory.available_bytes); };
  if (bytes <= most()) return {};
  if (bytes <= share * double(memory.total_bytes)) {
    SharedMemory::give_back();
    memory = read_memory();
    if (bytes <= most()) return {};
  }
  return {ReasonCode::kSkippedMemory,
          fmt::format("{}; the limit is {}", needs, print_memory(most()))};
}

}  // namespace attest::core
