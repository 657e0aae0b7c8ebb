#include "core/measure/machine/machine_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <sstream>

#include "core/measure/machine/affinity.hpp"
#include "core/measure/machine/ecc.hpp"
#include "core/measure/machine/files.hpp"

namespace attest::core {
namespace {

namespace fs = std::filesystem;

uint64_t count_of(const fs::path& file) {
  return uint64_t(std::max(0.0, read_number(file).value_or(0)));
}

void read_clocks(const fs::path& root, MachineState& state) {
  std::vector<double> mhz;
  for (const fs::path& cpu : cpus_on(root))
    if (const auto khz = read_number(cpu / "cpufreq/scaling_cur_freq")) mhz.push_back(*khz * 1e-3);
  if (mhz.empty()) {  // virtual machines
    std::istringstream lines(read_text(root / "proc/cpuinfo"));
    for (std::string line; std::getline(lines, line);)
      if (const std::string text = value_of(line, "cpu MHz", ':'); !text.empty())
        mhz.push_back(std::strtod(text.c_str(), nullptr));
  }
  if (!mhz.empty())
    std::tie(state.min_mhz, state.max_mhz) = std::pair{*std::min_element(mhz.begin(), mhz.end()),
                                                       *std::max_element(mhz.begin(), mhz.end())};
}

void read_cap(const fs::path& root, MachineState& state) {
  for (const fs::path& cpu : cpus_on(root))
    if (const auto khz = read_number(cpu / "cpufreq/scaling_max_freq"))
      state.cap_mhz = std::max(state.cap_mhz.value_or(0), *khz * 1e-3);
}

void read_memory_errors(const fs::path& root, MachineState& state) {
  const Reading<MemoryEcc> ecc = read_ecc(root);
  state.corrected_errors = ecc.then([](const MemoryEcc& of) { return of.corrected; }).value;
  state.uncorrected_errors = ecc.then([](const MemoryEcc& of) { return of.uncorrected; }).value;
}

void read_ticks(const fs::path& root, MachineState& state) {
  const std::string stat = read_text(root / "proc/stat");
  const std::vector<std::string> fields = words_of(stat.substr(0, stat.find('\n')));
  // cpu user nice system idle iowait irq softirq steal guest guest_nice; guests are within user
  // (proc(5)).
  for (size_t i = 1; i < std::min<size_t>(fields.size(), 9); ++i)
    state.total_ticks += std::strtoull(fields[i].c_str(), nullptr, 10);
  if (fields.size() > 8) state.steal_ticks = std::strtoull(fields[8].c_str(), nullptr, 10);
}

void read_throttling(const fs::path& root, MachineState& state) {
  // The package's count appears at each of its CPUs, so the core's alone is summed.
  for (const fs::path& cpu : cpus_on(root))
    state.throttle_events += count_of(cpu / "thermal_throttle/core_throttle_count");
}

void read_temperatures(const fs::path& root, MachineState& state) {
  auto add = [&](std::string name, const fs::path& file) {
    const auto milli = read_number(file);
    if (!milli || name.empty()) return;
    while (state.temperatures_c.contains(name)) name += '+';  // several zones of one type
    state.temperatures_c[name] = *milli * 1e-3;
  };
  for (const fs::path& zone : entries_of(root / "sys/class/thermal"))
    if (begins_with(zone, "thermal_zone")) add(read_text(zone / "type"), zone / "temp");
  for (const fs::path& monitor : entries_of(root / "sys/class/hwmon")) {
    const std::string name = read_text(monitor / "name");
    if (name == "k10temp" || name == "zenpower" || name == "coretemp")
      add(name, monitor / "temp1_input");
  }
}

std::vector<std::string> throttling(const MachineState& before, const MachineState& after) {
  if (after.throttle_events <= before.throttle_events) return {};
  return {fmt::format("the CPU was throttled {} times",
                      after.throttle_events - before.throttle_events)};
}

}  // namespace

MachineState read_machine_state(const fs::path& root) {
  MachineState state;
  state.load_1min = read_number(root / "proc/loadavg");
  const std::string pressure =
      read_text(root / "proc/pressure/cpu");  // "some avg10=0.12 avg60=..."
  if (const size_t at = pressure.find("avg10="); at != pressure.npos)
    state.cpu_pressure = std::strtod(pressure.c_str() + at + 6, nullptr);
  read_clocks(root, state);
  read_cap(root, state);
  read_memory_errors(root, state);
  read_ticks(root, state);
  read_throttling(root, state);
  read_temperatures(root, state);
  state.board = read_board(root);
  return state;
}

MachineState after_work(const MachineState& busy, MachineState last) {
  last.min_mhz = busy.min_mhz;
  last.max_mhz = busy.max_mhz;
  last.steal_ticks = busy.steal_ticks;
  last.total_ticks = busy.total_ticks;
  return last;
}

std::map<std::string, std::string> facts(const MachineState& state) {
  std::map<std::string, std::string> facts;
  auto put = [&](const char* key, const std::optional<double>& value) {
    if (value) facts[key] = fmt::format("{:.6g}", *value);
  };
  put("load_1min", state.load_1min);
  put("cpu_pressure_percent", state.cpu_pressure);
  put("min_mhz", state.min_mhz);
  put("max_mhz", state.max_mhz);
  put("cap_mhz", state.cap_mhz);
  facts["steal_ticks"] = std::to_string(state.steal_ticks);
  facts["total_ticks"] = std::to_string(state.total_ticks);
  facts["throttle_events"] = std::to_string(state.throttle_events);
  for (const auto& [name, celsius] : state.temperatures_c)
    facts["celsius_" + name] = fmt::format("{:.1f}", celsius);
  return facts;
}

std::map<std::string, std::string> facts(const DeviceState& state) {
  std::map<std::string, std::string> facts;
  for (const auto& [key, value] : {std::pair{"sm_mhz", state.sm_mhz},
                                   {"memory_mhz", state.memory_mhz},
                                   {"celsius", state.celsius},
                                   {"watts", state.watts},
                                   {"energy_j", state.energy_j}})
    if (value) facts[key] = fmt::format("{:.10g}", *value);
  if (!state.ecc.empty()) facts["ecc"] = state.ecc;
  if (!state.held_down_by.empty())
    facts["held_down_by"] = fmt::format("{}", fmt::join(state.held_down_by, ", "));
  return facts;
}

std::vector<std::string> disturbances(const DeviceState& before, const DeviceState& after) {
  std::vector<std::string> reasons = before.held_down_by;
  for (const std::string& reason : after.held_down_by)
    if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end())
      reasons.push_back(reason);
  if (reasons.empty()) return {};
  return {fmt::format("the device's clocks were held down: {}", fmt::join(reasons, ", "))};
}

