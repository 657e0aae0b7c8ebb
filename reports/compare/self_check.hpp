// Makes floors from launches of one and the same build.
#pragma once
#include <string>
#include <vector>

#include "core/record/results.hpp"
#include "reports/compare/floors.hpp"

namespace attest::reports {

/// Floors from launches of one build: before[i] and after[i] ran one after the other. A case has
/// one if it was timed in every launch of both sides. With fewer than kLeastLaunches pairs there
/// are no comparisons, and Floor::paired is the largest ratio of a pair.
Floors floors_of(const std::vector<core::Results>& before, const std::vector<core::Results>& after,
                 const std::string& relative_to);

}  // namespace attest::reports
