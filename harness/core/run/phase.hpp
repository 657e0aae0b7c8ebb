// What a record says of one phase of frames that a clock released.
#pragma once
#include <span>

#include "core/record/paced.hpp"

namespace attest::core {

/// `starts_ns`, `ends_ns`: of the run on each frame, from the arrival of the first; at least one.
/// Frames arrive once a period. Whatever delays a start, the queue or the machine, is latency: as
/// measured, under other policies and at other rates.
PhaseRecord phase_record(std::span<const double> starts_ns, std::span<const double> ends_ns,
                         double period_ns);

}  // namespace attest::core
