// Clocks whose governor may change them, and whether it may: where two times have to be comparable,
// all clocks are locked.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "core/measure/machine/files.hpp"
#include "core/measure/machine/reading.hpp"

namespace attest::core {

/// One clock, or several that are told as one. The floor is the lowest that its governor may
/// choose; the cap the highest.
struct MachineClock {
  Reading<double> now_mhz, floor_mhz, cap_mhz;
  Reading<bool> locked;
};

/// Beyond these a number is garbage, or has another unit.
inline constexpr double kLeastMhz = 20, kMostMhz = 10000;
inline constexpr double kHertz = 1e-6, kKilohertz = 1e-3;  // in MHz

/// A clock's file, whose number times `unit_mhz` is its frequency. `what` it is: "the clock of a
/// CPU".
Reading<double> read_clock(const std::filesystem::path& file, double unit_mhz, double most_mhz,
                           std::string_view what);

/// Whether one frequency alone may be chosen.
Reading<bool> locked_between(const Reading<double>& floor, const Reading<double>& cap);

/// All CPUs that are on: the lowest clock and floor, the highest cap; locked if each is. CPUs that
/// the power mode switched off do not count.
struct CpuClocks {
  MachineClock clock;
  Reading<std::string> governor;  // "schedutil"; those of several, in the order of the alphabet
};
CpuClocks read_cpu_clocks(const std::filesystem::path& root = machine_root(),
                          double most_mhz = kMostMhz, std::string_view what = "the clock of a CPU");

/// "the clock of the GPU is not locked: 306 to 612 MHz"; empty: it is locked.
std::string why_unlocked(std::string_view name, const MachineClock& clock);

}  // namespace attest::core
