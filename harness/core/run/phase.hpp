// What a record says of one phase of frames that a clock released.
#pragma once
#include <span>

#include "core/record/paced.hpp"

namespace attest::core {

/// `frames` arrive, one a period. The run on frame i starts at starts_ns[i] and ends at ends_ns[i];
/// both count from the arrival of the first frame. At least one frame ran. The latency includes
/// what delays a start, be it the queue or the machine. So it does under other policies and at
/// other rates. Frames without a start never ran: queue-all and other rates missed them.
PhaseRecord phase_record(std::span<const double> starts_ns, std::span<const double> ends_ns,
                         double period_ns, int64_t frames);

/// Compares `contended`, which the record has, with `alone`: sets the fields `slowdown...`.
void set_slowdown(PacedRecord& record);

}  // namespace attest::core
