// Records as Markdown: a table of verdicts, one row a case, one column an implementation.
#pragma once
#include <string>

#include "core/record/results.hpp"

namespace attest::reports {

/// The command as heading; which attest ran on which machine; counts by implementation and verdict;
/// then a table for each suite: case, dtype, and for every implementation its verdict with the
/// largest error as a share of its gate (or, of timed ones, the median time); then every reason,
/// with the cases that it holds for. Implementations and cases stand in the order in which they
/// came.
std::string print_markdown(const core::Results& results);

}  // namespace attest::reports
