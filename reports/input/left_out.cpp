#include "reports/input/left_out.hpp"

#include <algorithm>

namespace attest::reports {

void LeftOut::add(size_t run, const core::Record& record) {
  runs.resize(std::max(runs.size(), run + 1));
  OfRun& of_run = runs[run];
  ++of_run.records;
  of_run.excess.add(record);
  if (core::is_newer(record.outcome.code)) of_run.newer_codes.emplace(name(record.outcome.code));
  if (const std::string plugin = plugin_of(record); !plugin.empty()) of_run.plugins.insert(plugin);
  of_run.devices.insert(record.device);
  tallies.add(record);
  noise.add(record);
  axes.add(record);
}

size_t LeftOut::records() const {
  size_t count = 0;
  for (const OfRun& run : runs) count += run.records;
  return count;
}

std::set<std::string> LeftOut::devices() const {
  std::set<std::string> devices;
  for (const OfRun& run : runs) devices.insert(run.devices.begin(), run.devices.end());
  return devices;
}

const LeftOut::OfRun& LeftOut::of_run(size_t run) const {
  static const OfRun kNone;
  return run < runs.size() ? runs[run] : kNone;
}

std::string plugin_of(const core::Record& record) {
  return record.plugin_hash.empty() ? "" : record.plugin + " " + record.plugin_hash;
}

}  // namespace attest::reports
