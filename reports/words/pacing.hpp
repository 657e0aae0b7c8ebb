// What a record says of paced frames and of energy, in lines for people.
#pragma once
#include <string>
#include <vector>

#include "core/record/record.hpp"

namespace attest::reports {

/// One line for each phase and policy, and for each sensor; empty if nothing was paced and no
/// energy was asked for:
///   12Hz alone, queue-all: 0 of 120 frames missed; p50 3.2 ms, p90 3.4 ms, p99 3.9 ms (not
///   supported by 120 frames), ...
std::vector<std::string> pacing_lines(const core::Record& record);

}  // namespace attest::reports
