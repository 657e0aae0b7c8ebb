// Compares missed events with those that a suite excuses (Case::misses).
#pragma once
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/inputs/event_survey.hpp"
#include "core/problem/suite.hpp"

namespace attest::core {

/// The fills of a case: those that it names, or else the default fills.
std::vector<std::string> fills_of(const Case& one, const Problem& problem);

class EventLedger {
 public:
  struct Missed {
    std::vector<std::string> unsaid;                           // events without an excuse
    std::vector<std::pair<std::string, std::string>> excused;  // event, reason
  };
  /// Adds one problem of a case. Returns the events that it misses.
  Missed add(const Case& one, const EventSurvey& survey);
  /// The excuses of the added cases that excuse nothing: "suite/case: glob".
  std::vector<std::string> stale() const;

 private:
  std::map<std::string, bool> used_;  // from excuse to whether it excused an event
};

}  // namespace attest::core
