// Prints how implementations scale, for a terminal.
#pragma once
#include <string>

#include "reports/scaling/scaling.hpp"

namespace attest::reports {

/// A table for each sweep: a row for each size, a column for each implementation, with the
/// exponents and largest sizes below; then crossovers, scaling over threads, and findings.
std::string print_scaling(const Scaling& scaling);

}  // namespace attest::reports
