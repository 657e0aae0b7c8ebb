// Records as Markdown: a table of verdicts, one row a case, one column an implementation.
#pragma once
#include <string>
#include <vector>

#include "core/record/record.hpp"

namespace attest::reports {

/// Counts by implementation and verdict; then a table for each suite: case, dtype, and for every
/// implementation its verdict with the largest error as a share of its gate (or, of timed ones, the
/// median time); then every reason, with the cases that it holds for. `title` is the heading,
/// `origin` a line below it: of which attest, on which machine. Implementations and cases stand in
/// the order in which they came.
std::string print_markdown(const std::vector<core::Record>& records, const std::string& title,
                           const std::string& origin);

}  // namespace attest::reports
