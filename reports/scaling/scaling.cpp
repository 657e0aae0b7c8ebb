#include "reports/scaling/scaling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "reports/words/units.hpp"

namespace attest::reports {
namespace {

using core::LargestSize;
using core::PowerLaw;
using core::Record;
using core::Sized;

// Declared workspace and measured memory differ in growth if their exponents differ by more than
// this, and their distance grows by more than this share of the larger one and by more than this
// amount. High-water marks differ by up to 1 MiB from process to process.
constexpr double kOtherExponent = 0.1, kOtherShare = 0.1, kOtherBytes = 1 << 20;

std::optional<double> own_memory(const core::MemoryRecord& memory) {
  if (memory.peak_bytes) return double(*memory.peak_bytes);
  if (memory.pool_peak_bytes) return double(memory.workspace_bytes + *memory.pool_peak_bytes);
  return {};
}

ScalingPoint point_of(const Record& record) {
  ScalingPoint point{.value = record.sweep->value,
                     .verdict = record.outcome.verdict(),
                     .reason = record.outcome.reason,
                     .time_ns = {},
                     .own_memory_bytes = {},
                     .tensor_bytes = record.memory.tensor_bytes,
                     .workspace_bytes = double(record.memory.workspace_bytes)};
  if (!record.outcome.passes()) return point;
  point.own_memory_bytes = own_memory(record.memory);
  if (record.time && record.time->median_ns > 0)
    point.time_ns = Sized{double(point.value), record.time->median_ns, record.time->median_low_ns,
                          record.time->median_high_ns};
  return point;
}

// A quantity of all points that have it.
template <class Of>
std::vector<Sized> sized(const std::vector<ScalingPoint>& points, const Of& of) {
  std::vector<Sized> all;
  for (const ScalingPoint& point : points)
    if (const std::optional<double> value = of(point))
      all.push_back({double(point.value), *value, *value, *value});
  return all;
}

std::optional<double> total_memory(const ScalingPoint& point) {
  if (!point.own_memory_bytes) return {};
  return point.tensor_bytes + *point.own_memory_bytes;
}

double exponent_or_0(const PowerLaw& law) { return law.fitted() ? law.exponent : 0; }

// What is measured beyond the tensors has to grow as what is declared.
std::string other_growth(const ScalingSeries& series) {
  std::vector<const ScalingPoint*> measured;
  for (const ScalingPoint& point : series.points)
    if (point.own_memory_bytes) measured.push_back(&point);
  if (measured.size() < 3) return {};
  const ScalingPoint &first = *measured.front(), &last = *measured.back();
  const double own = *last.own_memory_bytes, declared = last.workspace_bytes,
               before = *first.own_memory_bytes - first.workspace_bytes,
               grown = std::fabs(own - declared - before);
  const double exponents[] = {exponent_or_0(series.laws.own_memory),
                              exponent_or_0(series.laws.workspace)};
  if (grown <= kOtherBytes || grown <= kOtherShare * std::max(own, declared) ||
      std::fabs(exponents[0] - exponents[1]) <= kOtherExponent)
    return {};
  return fmt::format(
      "measured memory beyond the tensors grows with exponent {:.2f} to {}, declared workspace "
      "with "
      "exponent {:.2f} to {} (at {})",
      exponents[0], print_bytes(own), exponents[1], print_bytes(declared), last.value);
}

void analyse(ScalingSeries& series, const ScalingSweep& sweep) {
  std::ranges::sort(series.points, {}, &ScalingPoint::value);
  const std::vector<Sized> times = series.times(), memory = sized(series.points, total_memory);
  ScalingLaws& laws = series.laws;
  laws.time = fit_power_law(times, {.floor = series.launch_ns.value_or(0)});
  const auto fit_bytes = [](const std::vector<Sized>& bytes, double fixed) {
    return fit_power_law(bytes, {.floor = fixed, .is_exact = true});
  };
  laws.memory = fit_bytes(memory, series.fixed_bytes.value_or(0));
  laws.own_memory = fit_bytes(
      sized(series.points, [](const ScalingPoint& point) { return point.own_memory_bytes; }),
      series.fixed_own_bytes.value_or(0));
  laws.workspace = fit_bytes(sized(series.points,
                                   [](const ScalingPoint& point) -> std::optional<double> {
                                     if (!point.own_memory_bytes) return {};
                                     return point.workspace_bytes;
                                   }),
                             0);
  if (sweep.deadline_ns)
    series.within_deadline = largest_within(times, laws.time, *sweep.deadline_ns);
  if (sweep.memory_bytes)
    series.within_memory = largest_within(memory, laws.memory, double(*sweep.memory_bytes));
  series.finding = other_growth(series);
}

/// Groups records by sweep and implementation.
class Grouping {
 public:
  void add(const Record& record) {
    if (record.sweep->over.empty()) return smallest_.push_back(&record);
    ScalingSweep& sweep = sweep_of(record);
    auto at = std::ranges::find(sweep.series, record.impl, &ScalingSeries::impl);
    if (at == sweep.series.end()) at = sweep.series.insert(at, ScalingSeries{.impl = record.impl});
    ScalingPoint point = point_of(record);
    const auto same = std::ranges::find(at->points, point.value, &ScalingPoint::value);
    if (same == at->points.end())
      at->points.push_back(std::move(point));
    else if (point.time_ns || !same->time_ns)
      *same = std::move(point);  // measured again
  }