std::vector<std::string> changed_limits(const MachineState& before, const MachineState& after) {
  std::vector<std::string> reasons = throttling(before, after);
  if (before.cap_mhz && after.cap_mhz && *before.cap_mhz != *after.cap_mhz)
    reasons.push_back(fmt::format("the cap of the CPU's clock changed from {:.0f} to {:.0f} MHz",
                                  *before.cap_mhz, *after.cap_mhz));
  if (before.board && after.board)
    for (std::string& doubt : changes(*before.board, *after.board).doubts)
      reasons.push_back(std::move(doubt));
  return reasons;
}

std::vector<std::string> disturbances(const MachineState& before, const MachineState& after) {
  std::vector<std::string> notes = throttling(before, after);
  const double ticks = double(after.total_ticks) - double(before.total_ticks),
               stolen = double(after.steal_ticks) - double(before.steal_ticks);
  if (ticks > 0 && stolen > 0.01 * ticks)
    notes.push_back(fmt::format("the hypervisor gave {:.1f} % of the CPU time to others",
                                100 * stolen / ticks));
  if (before.max_mhz && after.max_mhz && *after.max_mhz < 0.9 * *before.max_mhz)
    notes.push_back(fmt::format("the CPU's clock fell from {:.0f} to {:.0f} MHz", *before.max_mhz,
                                *after.max_mhz));
  for (const auto& [old_errors, new_errors, what] :
       {std::tuple{before.corrected_errors, after.corrected_errors, "corrected"},
        {before.uncorrected_errors, after.uncorrected_errors, "uncorrected"}})
    if (old_errors && new_errors && *new_errors > *old_errors)
      notes.push_back(
          fmt::format("errors of the memory that were {}: {}", what, *new_errors - *old_errors));
  if (before.board && after.board)
    for (std::string& doubt : changes(*before.board, *after.board).doubts)
      notes.push_back(std::move(doubt));
  return notes;
}

}  // namespace attest::core
