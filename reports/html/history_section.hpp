// The part of the page about histories: a line for each quantity that has a step, and tables. It
// needs neither the script nor Vega.
#pragma once
#include <string>
#include <vector>

#include "reports/history/history.hpp"

namespace attest::reports::html {

/// Of so many series at most a page has pictures; tables name up to kMostHistoryRows more.
inline constexpr size_t kMostHistories = 40, kMostHistoryRows = 500;

/// A section with the id "history"; empty without histories. Texts of records are escaped.
std::string history_section(const std::vector<CaseHistory>& all);

}  // namespace attest::reports::html
