#include "reports/compare/launches.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "core/statistics/statistics.hpp"

namespace attest::reports {
namespace {

using core::Record;
using core::Results;

constexpr double kHostClock_ns = 50,
                 kDeviceClock_ns = 1000;  // std::chrono::steady_clock; CUDA events: 0.5 us, twice

core::Launch clocked(const std::vector<const Record*>& records) {
  std::vector<double> samples, clocks;
  core::Launch launch;
  for (const Record* record : records) {
    if (!record->outcome.passes() || !record->time) continue;
    const core::TimeRecord& time = *record->time;
    samples.insert(samples.end(), time.samples_ns.begin(), time.samples_ns.end());
    const auto runs = double(std::max<int64_t>(
        {1, time.iterations_per_sample, time.device ? time.device->replayed_runs : 0}));
    launch.resolution =
        std::max(launch.resolution, (time.device ? kDeviceClock_ns : kHostClock_ns) / runs);
    if (time.device) clocks.push_back(time.device->clock_mhz);
  }
  const core::Summary s = core::summarise(samples);
  launch.median = s.median;
  launch.low = s.median_low;
  launch.high = s.median_high;
  launch.fast = s.p10;
  if (samples.size() == 1) {  // which says nothing of its spread
    launch.low = 0;
    launch.high = std::numeric_limits<double>::infinity();
  }
  launch.clock = core::summarise(clocks).median;
  return launch;
}

/// What these records take at least on their machine; median 0: not known.
core::Launch least(const std::vector<const Record*>& records) {
  std::vector<double> all;
  for (const Record* record : records)
    if (record->outcome.passes() && record->roofline) all.push_back(record->roofline->least_ns);
  const double median = core::summarise(all).median;
  return {.median = median, .low = median, .high = median, .fast = median};
}

}  // namespace

Run::Run(const Results& results) : file(&results) {
  for (const Record& record : results.records) records[question_of(record)].push_back(&record);
}

const std::vector<const Record*>& Run::find(const Key& key) const {
  static const std::vector<const Record*> kNone;
  const auto at = records.find(key);
  return at == records.end() ? kNone : at->second;
}

core::Launch Run::launch(const Key& key, const std::string& relative_to) const {
  const core::Launch own = clocked(find(key));
  if (relative_to.empty() || own.median <= 0) return own;
  Key peer = key;
  peer.impl = relative_to;
  const core::Launch other = relative_to == kRooflinePeer ? least(find(key)) : clocked(find(peer));
  return other.median > 0 ? own.relative_to(other) : core::Launch();
}

const std::string& launch_of(const Results& file, const Record& record) {
  return record.launch ? *record.launch : file.header.started;
}

std::vector<Results> launches_in(Results file) {
  std::vector<Record> records = std::move(file.records);
  file.records.clear();
  std::vector<Results> launches;
  std::map<std::string, size_t> by_start;
  for (Record& record : records) {
    const std::string began = launch_of(file, record);
    const auto [at, is_new] = by_start.emplace(began, launches.size());
    if (is_new) launches.emplace_back(file).header.started = began;
    launches[at->second].records.push_back(std::move(record));
  }
  if (launches.empty()) launches.push_back(std::move(file));
  if (launches.size() > 1)
    for (Results& launch : launches)
      launch.closing = core::Closing::of(launch.records, launch.closing.finished);
  return launches;
}

std::optional<double> bad_sample(const Record& record) {
  if (!record.time) return std::nullopt;
  for (const double ns : record.time->samples_ns)
    if (!(ns > 0 && std::isfinite(ns))) return ns;
  return std::nullopt;
}

Side by_start(const std::vector<Results>& files) {
  Side side(files.begin(), files.end());
  std::ranges::stable_sort(side, {}, [](const Run& run) { return run.file->header.started; });
  return side;
}

bool took_turns(const Side& before, const Side& after) {
  if (before.size() != after.size()) return false;
  std::vector<std::pair<std::string, int>> starts;
  for (const Run& run : before) starts.emplace_back(run.file->header.started, 0);
  for (const Run& run : after) starts.emplace_back(run.file->header.started, 1);
  std::ranges::sort(starts);
  for (size_t i = 0; i + 1 < starts.size(); ++i)
    if (starts[i].first == starts[i + 1].first ||
        (i % 2 == 0 && starts[i].second == starts[i + 1].second))
      return false;
  return true;
}

std::vector<const Record*> all_records(const Side& side, const Key& key) {
  std::vector<const Record*> all;
  for (const Run& run : side) all.insert(all.end(), run.find(key).begin(), run.find(key).end());
  return all;
}

std::vector<core::Launch> all_launches(const Side& side, const Key& key,
                                       const std::string& relative_to) {
  std::vector<core::Launch> all;
  for (const Run& run : side)
    if (const core::Launch one = run.launch(key, relative_to); one.median > 0) all.push_back(one);
  return all;
}

bool of_one_power_mode(const Side& before, const Side& after, const Key& key) {
  std::map<std::string, std::set<std::string>> modes;  // by module
  for (const Side* side : {&before, &after})
    for (const Run& run : *side)
      for (const Record* record : run.find(key)) {
        const std::string mode = power_mode(*run.file, *record);
        if (mode.find(", then ") != mode.npos) return false;
        if (!mode.empty()) modes[fact(*run.file, "board", "module")].insert(mode);
      }
  return std::ranges::all_of(modes, [](const auto& module) { return module.second.size() == 1; });
}

bool of_one_machine(const Side& before, const Side& after, const Key& key) {
  std::set<std::string> machines;
  for (const Side* side : {&before, &after})
    for (const Run& run : *side)
      for (const Record* record : run.find(key)) machines.insert(machine(*run.file, *record));
  return machines.size() <= 1;
}

}  // namespace attest::reports
