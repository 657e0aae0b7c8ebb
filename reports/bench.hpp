// Prints the implementations of each case beside one another, and names the fastest.
#pragma once
#include <string>

#include "core/record/results.hpp"

namespace attest::reports {

/// A block for each problem: passing implementations by time, with the interval of the median,
/// rates and shares of the peak rates in the header ("limits"), memory; then the others with the
/// reason; then a sentence that names the fastest. `colour`: ANSI colours.
std::string print_bench(const core::Results& results, bool colour);

}  // namespace attest::reports
