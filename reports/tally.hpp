// Counts verdicts.
#pragma once
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "core/record/record.hpp"

namespace attest::reports {

/// How many records have each verdict.
struct Tally {
  std::array<size_t, std::size(core::kVerdictNames)> verdicts{};

  void add(core::Verdict verdict) { ++verdicts[size_t(verdict)]; }
  size_t of(core::Verdict verdict) const { return verdicts[size_t(verdict)]; }
  size_t all() const;
  size_t bad() const;     // fail, suspect, error, crash and timeout
  size_t judged() const;  // those that pass and the bad ones: the denominator
};

struct Tallies {
  Tally all;
  std::vector<std::pair<std::string, Tally>> impls;  // in the order in which they first occur

  void add(const core::Record& record);
};

}  // namespace attest::reports
