// Prints what a gate found, for a terminal or a log, or as JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "reports/gate/gate.hpp"

namespace attest::reports {

/// A line for each broken limit, the worst first; below each of the worst five the command that
/// repeats it. Then what was waived, what could not be judged, and why; notes; a line of counts.
std::string print_gate(const Gated& gated, bool colour);

/// The same: counts, and lists of what is broken (the worst first), waived and undecided, each with
/// the command that repeats it.
nlohmann::json to_json(const Gated& gated);

}  // namespace attest::reports
