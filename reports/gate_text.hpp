// Prints for a terminal or a log what a gate found.
#pragma once
#include <string>

#include "reports/gate.hpp"

namespace attest::reports {

/// A line for each broken limit, the worst first; below each of the worst five the command that
/// repeats it. Then what was waived, what could not be judged, and why; notes; a line of counts.
std::string print_gate(const Gated& gated, bool colour);

}  // namespace attest::reports
