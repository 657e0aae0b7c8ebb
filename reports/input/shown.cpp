#include "reports/input/shown.hpp"

#include <algorithm>
#include <numeric>

namespace attest::reports {

size_t Cases::add(const core::Record& record) {
  const auto [at, fresh] =
      places_.try_emplace({record.suite, record.case_name, record.dtype}, cases_.size());
  if (fresh) cases_.emplace_back();
  Case& one = cases_[at->second];
  ++one.records;
  one.is_bad |= record.outcome.is_bad();
  return at->second;
}

std::optional<size_t> Cases::place_of(const core::Record& record) const {
  const auto at = places_.find({record.suite, record.case_name, record.dtype});
  return at == places_.end() ? std::nullopt : std::optional(at->second);
}

std::vector<bool> Cases::shown(size_t most) const {
  std::vector<size_t> order(cases_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_partition(order, [&](size_t place) { return cases_[place].is_bad; });
  std::vector<bool> shown(cases_.size());
  size_t records = 0;
  for (const size_t place : order) {
    if (records > 0 && records + cases_[place].records > most) continue;
    shown[place] = true;
    records += cases_[place].records;
  }
  return shown;
}

std::set<const core::Record*> shown_records(const Input& input, size_t most) {
  Cases cases;
  std::vector<std::pair<const core::Record*, size_t>> all;
  for (const core::Results& run : input.runs)
    for (const core::Record& record : run.records) all.emplace_back(&record, cases.add(record));
  const std::vector<bool> is_shown = cases.shown(most);
  std::set<const core::Record*> shown;
  for (const auto& [record, place] : all)
    if (is_shown[place]) shown.insert(record);
  return shown;
}

}  // namespace attest::reports
