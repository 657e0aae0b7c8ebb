// The peak rates of a GPU from its clocks and the numbers of its units, where the CPU's are
// measured (probe.hpp). A clock that the device may have for a moment only counts too, so no run
// can be faster.
//
//   if (const std::optional<Probe> limits = device_limits(read_cuda_facts()))
//     record.roofline = roofline_of(record, *limits);
#pragma once
#include <optional>

#include "core/device/device.hpp"
#include "core/measure/limits/probe.hpp"

namespace attest::core {

/// The multiply-adds of the plain units and of the tensor cores, and reads from memory. What fits
/// into the L2 has no limit. Nothing if neither is known: the architecture is not in the table, and
/// the device does not say how fast its memory is.
std::optional<Probe> device_limits(const DeviceFacts& facts);

}  // namespace attest::core
