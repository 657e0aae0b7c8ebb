#include "reports/coverage.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

namespace attest::reports {
namespace {

constexpr const char* kNotGiven = "-";

/// A record's problem: its words, by the names of parameters and tensors.
using Words = std::map<std::string, std::string>;

Words words_of(const core::Record& record, std::string& operation) {
  Words words{{"dtype", record.dtype}};
  std::istringstream text(record.spec);
  text >> operation;
  for (std::string word; text >> word;) {
    const size_t equals = word.find('=');
    words[word.substr(0, equals)] = equals == word.npos ? "given" : word.substr(equals + 1);
  }
  return words;
}

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
  std::vector<Words> problems;

  AxisCoverage axis(const std::string& operation, const std::string& name) const {
    AxisCoverage axis{operation, name, {}, AxisCoverage::State::kNever};
    std::set<std::string> values;
    for (const Words& words : problems) {
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
      std::string operation;
      Words words = words_of(record, operation);
      operations[operation].problems.push_back(std::move(words));
    }
  std::vector<AxisCoverage> axes;
  for (const auto& [operation, judged] : operations) {
    std::vector<std::string> names{"dtype"};
    std::set<std::string> others;
    for (const Words& words : judged.problems)
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