  std::vector<ScalingSweep> finish() {
    for (const Record* record : smallest_) take_smallest(*record);
    for (ScalingSweep& sweep : sweeps_)
      for (ScalingSeries& series : sweep.series) analyse(series, sweep);
    return std::move(sweeps_);
  }

 private:
  ScalingSweep& sweep_of(const Record& record) {
    const core::SweepPoint& point = *record.sweep;
    for (ScalingSweep& sweep : sweeps_)
      if (is_of(record, sweep) && sweep.over == point.over) return sweep;
    return sweeps_.emplace_back(ScalingSweep{record.suite,
                                             point.sweep,
                                             point.over,
                                             record.dtype,
                                             record.threads,
                                             point.deadline_ns,
                                             point.memory_bytes,
                                             {}});
  }
  static bool is_of(const Record& record, const ScalingSweep& sweep) {
    return sweep.suite == record.suite && sweep.sweep == record.sweep->sweep &&
           sweep.dtype == record.dtype && sweep.threads == record.threads;
  }
  void take_smallest(const Record& record) {
    const ScalingPoint point = point_of(record);
    for (ScalingSweep& sweep : sweeps_)
      for (ScalingSeries& series : sweep.series) {
        if (!is_of(record, sweep) || series.impl != record.impl) continue;
        if (point.time_ns) series.launch_ns = point.time_ns->value;
        series.fixed_bytes = total_memory(point);
        series.fixed_own_bytes = point.own_memory_bytes;
      }
  }

  std::vector<ScalingSweep> sweeps_;
  std::vector<const Record*> smallest_;
};

/// A series that has times, and the number of its sweep.
struct Member {
  size_t sweep = 0;
  const ScalingSeries* series = nullptr;
};

// The share within which two times are no difference.
double tie_of(const ScalingSeries& first, const ScalingSeries& second) {
  const double deviation = std::hypot(scatter(first.times(), first.laws.time),
                                      scatter(second.times(), second.laws.time));
  return std::max(kScalingTie, std::expm1(kScalingDeviations * deviation));
}

std::optional<ScalingPair> pair_of(const std::vector<ScalingSweep>& sweeps, const Member& first,
                                   const Member& second) {
  const ScalingSweep &a = sweeps[first.sweep], &b = sweeps[second.sweep];
  if (std::tie(a.over, a.dtype, a.threads) != std::tie(b.over, b.dtype, b.threads)) return {};
  const auto name = [&](const Member& member) {
    return (&a == &b ? "" : sweeps[member.sweep].sweep + "/") + member.series->impl;
  };
  ScalingPair pair{name(first), name(second), first.sweep, second.sweep,
                   find_crossings(first.series->times(), second.series->times(),
                                  tie_of(*first.series, *second.series))};
  return pair.found.sizes.empty() ? std::nullopt : std::optional(std::move(pair));
}

std::vector<ScalingPair> pairs_of(const std::vector<ScalingSweep>& sweeps) {
  std::vector<Member> members;
  for (size_t number = 0; number < sweeps.size(); ++number)
    for (const ScalingSeries& series : sweeps[number].series)
      if (!series.times().empty()) members.push_back({number, &series});
  std::vector<ScalingPair> pairs;
  for (size_t i = 0; i < members.size(); ++i)
    for (size_t j = i + 1; j < members.size(); ++j)
      if (std::optional<ScalingPair> pair = pair_of(sweeps, members[i], members[j]))
        pairs.push_back(*std::move(pair));
  return pairs;
}

// The times of one implementation at one size, by number of threads.
using ByThreads = std::map<int32_t, Sized>;

StrongScaling strong_of(const ScalingSweep& sweep, const std::string& impl, int64_t value,
                        const ByThreads& times) {
  StrongScaling strong{sweep.suite, sweep.sweep, sweep.over, sweep.dtype, impl, value, {}};
  const auto& [fewest, alone] = *times.begin();
  for (const auto& [threads, time] : times) {
    const double share = double(fewest) / threads;
    strong.steps.push_back({threads, time, alone.value / time.value,
                            share * alone.value / time.value, share * alone.low / time.high,
                            share * alone.high / time.low});
  }
  return strong;
}

std::vector<StrongScaling> strong_scaling(const std::vector<ScalingSweep>& sweeps) {
  using Name = std::tuple<std::string, std::string, std::string, std::string, std::string>;
  struct Times {
    const ScalingSweep* sweep = nullptr;
    std::set<int32_t> threads;
    std::map<int64_t, ByThreads> by_value;
  };
  std::map<Name, Times> all;
  std::vector<Name> order;
  for (const ScalingSweep& sweep : sweeps)
    for (const ScalingSeries& series : sweep.series) {
      const Name name{sweep.suite, sweep.sweep, sweep.over, sweep.dtype, series.impl};
      if (!all.contains(name)) order.push_back(name);
      Times& times = all[name];
      times.sweep = &sweep;
      times.threads.insert(sweep.threads);
      for (const ScalingPoint& point : series.points)
        if (point.time_ns) times.by_value[point.value][sweep.threads] = *point.time_ns;
    }
  std::vector<StrongScaling> strong;
  for (const Name& name : order) {
    const Times& times = all[name];
    if (times.threads.size() < 2) continue;
    for (auto at = times.by_value.rbegin(); at != times.by_value.rend(); ++at) {
      if (at->second.size() < times.threads.size()) continue;
      strong.push_back(strong_of(*times.sweep, std::get<4>(name), at->first, at->second));
      break;
    }
  }
  return strong;
}

class Gaps {
 public:
  Gaps(const Scaling& scaling, double least_ratio) : scaling_(scaling), least_ratio_(least_ratio) {}

