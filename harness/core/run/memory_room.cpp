#include "core/run/memory_room.hpp"

#include <fmt/format.h>

#include "core/measure/memory.hpp"

namespace attest::core {
namespace {

// For less than this, the files that say how much memory is available are not read: they are asked
// about for every check of every case.
constexpr double kAlwaysThere_bytes = double(64 << 20);

}  // namespace

std::string gibibytes(double bytes) { return fmt::format("{:.3g} GiB", bytes / double(1u << 30)); }

Outcome fits_in_memory(double bytes, double share, const std::string& needs) {
  if (bytes < kAlwaysThere_bytes) return {};
  const double most = share * double(read_memory().available_bytes);
  if (bytes <= most) return {};
  return {ReasonCode::kSkippedMemory, fmt::format("{}; the limit is {}", needs, gibibytes(most))};
}

}  // namespace attest::core
