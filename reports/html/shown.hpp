// Which records a page holds: all, or of very many the cases that matter most.
#pragma once
#include <cstddef>
#include <set>

#include "core/record/record.hpp"
#include "reports/input.hpp"

namespace attest::reports::html {

/// A browser filters and draws so many records without delay.
inline constexpr size_t kMostRecords = 5000;

/// At most `most` records of the input, of which a case has all or none: those with bad records
/// first, then in the order of the input. At least one case. The input must outlive it.
std::set<const core::Record*> shown_records(const Input& input, size_t most = kMostRecords);

}  // namespace attest::reports::html
