// What moves on a machine while a run goes on: clocks, temperatures, throttling, others' load. Read
// before and after.
//
//   const MachineState before = read_machine_state();
//   work();
//   for (const std::string& note : disturbances(before, read_machine_state()))
//   record.notes.push_back(note);
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/device/device.hpp"

namespace attest::core {

struct MachineState {
  std::optional<double> load_1min;  // runnable threads, mean of a minute
  std::optional<double>
      cpu_pressure;  // % of the last 10 s in which some thread waited for a CPU (Linux 4.20)
  std::optional<double> min_mhz, max_mhz;  // clocks of all CPUs right now
  std::optional<double> gpu_mhz;           // Jetson's, by devfreq
  uint64_t steal_ticks = 0,
           // CPU time that the hypervisor gave to others; all CPU time, since boot
      total_ticks = 0;
  uint64_t throttle_events = 0;  // since boot: thermal (x86), over-current (Jetson)
  uint64_t throttling_now = 0;   // Jetson: cooling devices that hold a clock down
  std::map<std::string, double> temperatures_c;
};

MachineState read_machine_state(const std::filesystem::path& root = "/");

/// The same as key -> text.
std::map<std::string, std::string> facts(const MachineState& state);

/// The same of a device: "sm_mhz", "held_down_by" ... Empty where nothing is known.
std::map<std::string, std::string> facts(const DeviceState& state);

/// What happened in between that makes times doubtful, one line each: throttling, more than 1 % of
/// CPU time stolen, clocks that fell by more than 10 %.
std::vector<std::string> disturbances(const MachineState& before, const MachineState& after);
/// What held the device's clocks down before or after.
std::vector<std::string> disturbances(const DeviceState& before, const DeviceState& after);

}  // namespace attest::core
