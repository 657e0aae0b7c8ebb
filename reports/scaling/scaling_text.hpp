// Prints how implementations scale, for a terminal or as JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "reports/scaling/scaling.hpp"

namespace attest::reports {

/// A table for each sweep: a row for each size, a column for each implementation, with the
/// exponents and largest sizes below; then crossovers, scaling over threads, and findings.
std::string print_scaling(const Scaling& scaling);

nlohmann::json to_json(const Scaling& scaling);

}  // namespace attest::reports
