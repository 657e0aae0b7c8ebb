#include "reports/seen_axes.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace attest::reports {
namespace {

std::optional<double> number_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  if (!std::isfinite(value)) return {};  // the word "nan", which no number is before or after
  return value;
}

/// Words before numbers, numbers by their size.
bool comes_before(const std::string& a, const std::string& b) {
  const std::optional<double> x = number_of(a), y = number_of(b);
  return x && y ? *x < *y : x.has_value() != y.has_value() ? !x : a < b;
}

}  // namespace

bool is_number(const std::string& value) { return number_of(value).has_value(); }

std::vector<std::string> SeenAxes::Operation::values_of(const std::string& axis) const {
  const auto at = axes.find(axis);
  std::vector<std::string> values;
  if (at != axes.end()) values.assign(at->second.values.begin(), at->second.values.end());
  if (problems > 0 && (at == axes.end() || at->second.problems < problems))
    values.emplace_back(kNotGiven);
  std::ranges::sort(values, comes_before);
  return values;
}

void SeenAxes::add(const std::string& operation, const SpecWords& words) {
  Operation& seen = operations_[operation];
  ++seen.problems;
  for (const auto& [word, value] : words) {
    Axis& axis = seen.axes[word];
    axis.values.insert(value);
    ++axis.problems;
  }
}

void SeenAxes::add(const core::Record& record) {
  if (!record.outcome.passes() && !record.outcome.is_bad()) return;
  SpecWords words = spec_words(record.spec);
  words.emplace("dtype", record.dtype);
  add(record.operation, words);
}

}  // namespace attest::reports
