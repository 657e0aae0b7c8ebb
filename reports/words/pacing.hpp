// What a record says of paced frames and of energy, in lines for people.
#pragma once
#include <string>
#include <vector>

#include "core/record/record.hpp"

namespace attest::reports {

/// One line for each phase and policy, and for each sensor; empty if nothing was paced and no
/// energy was asked for:
///   12Hz alone, queue-all: 0 of 120 frames missed; p50 3.20 ms [3.11 ms 3.25 ms], p90 3.40 ms
///   [3.33 ms 3.90 ms], p99 3.90 ms (not supported by 120 frames: 459 needed), ...
std::vector<std::string> pacing_lines(const core::Record& record);

}  // namespace attest::reports
