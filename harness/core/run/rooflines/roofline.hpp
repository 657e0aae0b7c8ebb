// How near a record comes to the limits of its machine, or of its device.
//
// A run cannot take less time than its multiply-adds at the peak rate, nor less than its tensors
// take to be read from where they can be: what does not fit into the caches up to some level has to
// come from behind it. The longest of these times is the least that a run can take (Williams,
// Waterman and Patterson, "Roofline", CACM 52(4), 2009, with a roof for each level of memory).
#pragma once
#include <optional>

#include "core/measure/limits/probe.hpp"
#include "core/record/record.hpp"

namespace attest::core {

/// Nothing if the record has no time, or if neither its flops nor its bytes are known. Bytes are
/// not known where a run need not read every element of its tensors, as with windows; then only
/// arithmetic can bind. The peak of arithmetic is the highest among f32, the dtype of the tensors,
/// and the dtypes of the declared arithmetic. `probe`: of the device on which the record was taken
/// (device_limits.hpp); of CPUs, with at least as many threads as the record has.
std::optional<RooflineRecord> roofline_of(const Record& record, const Probe& probe);

}  // namespace attest::core
