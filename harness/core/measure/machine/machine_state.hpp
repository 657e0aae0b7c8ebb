// The state of a machine that changes during a run: clocks, temperatures, throttling, load of other
// processes. It is read before and after.
//
//   const MachineState before = read_machine_state();
//   work();
//   const MachineState after = read_machine_state();
//   for (const std::string& note : disturbances(before, after)) record.notes.push_back(note);
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/device/device.hpp"
#include "core/measure/machine/board/board.hpp"
#include "core/measure/machine/files.hpp"

namespace attest::core {

struct MachineState {
  std::optional<double> load_1min;  // runnable threads, mean over a minute
  std::optional<double>
      cpu_pressure;  // % of the last 10 s in which some thread waited for a CPU (Linux 4.20)
  std::optional<double> min_mhz, max_mhz;  // lowest and highest clock of all CPUs
  // CPU time that the hypervisor gave to other guests, and all CPU time; since boot
  uint64_t steal_ticks = 0, total_ticks = 0;
  uint64_t throttle_events = 0;   // thermal, since boot (x86)
  std::optional<double> cap_mhz;  // the highest clock that any CPU may have (cpufreq)
  std::optional<uint64_t> corrected_errors, uncorrected_errors;  // of memory, since boot (ecc.hpp)
  std::map<std::string, double> temperatures_c;
  std::optional<BoardState> board;  // of a Jetson
};

MachineState read_machine_state(const std::filesystem::path& root = machine_root());

/// The state after work that ended at `busy`, with the events until `last`. Clocks and stolen time
/// are those of `busy`: they are of the work alone, and an idle CPU lowers its clock.
MachineState after_work(const MachineState& busy, MachineState last);

/// The state as key -> text, without the board's.
std::map<std::string, std::string> facts(const MachineState& state);

/// The state of a device as key -> text: "sm_mhz", "held_down_by" ... Empty if nothing is known.
std::map<std::string, std::string> facts(const DeviceState& state);

/// One line for each event between the two states that makes times doubtful: throttling, more than
/// 1 % of CPU time stolen by the hypervisor, clocks that fell by more than 10 %, errors of memory,
/// and the doubts of a board (board/board.hpp).
std::vector<std::string> disturbances(const MachineState& before, const MachineState& after);
/// Why the peak rates of the machine may have changed between the two states: throttling, another
/// cap of the clocks, and the doubts of a board (board/board.hpp). Empty if nothing says so.
std::vector<std::string> changed_limits(const MachineState& before, const MachineState& after);
/// One line for each reason that held the device's clocks down before or after.
std::vector<std::string> disturbances(const DeviceState& before, const DeviceState& after);

}  // namespace attest::core
