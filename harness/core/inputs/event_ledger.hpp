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
  /// The excuses that no longer excuse anything: "case: glob" for those of the added cases, "suite:
  /// glob" for those of a suite's defaults. The latter only if `whole`: all cases of the suite were
  /// added.
  std::vector<std::string> stale(bool whole) const;

 private:
  std::map<std::string, bool> own_, shared_;  // from excuse to whether it excused an event
};

}  // namespace attest::core
