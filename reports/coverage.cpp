#include "reports/coverage.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "reports/sizes.hpp"

namespace attest::reports {
namespace {

constexpr const char* kNotGiven = "-";

std::optional<double> number_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

/// Words before numbers, numbers by their size.
bool comes_before(const std::string& a, const std::string& b) {
  const std::optional<double> x = number_of(a), y = number_of(b);
  return x && y ? *x < *y : x.has_value() != y.has_value() ? !x : a < b;
}

/// What the judged records of one operation have.
struct Judged {
  std::vector<SpecWords> problems;  // with the dtype

  AxisCoverage axis(const std::string& operation, const std::string& name) const {
    AxisCoverage axis{operation, name, {}, AxisCoverage::State::kNever};
    std::set<std::string> values;
    for (const SpecWords& words : problems) {
      const auto at = words.find(name);
      values.insert(at == words.end() ? kNotGiven : at->second);
    }
    axis.values.assign(values.begin(), values.end());
    std::ranges::sort(axis.values, comes_before);
    if (values.size() > 1)
      axis.state = AxisCoverage::State::kVaried;
    else if (!values.empty() && *values.begin() != kNotGiven)
      axis.state = AxisCoverage::State::kPinned;
    return axis;
  }
};

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
  std::map<std::string, Judged> operations;
  for (const core::Results& run : input.runs)
    for (const core::Record& record : run.records) {
      if (!record.outcome.passes() && !record.outcome.is_bad()) continue;
      SpecWords words = spec_words(record.spec);
      words.emplace("dtype", record.dtype);
      operations[record.operation].problems.push_back(std::move(words));
    }
  std::vector<AxisCoverage> axes;
  for (const auto& [operation, judged] : operations) {
    std::vector<std::string> names{"dtype"};
    std::set<std::string> others;
    for (const SpecWords& words : judged.problems)
      for (const auto& [word, value] : words) others.insert(word);
    const auto known = std::ranges::find(input.axes, operation, &OperationAxes::operation);
    if (known != input.axes.end())
      names.insert(names.end(), known->names.begin(), known->names.end());
    for (const std::string& name : names) others.erase(name);
    names.insert(names.end(), others.begin(), others.end());
    for (const std::string& name : names) axes.push_back(judged.axis(operation, name));
  }
  return axes;
}

}  // namespace attest::reports
