// The part of the page about histories: a line for each quantity that has a step, and tables. It
// needs neither the script nor Vega.
#pragma once
#include <string>
#include <vector>

#include "reports/history/history.hpp"

namespace attest::reports::html {

/// A page has pictures of at most kMostHistories series. A table has kMostHistoryRows others at
/// most.
inline constexpr size_t kMostHistories = 40, kMostHistoryRows = 500;

/// Returns a section with the id "history", or nothing if there are no histories. It escapes texts
/// of records.
std::string history_section(const std::vector<CaseHistory>& all);

}  // namespace attest::reports::html
