#include "core/inputs/event_survey.hpp"

#include <algorithm>

#include "core/inputs/prepared.hpp"

namespace attest::core {

std::vector<std::string> EventSurvey::missed(const std::string& without) const {
  std::vector<std::string> names;
  for (const NumericEvent& event : events) {
    const bool found = std::ranges::any_of(fills, [&](const OfFill& of) {
      return of.fill != without && of.events.contains(event.name);
    });
    if (event.why_not.empty() && !found) names.push_back(event.name);
  }
  return names;
}

EventSurvey survey_events(const Problem& problem, uint64_t seed,
                          const std::vector<std::string>& fills, const Tokens* tokens) {
  EventSurvey survey{.events = problem.operation->events(problem), .fills = {}};
  if (survey.events.empty()) return survey;
  for (const std::string& fill : fills) {
    const PreparedInputs inputs(problem, {fill, seed}, tokens);
    const Tensors& tensors = inputs.shared().tensors();
    const std::unique_ptr<Golden> golden =
        problem.operation->golden(problem, inputs.fill(), tensors);
    const std::vector<bool> judged = judged_rows(problem, *golden);
    survey.fills.push_back({fill, problem.operation->count_events(problem, tensors, judged)});
  }
  return survey;
}

std::string event_group(const std::string& name) {
  const size_t first = name.find('/'),
               second = first == std::string::npos ? first : name.find('/', first + 1);
  return name.substr(0, second != std::string::npos ? second : first);
}

}  // namespace attest::core
