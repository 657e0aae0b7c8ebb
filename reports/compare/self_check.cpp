#include "reports/compare/self_check.hpp"

#include <algorithm>

#include "core/statistics/change.hpp"
#include "core/statistics/statistics.hpp"
#include "reports/compare/comparison.hpp"
#include "reports/compare/launches.hpp"

namespace attest::reports {
namespace {

using core::Change;
using core::Results;

double excess(double ratio) { return std::max(ratio, 1 / ratio) - 1; }

/// The launches of a case on a side; empty: one has no time above zero.
std::vector<core::Launch> launches_of(const Side& side, const Key& key,
                                      const std::string& relative_to) {
  std::vector<core::Launch> all = all_launches(side, key, relative_to);
  std::erase_if(all, [](const core::Launch& one) { return !(one.fast > 0); });
  return all.size() == side.size() ? all : std::vector<core::Launch>();
}

std::vector<double> values(const std::vector<core::Launch>& launches,
                           double core::Launch::* value) {
  std::vector<double> all;
  for (const core::Launch& one : launches) all.push_back(one.*value);
  return all;
}

/// The largest median ratio of groups of pairs.
double paired_excess(const std::vector<double>& before, const std::vector<double>& after) {
  const size_t group = before.size() < core::kLeastLaunches ? 1 : core::kLeastLaunches;
  double most = 0;
  for (size_t first = 0; first + group <= before.size(); first += group) {
    std::vector<double> ratios;
    for (size_t i = first; i < first + group; ++i) ratios.push_back(after[i] / before[i]);
    most = std::max(most, excess(core::summarise(ratios).median));
  }
  return most;
}

void add_case(const Key& key, const Side& before, const Side& after, Floors& floors) {
  const std::vector<core::Launch> launches_before = launches_of(before, key, floors.relative_to),
                                  launches_after = launches_of(after, key, floors.relative_to);
  if (launches_before.empty() || launches_after.empty()) return;
  const auto excess_of = [&](double core::Launch::* value) {
    return paired_excess(values(launches_before, value), values(launches_after, value));
  };
  const std::vector<double> was = values(launches_before, &core::Launch::median),
                            is = values(launches_after, &core::Launch::median);
  std::vector<double> both = was;
  both.insert(both.end(), is.begin(), is.end());
  const auto [least, most] = std::ranges::minmax(both);
  const Run& first = before.front();
  const core::Record& record = *first.find(key).front();
  floors.cases[key] = {.spread = most / least - 1,
                       .paired = excess_of(&core::Launch::median),
                       .fast = excess_of(&core::Launch::fast),
                       .median_ns = core::summarise(both).median,
                       .launches = both.size(),
                       .machine = machine(*first.file, record),
                       .build = build(*first.file),
                       .threads = record.threads};
}

void count_alarms(const Comparison& comparison, Floors& floors) {
  for (const Compared& one : comparison.cases) {
    const auto at = floors.cases.find(
        {.suite = one.suite, .case_name = one.case_name, .dtype = one.dtype, .impl = one.impl});
    if (at == floors.cases.end() || !one.time.paired) continue;
    const bool slower = one.time.change == Change::kWorse,
               faster = one.time.change == Change::kBetter;
    ++floors.comparisons;
    floors.slower += slower;
    floors.faster += faster;
    floors.inconclusive += one.time.change == Change::kInconclusive;
    at->second.alarms += slower || faster;
  }
}

}  // namespace

Floors floors_of(const std::vector<Results>& before, const std::vector<Results>& after,
                 const std::string& relative_to) {
  Floors floors{.relative_to = relative_to};
  const Side was(before.begin(), before.end()), is(after.begin(), after.end());
  if (was.empty()) return floors;
  for (const auto& [key, records] : was.front().records)
    if (key.impl != relative_to) add_case(key, was, is, floors);
  constexpr size_t kGroup = core::kLeastLaunches;
  // Each comparison counts alone: among many, Holm's correction would leave none of eight pairs.
  // Medians alone decide none of them.
  const CompareOptions options{
      .rule = {.family_error = 1}, .relative_to = relative_to, .in_turns = true};
  for (size_t first = 0; first + kGroup <= before.size(); first += kGroup) {
    const auto group = [first](const std::vector<Results>& side) {
      const auto begin = side.begin() + std::ptrdiff_t(first);
      return std::vector<Results>(begin, begin + std::ptrdiff_t(kGroup));
    };
    count_alarms(compare(group(before), group(after), options), floors);
  }
  return floors;
}

}  // namespace attest::reports
