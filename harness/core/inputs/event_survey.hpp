// Which events the fills of a problem make happen, and which none of them does.
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
  std::vector<NumericEvent> events;  // all that the operation has
  std::vector<OfFill> fills;

  /// Events that the problem can have and no fill makes happen; `without`: a fill that is left out.
  std::vector<std::string> missed(const std::string& without = {}) const;
};

/// Makes the inputs of each fill as a run does, and their golden. `tokens`: as for PreparedInputs.
EventSurvey survey_events(const Problem& problem, uint64_t seed,
                          const std::vector<std::string>& fills, const Tokens* tokens = nullptr);

/// The words of an event's name that it has in common with those that belong together: "rise/64" of
/// "rise/64/last/much".
std::string event_group(const std::string& name);

}  // namespace attest::core
