#include "reports/coverage.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>

#include "reports/seen_axes.hpp"

namespace attest::reports {
namespace {

AxisCoverage::State state_of(const std::vector<std::string>& values) {
  if (values.size() > 1) return AxisCoverage::State::kVaried;
  const bool given = !values.empty() && values.front() != kNotGiven;
  return given ? AxisCoverage::State::kPinned : AxisCoverage::State::kNever;
}

/// `suites`: what the suites have of the operation; null: nothing.
AxisCoverage axis_of(const std::string& operation, const std::string& axis,
                     const SeenAxes::Operation& judged, const SeenAxes::Operation* suites) {
  AxisCoverage coverage{.operation = operation, .axis = axis, .values = judged.values_of(axis)};
  coverage.state = state_of(coverage.values);
  if (!suites) return coverage;
  const std::vector<std::string> values = suites->values_of(axis);
  coverage.in_suites = state_of(values);
  const auto is_judged = [&](const std::string& value) {
    return value == kAnyTokens ? std::ranges::any_of(coverage.values, is_number)
                               : std::ranges::find(coverage.values, value) != coverage.values.end();
  };
  std::ranges::copy_if(values, std::back_inserter(coverage.only_in_suites), std::not_fn(is_judged));
  return coverage;
}

SeenAxes judged_of(const Input& input) {
  SeenAxes judged = input.left_out.axes;
  for (const core::Results& run : input.runs)
    for (const core::Record& record : run.records) judged.add(record);
  return judged;
}

}  // namespace

std::string name(AxisCoverage::State state) {
  switch (state) {
    case AxisCoverage::State::kVaried: return "varied";
    case AxisCoverage::State::kPinned: return "pinned";
    case AxisCoverage::State::kNever: return "never given";
  }
  return {};
}

std::vector<AxisCoverage> axes_of(const Input& input) {
  std::vector<AxisCoverage> axes;
  const SeenAxes all_judged = judged_of(input);
  for (const auto& [operation, judged] : all_judged.operations()) {
    const auto at = input.suites.operations().find(operation);
    const SeenAxes::Operation* suites =
        at == input.suites.operations().end() ? nullptr : &at->second;
    std::vector<std::string> names{"dtype"};
    std::set<std::string> others;
    for (const auto& [word, axis] : judged.axes) others.insert(word);
    if (suites)
      for (const auto& [word, axis] : suites->axes) others.insert(word);
    const auto known = std::ranges::find(input.axes, operation, &OperationAxes::operation);
    if (known != input.axes.end())
      names.insert(names.end(), known->names.begin(), known->names.end());
    for (const std::string& name : names) others.erase(name);
    names.insert(names.end(), others.begin(), others.end());
    for (const std::string& name : names) axes.push_back(axis_of(operation, name, judged, suites));
  }
  return axes;
}

std::vector<std::string> operations_of_suites_alone(const Input& input) {
  const SeenAxes judged = judged_of(input);
  std::vector<std::string> names;
  for (const auto& [operation, axes] : input.suites.operations())
    if (!judged.operations().contains(operation)) names.push_back(operation);
  return names;
}

}  // namespace attest::reports
