// Missed events against what a suite says of them (Case::misses).
#pragma once
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/inputs/event_survey.hpp"
#include "core/problem/suite.hpp"

namespace attest::core {

/// The fills that judge a case: its own, or those that judge by default.
std::vector<std::string> fills_of(const Case& one, const Problem& problem);

class EventLedger {
 public:
  struct Missed {
    std::vector<std::string> unsaid;
    std::vector<std::pair<std::string, std::string>> excused;  // event, reason
  };
  /// One problem of a case.
  Missed add(const Case& one, const EventSurvey& survey);
  /// Excuses of the cases that were added, "case: glob", that excused nothing in any of their
  /// problems. Those of a suite's defaults, "suite: glob", only where `whole`: all cases were
  /// added.
  std::vector<std::string> stale(bool whole) const;

 private:
  std::map<std::string, bool> own_, shared_;  // whether it has excused something
};

}  // namespace attest::core
