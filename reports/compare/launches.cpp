#include "reports/compare/launches.hpp"

#include <fmt/format.h>

#include <algorithm>
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
  return {.median = median, .low = median, .high = median};
}

/// "clocks locked", of a Jetson whose clocks could be seen when the run began; empty: it is none.
std::string clocks_of_board(const Results& file) {
  if (!file.header.environment.contains("board")) return {};
  std::string text = "clocks locked";
  for (const char* clock : {"gpu_locked", "memory_locked", "cpu_locked"}) {
    const std::string locked = fact(file, "board", clock);
    if (locked == "no") return "clocks not locked";
    if (locked.empty()) text = "clocks locked as far as they can be seen";
  }
  return text;
}

std::string machine_in(const Results& file, const std::string& device, const std::string& mode,
                       const std::string& left) {
  const std::string module = fact(file, "board", "module"),
                    name = fact(file, device, device == "cpu" ? "model" : "name"),
                    counted = fact(file, device, "multiprocessors"),
                    processors = counted.empty() ? left : counted, clocks = clocks_of_board(file);
  // The CPU of a Jetson has no name, and the GPUs of all its modules have the same.
  std::string text = !module.empty() ? module : name.empty() ? fact(file, "system", "board") : name;
  if (!processors.empty()) text += fmt::format(" ({} multiprocessors)", processors);
  if (!mode.empty()) text += fmt::format(", power mode {}", mode);
  return clocks.empty() ? text : fmt::format("{}, {}", text, clocks);
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

std::string fact(const Results& file, const std::string& group, const std::string& name) {
  const auto at = file.header.environment.find(group);
  if (at == file.header.environment.end()) return {};
  const auto found = at->second.find(name);
  return found == at->second.end() ? std::string() : found->second;
}

std::string power_mode(const Results& file, const Record& record) {
  const auto known = [](const std::map<std::string, std::string>& facts) {
    const auto at = facts.find("power_mode");
    return at == facts.end() ? std::string() : at->second;
  };
  if (!record.board) return fact(file, "system", "power_mode");
  const std::string before = known(record.board->before), after = known(record.board->after);
  if (before == after || after.empty()) return before;
  return before.empty() ? after : fmt::format("{}, then {}", before, after);
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

std::string machine(const Results& file, const std::string& device) {
  return machine_in(file, device, fact(file, "system", "power_mode"),
                    fact(file, "board", "multiprocessors"));
}

std::string machine(const Results& file, const Record& record, const std::string& device) {
  std::string processors = fact(file, "board", "multiprocessors");
  if (record.board)
    if (const auto at = record.board->before.find("multiprocessors");
        at != record.board->before.end())
      processors = at->second;
  return machine_in(file, device, power_mode(file, record), processors);
}

std::string build(const Results& file) {
  const std::string sanitizers = fact(file, "build", "sanitizers");
  return fact(file, "build", "build_type") +
         (sanitizers.empty() ? "" : ", sanitizers " + sanitizers);
}

}  // namespace attest::reports
