// Numbers that many folders need.
#pragma once
#include <cstdint>
#include <limits>

namespace attest::core {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Loops over more elements than this use threads. On fewer, threads cost more than they save.
inline constexpr int64_t kThreadedElements = 65536;

}  // namespace attest::core
