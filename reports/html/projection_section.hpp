// The part of the page with times that were projected to a board. It needs no script.
#pragma once
#include <string>

#include "reports/projection/projected.hpp"

namespace attest::reports::html {

/// The most rows of a table.
inline constexpr size_t kMostProjectedRows = 1000;

/// Returns a section with the id "projection": a table for each results file, and what was refused
/// in one that can be opened. Projected times have the class "projected", and an ink of their own.
/// It escapes texts of records.
std::string projection_section(const Projected& projected);

}  // namespace attest::reports::html
