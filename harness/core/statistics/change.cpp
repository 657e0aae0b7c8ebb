#include "core/statistics/change.hpp"

#include <algorithm>
#include <cmath>

#include "core/statistics/statistics.hpp"

namespace attest::core {
namespace {

// Both ends of what all launches say.
Launch hull(std::span<const Launch> launches) {
  std::vector<double> medians;
  Launch all = launches.front();
  for (const Launch& one : launches) {
    medians.push_back(one.median);
    all.low = std::min(all.low, one.low);
    all.high = std::max(all.high, one.high);
    all.resolution = std::max(all.resolution, one.resolution);
  }
  all.median = summarise(medians).median;
  return all;
}

// By how much launches of one build differ.
double spread(std::span<const Launch> launches) {
  const auto [least, most] = std::ranges::minmax_element(launches, {}, &Launch::median);
  return most->median / least->median - 1;
}

bool lies_within(const Changed& changed, double band) {
  return changed.low >= 1 / (1 + band) && changed.high <= 1 + band;
}

// Noise widens what has to be beyond the band, never what is called the same.
Change side(const Changed& changed, const ChangeRule& rule) {
  if (changed.low > 1 + changed.band) return Change::kWorse;
  if (changed.high < 1 / (1 + changed.band)) return Change::kBetter;
  return lies_within(changed, rule.band) ? Change::kSame : Change::kInconclusive;
}

const char* why_inconclusive(const Changed& changed) {
  if (!std::isfinite(changed.high)) return "one-sample";
  return lies_within(changed, changed.band) ? "within-floor" : "wide";
}

void compare_pairs(std::span<const Launch> before, std::span<const Launch> after,
                   const ChangeRule& rule, Changed& changed) {
  std::vector<double> logs;
  for (size_t i = 0; i < before.size(); ++i)
    logs.push_back(std::log(after[i].median / before[i].median));
  const Summary s = summarise(logs, rule.coverage);
  changed.ratio = std::exp(s.median);
  changed.low = std::exp(s.median_low);
  changed.high = std::exp(s.median_high);
  changed.change = side(changed, rule);
  changed.code = "paired";
  const double beyond = std::log1p(changed.band) * (s.median < 0 ? -1 : 1);
  const auto hits = std::ranges::count_if(
      logs, [&](double log) { return beyond < 0 ? log < beyond : log > beyond; });
  changed.p = sign_test(logs.size(), size_t(hits));
}

void compare_weakly(std::span<const Launch> before, std::span<const Launch> after,
                    const ChangeRule& rule, Changed& changed) {
  const Launch was = hull(before), is = hull(after);
  changed.ratio = is.median / was.median;
  changed.low = is.low / was.high;
  changed.high = is.high / was.low;
  const bool own_floor = before.size() + after.size() >= kLeastLaunches;
  changed.change = Change::kInconclusive;
  changed.code = "no-floor";
  if (!rule.floor && !own_floor) return;
  if (own_floor) changed.band = std::max({changed.band, spread(before), spread(after)});
  changed.change = side(changed, rule);
  changed.code = "floor";
}

std::vector<Launch> in_cycles(std::span<const Launch> launches) {
  std::vector<Launch> cycles(launches.begin(), launches.end());
  for (Launch& one : cycles) {
    one.median *= one.clock;
    one.low *= one.clock;
    one.high *= one.clock;
    one.resolution *= one.clock;
    one.clock = 0;
  }
  return cycles;
}

bool decided(Change change) { return change == Change::kBetter || change == Change::kWorse; }

}  // namespace

Launch Launch::relative_to(const Launch& other) const {
  return {median / other.median, low / other.high, high / other.low, resolution / other.median, 0};
}

Changed compare_launches(std::span<const Launch> before, std::span<const Launch> after, bool paired,
                         const ChangeRule& rule) {
  Changed changed{.band = std::max(rule.band, rule.floor.value_or(0)),
                  .launches_before = before.size(),
                  .launches_after = after.size()};
  if (before.empty() || after.empty()) return changed;
  changed.paired = paired && before.size() == after.size() && before.size() >= kLeastLaunches;
  if (changed.paired && rule.paired_floor) changed.band = std::max(rule.band, *rule.paired_floor);
  (changed.paired ? compare_pairs : compare_weakly)(before, after, rule, changed);
  if (changed.change == Change::kInconclusive && changed.code != "no-floor")
    changed.code = why_inconclusive(changed);
  if (!decided(changed.change)) return changed;
  const Launch was = hull(before), is = hull(after);
  if (std::fabs(is.median - was.median) <= std::max(was.resolution, is.resolution)) {
    changed.change = Change::kInconclusive;
    changed.code = "resolution";
  }
  const auto has_clock = [](const Launch& one) { return one.clock > 0; };
  if (std::ranges::all_of(before, has_clock) && std::ranges::all_of(after, has_clock) &&
      compare_launches(in_cycles(before), in_cycles(after), paired, rule).change !=
          changed.change) {
    changed.change = Change::kInconclusive;
    changed.code = "clocks";
  }
  return changed;
}

void account_for_family(std::vector<Changed*> family, const ChangeRule& rule) {
  std::erase_if(family, [](const Changed* one) { return !one->paired; });
  std::vector<double> p;
  for (const Changed* one : family) p.push_back(one->p);
  const std::vector<double> adjusted = holm(p);
  for (size_t i = 0; i < family.size(); ++i)
    if (decided(family[i]->change) && adjusted[i] > rule.family_error) {
      family[i]->change = Change::kInconclusive;
      family[i]->code = "many-cases";
    }
}

Changed compare_exact(std::span<const double> before, std::span<const double> after, double band,
                      double absolute) {
  Changed changed{.band = band, .launches_before = before.size(), .launches_after = after.size()};
  if (before.empty() || after.empty()) return changed;
  const auto [least_before, most_before] = std::ranges::minmax(before);
  const auto [least_after, most_after] = std::ranges::minmax(after);
  const auto ratio = [](double is, double was) { return was == is ? 1 : is / was; };
  changed.ratio = ratio(summarise(after).median, summarise(before).median);
  changed.low = ratio(least_after, most_before);
  changed.high = ratio(most_after, least_before);
  changed.change = Change::kSame;
  changed.code = "exact";
  if (changed.low > 1 + band && least_after - most_before > absolute)
    changed.change = Change::kWorse;
  if (changed.high < 1 / (1 + band) && least_before - most_after > absolute)
    changed.change = Change::kBetter;
  return changed;
}

}  // namespace attest::core