  /// Between neighbouring sizes of the sweep from `from` to `to`.
  void add(size_t sweep, double from, double to) {
    const std::vector<int64_t> values = scaling_.sweeps[sweep].values();
    for (size_t i = 0; i + 1 < values.size(); ++i) {
      const int64_t low = values[i], high = values[i + 1];
      if (double(low) < from || double(high) > to || double(high) < least_ratio_ * double(low))
        continue;
      if (seen_.insert({sweep, low}).second) all_.push_back({sweep, low, high});
    }
  }
  std::vector<Gap> take() { return std::move(all_); }

 private:
  const Scaling& scaling_;
  double least_ratio_;
  std::set<std::pair<size_t, int64_t>> seen_;
  std::vector<Gap> all_;
};

// A fit whose points are few or scattered.
void add_loose(size_t number, const ScalingSeries& series, Gaps& gaps) {
  const PowerLaw& law = series.laws.time;
  const std::vector<Sized> times = series.times();
  if (times.size() < 2 || !law.is_loose(kLooseExponent)) return;
  gaps.add(number, law.points < 2 ? times.front().size : law.from, times.back().size);
}

}  // namespace

std::vector<Sized> ScalingSeries::times() const {
  std::vector<Sized> all;
  for (const ScalingPoint& point : points)
    if (point.time_ns) all.push_back(*point.time_ns);
  return all;
}

std::string ScalingSweep::title() const {
  return fmt::format("{}{}{} {} over {}, {} thread{}", suite, suite.empty() ? "" : "/", sweep,
                     dtype, over, threads, threads == 1 ? "" : "s");
}

std::vector<int64_t> ScalingSweep::values() const {
  std::set<int64_t> all;
  for (const ScalingSeries& one : series)
    for (const ScalingPoint& point : one.points) all.insert(point.value);
  return {all.begin(), all.end()};
}

Scaling scaling_of(const std::vector<Record>& records) {
  Grouping grouping;
  for (const Record& record : records)
    if (record.sweep) grouping.add(record);
  Scaling scaling;
  scaling.sweeps = grouping.finish();
  scaling.pairs = pairs_of(scaling.sweeps);
  scaling.strong = strong_scaling(scaling.sweeps);
  return scaling;
}

std::vector<Gap> gaps(const Scaling& scaling, double least_ratio) {
  Gaps found(scaling, least_ratio);
  for (size_t number = 0; number < scaling.sweeps.size(); ++number)
    for (const ScalingSeries& series : scaling.sweeps[number].series)
      add_loose(number, series, found);
  for (const ScalingPair& pair : scaling.pairs)
    for (const core::Crossing& crossing : pair.found.crossings)
      for (const size_t sweep : {pair.first_sweep, pair.second_sweep})
        found.add(sweep, crossing.last, crossing.first);
  return found.take();
}

}  // namespace attest::reports
