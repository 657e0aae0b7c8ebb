// How near records come to the limits of their machine, in words.
#pragma once
#include <string>
#include <vector>

#include "core/record/record.hpp"

namespace attest::reports {

/// Returns the roofline's time as a share of the median: "83%". A share above 1 is marked:
/// "107%(!)". Returns an empty text if the record has no roofline.
std::string roofline_share(const core::Record& record);

/// Returns a sentence about the records that are faster than the roofline allows. The harness is
/// wrong about these. Returns an empty text if there are none.
std::string print_excess(const std::vector<core::Record>& records);

}  // namespace attest::reports
