// The state of a Jetson board: which module it is, its power mode, and what of its clocks, rails,
// temperatures and throttling can be read.
//
//   if (const std::optional<BoardState> board = read_board())
//     for (const auto& [key, reason] : facts(*board).missing) fmt::print("{}: {}\n", key, reason);
//
// The power mode sets the clocks of the cores, the clock of the memory and the number of
// multiprocessors. On a board NVML answers nothing, and CUDA gives a wrong clock and a wrong bus of
// the memory, so every value comes from a file. attest has never run on a board
// (harness/guide/orin.md).
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/measure/machine/clocks.hpp"
#include "core/measure/machine/files.hpp"
#include "core/measure/machine/reading.hpp"

namespace attest::core {

struct BoardState {
  Reading<std::string> model, module;  // "Jetson AGX Orin 64GB" is a module
  Reading<std::string> architecture;   // of its GPU: "sm_87"
  Reading<std::string> l4t;            // "R36.4.3"
  Reading<int64_t> jetpack;            // 5, 6 or 7
  Reading<int64_t> mode;               // the id of the power mode, whose meaning differs by board
  Reading<std::string> mode_name;      // "MODE_30W"
  Reading<int64_t> multiprocessors;    // that the mode leaves
  MachineClock gpu, memory, cpu;       // of all CPUs: the lowest clock and floor, the highest cap
  Reading<std::string> gpu_governor, cpu_governor;
  Reading<double> memory_gbs;                         // that the memory's clock allows now
  Reading<double> memory_cap_gbs;                     // and that its cap allows
  std::map<std::string, Reading<double>> rail_watts;  // "ina3221 VDD_IN"
  Reading<double> watts;                              // of the whole board
  std::map<std::string, Reading<double>> celsius;     // by thermal zone
  std::map<std::string, Reading<bool>> throttling;  // by the cooling devices that hold clocks down
  // Since boot: 1 the voltage was too low, 2 the mean current too high, 3 the current too high
  std::map<int, Reading<int64_t>> over_current;
  Reading<int64_t> nvmap_bytes;     // of the one memory: what the GPU's driver has
  Reading<int64_t> carveout_bytes;  // what firmware and kernel keep: the module's memory - MemTotal
};

/// The state of the board whose files lie under `root`. Null: it is no Jetson.
std::optional<BoardState> read_board(const std::filesystem::path& root = machine_root());

/// One line for each of the three clocks that is not locked or cannot be seen: "the clock of the
/// GPU is not locked: 306 to 612 MHz".
std::vector<std::string> unlocked_clocks(const BoardState& board);

/// Why it is not certain that the clocks of this machine are locked, and how to lock them. Of a
/// device with a driver of its own (not a Jetson's) nothing is said.
struct UnlockedClocks {
  std::vector<std::string> which;  // "the clock of the GPU is not locked: 306 to 612 MHz"
  std::string remedy;              // a command
};
UnlockedClocks find_unlocked_clocks(const std::filesystem::path& root = machine_root());

/// What is known, key -> text, and why the rest is not, key -> reason. No key is in both.
struct BoardFacts {
  std::map<std::string, std::string> known, missing;
};
BoardFacts facts(const BoardState& board);
/// Those that may change while attest runs.
BoardFacts changing_facts(const BoardState& board);

/// What happened between two readings. `doubts` make the times between them doubtful: another mode,
/// other caps, a lock that was undone, throttling. `remarks` do not.
struct BoardChanges {
  std::vector<std::string> doubts, remarks;
  std::map<int, int64_t> over_current;  // how often each event was; those that both readings have
};
BoardChanges changes(const BoardState& before, const BoardState& after);

/// "2 (MODE_30W)"; "2" where its name is not known.
Reading<std::string> power_mode(const BoardState& board);

}  // namespace attest::core
