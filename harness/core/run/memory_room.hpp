// Whether the machine's memory holds what a check needs.
#pragma once
#include <cstdint>
#include <string>

#include "core/judge/verdict.hpp"

namespace attest::core {

/// The share that inputs and outputs of a relation may take: buffers of the case lie beside them.
inline constexpr double kSharedMemory = 0.5;

/// A number of bytes as people read it: "1.5 GiB", "160 MiB".
std::string print_memory(double bytes);

/// A pass if `bytes` are at most `share` of the memory that is available, and at most
/// Limits::memory_bytes if that is given (not 0); else kSkippedMemory. `needs` begins the reason:
/// "needs 3 GiB", and the limit follows. Where memory is short, what this process keeps for
/// later tensors goes back to the system first, unless all memory of the machine were too little.
Outcome fits_in_memory(double bytes, double share, uint64_t memory_bytes, const std::string& needs);

}  // namespace attest::core
