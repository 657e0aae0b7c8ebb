#include "core/statistics/change.hpp"

#include <algorithm>
#include <cmath>

#include "core/statistics/statistics.hpp"

namespace attest::core {
namespace {

constexpr const char* kFastCode = "paired-fast";

// The fewest pairs whose extremes are an interval of that coverage, 1 - 2 / 2^n.
size_t least_pairs(double coverage) {
  size_t pairs = 1;
  while (std::ldexp(2, -int(pairs)) > 1 - coverage) ++pairs;
  return pairs;
}

// Both ends of what all launches say.
Launch hull(std::span<const Launch> launches) {
  std::vector<double> medians, fasts;
  Launch all = launches.front();
  for (const Launch& one : launches) {
    medians.push_back(one.median);
    fasts.push_back(one.fast);
    all.low = std::min(all.low, one.low);
    all.high = std::max(all.high, one.high);
    all.resolution = std::max(all.resolution, one.resolution);
  }
  all.median = summarise(medians).median;
  all.fast = summarise(fasts).median;
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

bool decided(Change change) { return change == Change::kBetter || change == Change::kWorse; }

// A value of the launches that decides, and with what share of the chance of a false alarm.
struct Statistic {
  double Launch::* value;
  double share;
  std::optional<double> floor;  // by how much its paired ratios differ in launches of one build
  const char* code;
};

// What the paired ratios of that value say. The interval has `coverage`.
Changed paired(std::span<const Launch> before, std::span<const Launch> after, const Statistic& by,
               const ChangeRule& rule, double coverage) {
  std::vector<double> logs;
  for (size_t i = 0; i < before.size(); ++i)
    logs.push_back(std::log(after[i].*by.value / before[i].*by.value));
  const Summary s = summarise(logs, coverage);
  Changed changed{.ratio = std::exp(s.median),
                  .low = std::exp(s.median_low),
                  .high = std::exp(s.median_high),
                  .band = std::max(rule.band, by.floor.value_or(rule.floor.value_or(0))),
                  .launches_before = before.size(),
                  .launches_after = after.size(),
                  .paired = true,
                  .of_fastest = by.value == &Launch::fast};
  changed.change = side(changed, rule);
  if (decided(changed.change) && before.size() < least_pairs(coverage))
    changed.change = Change::kInconclusive;
  changed.code = changed.change == Change::kInconclusive ? why_inconclusive(changed) : by.code;
  const double beyond = std::log1p(changed.band) * (s.median < 0 ? -1 : 1);
  const auto hits = std::ranges::count_if(
      logs, [&](double log) { return beyond < 0 ? log < beyond : log > beyond; });
  changed.p = std::min(1.0, sign_test(logs.size(), size_t(hits)) / by.share);
  return changed;
}

Changed undecided(Changed changed, const char* code) {
  changed.change = Change::kInconclusive;
  changed.code = code;
  return changed;
}

Changed decide(const Changed& fast, const Changed& median, const Changed& median_alone) {
  if (decided(fast.change))
    return decided(median.change) && median.change != fast.change ? undecided(median, "two-ways")
                                                                  : fast;
  if (decided(median_alone.change)) return median_alone;
  if (decided(median.change)) return undecided(median, "median-alone");
  return median.change == Change::kSame ? fast : median;
}

Changed compare_pairs(std::span<const Launch> before, std::span<const Launch> after,
                      const ChangeRule& rule) {
  Statistic of_median{&Launch::median, 1, rule.paired_floor, "paired"};
  const auto said = [&](const Statistic& by, double share) {
    return paired(before, after, by, rule, 1 - share * (1 - rule.coverage));
  };
  const auto is_known = [](const Launch& one) { return one.fast > 0; };
  if (!std::ranges::all_of(before, is_known) || !std::ranges::all_of(after, is_known))
    return said(of_median, 1);
  of_median.share = kMedianShare;
  const Changed fast = said({&Launch::fast, kFastShare, rule.fast_floor, kFastCode}, kFastShare);
  const Changed median = said(of_median, 1), alone = said(of_median, kMedianShare);
  Changed changed = decide(fast, median, alone);
  changed.p = std::min(fast.p, median.p);
  return changed;
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
  changed.code = changed.change == Change::kInconclusive ? why_inconclusive(changed) : "floor";
}

std::vector<Launch> in_cycles(std::span<const Launch> launches) {
  std::vector<Launch> cycles(launches.begin(), launches.end());
  for (Launch& one : cycles) {
    one.median *= one.clock;
    one.low *= one.clock;
    one.high *= one.clock;
    one.resolution *= one.clock;
    one.fast *= one.clock;
    one.clock = 0;
  }
  return cycles;
}

}  // namespace

Launch Launch::relative_to(const Launch& other) const {
  return {.median = median / other.median,
          .low = low / other.high,
          .high = high / other.low,
          .resolution = resolution / other.median,
          .clock = 0,
          .fast = other.fast > 0 ? fast / other.fast : 0};
}

Changed compare_launches(std::span<const Launch> before, std::span<const Launch> after, bool paired,
                         const ChangeRule& rule) {
  Changed changed{.band = std::max(rule.band, rule.floor.value_or(0)),
                  .launches_before = before.size(),
                  .launches_after = after.size()};
  if (before.empty() || after.empty()) return changed;
  changed.paired = paired && before.size() == after.size() && before.size() >= kLeastLaunches;
  if (changed.paired)
    changed = compare_pairs(before, after, rule);
  else
    compare_weakly(before, after, rule, changed);
  if (!decided(changed.change)) return changed;
  const Launch was = hull(before), is = hull(after);
  const double value = changed.code == kFastCode ? was.fast : was.median;
  if (std::fabs(changed.ratio - 1) * value <= std::max(was.resolution, is.resolution)) {
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
