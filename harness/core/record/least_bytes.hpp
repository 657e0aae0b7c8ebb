// How many bytes the runs of a record read and write at least.
#pragma once
#include "core/record/record.hpp"

namespace attest::core {

/// The bytes of all tensors. 0: not known, since a run need not read every element of them, as with
/// windows.
double least_bytes(const Record& record);

}  // namespace attest::core
