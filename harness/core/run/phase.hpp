// What a record says of one phase of frames that a clock released.
#pragma once
#include <span>

#include "core/record/paced.hpp"

namespace attest::core {

/// Frames arrive once a period. The run on frame i starts at starts_ns[i] and ends at ends_ns[i];
/// both count from the arrival of the first frame. There is at least one frame. The latency
/// includes what delays a start, be it the queue or the machine. So it does under other policies
/// and at other rates.
PhaseRecord phase_record(std::span<const double> starts_ns, std::span<const double> ends_ns,
                         double period_ns);

}  // namespace attest::core
