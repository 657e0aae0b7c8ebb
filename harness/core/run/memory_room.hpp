// Whether the machine's memory holds what a check needs.
#pragma once
#include <string>

#include "core/judge/verdict.hpp"

namespace attest::core {

/// The share that inputs and outputs of a relation may take: buffers of the case lie beside them.
inline constexpr double kSharedMemory = 0.5;

/// A number of bytes as people read it: "1.5 GiB".
std::string gibibytes(double bytes);

/// A pass if `bytes` are at most `share` of the memory that is available; else kSkippedMemory.
/// `needs` begins the reason: "needs 3 GiB", and the limit follows.
Outcome fits_in_memory(double bytes, double share, const std::string& needs);

}  // namespace attest::core
