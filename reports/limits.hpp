// How near records come to the limits of their machine, in words.
#pragma once
#include <string>
#include <vector>

#include "core/record/record.hpp"

namespace attest::reports {

/// "83%": the roofline's time as a share of the median. Above 1 it is marked: "107%(!)". Empty if
/// it is not known.
std::string roofline_share(const core::Record& record);

/// A sentence if records are faster than the roofline allows: the harness is wrong then. Empty if
/// none is.
std::string print_excess(const std::vector<core::Record>& records);

}  // namespace attest::reports
