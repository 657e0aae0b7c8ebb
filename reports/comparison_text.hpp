// A comparison for a terminal, and as JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "reports/comparison.hpp"

namespace attest::reports {

/// One block a case and dtype, one line an implementation: verdicts, then what time, memory and error did, each with after /
/// before. Below: what is on one side alone, notes, what the codes mean, counts. `colour`: ANSI colours.
std::string print_comparison(const Comparison& comparison, bool colour);

nlohmann::json to_json(const Comparison& comparison);

}  // namespace attest::reports
