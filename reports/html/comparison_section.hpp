// The part of the page that compares its records with those of an earlier build. It needs no
// script.
#pragma once
#include <string>

#include "reports/compare/comparison.hpp"

namespace attest::reports::html {

/// The most rows of a table.
inline constexpr size_t kMostComparisonRows = 1000;

/// Returns a section with the id "comparison". Cases that changed or are undecided stand first, the
/// others can be opened. It escapes texts of records.
std::string comparison_section(const Comparison& comparison);

}  // namespace attest::reports::html
