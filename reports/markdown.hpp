// Prints records as Markdown: a table of verdicts with a row for each case and a column for each
// implementation.
#pragma once
#include <string>

#include "core/record/results.hpp"

namespace attest::reports {

/// The page has: the command as heading; version and machine; counts by implementation and verdict;
/// for each suite a table of case, dtype, and every implementation's verdict with the largest error
/// as a share of its gate (for timed cases, the median time); and all reasons, with their cases.
/// Implementations and cases are in the order of the records.
std::string print_markdown(const core::Results& results);

}  // namespace attest::reports
