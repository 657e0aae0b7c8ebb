// Finds which events the fills of a problem cause, and which no fill causes.
//
//   const EventSurvey survey = survey_events(problem, seed, default_fills(problem, false));
//   for (const std::string& name : survey.missed()) ...
#pragma once
#include <set>
#include <string>
#include <vector>

#include "core/inputs/tokens.hpp"
#include "core/operations/operation.hpp"

namespace attest::core {

struct EventSurvey {
  struct OfFill {
    std::string fill;
    std::set<std::string> events;
  };
  std::vector<NumericEvent> events;  // all events of the operation
  std::vector<OfFill> fills;

  /// The events that the problem can have but no fill causes. `without`: ignores this fill.
  std::vector<std::string> missed(const std::string& without = {}) const;
};

/// Makes the inputs of each fill as a run does, with their golden, and counts the events. `tokens`:
/// as for PreparedInputs.
EventSurvey survey_events(const Problem& problem, uint64_t seed,
                          const std::vector<std::string>& fills, const Tokens* tokens = nullptr);

/// The beginning of an event's name that names its group: "rise/64" of "rise/64/last/much".
std::string event_group(const std::string& name);

}  // namespace attest::core
