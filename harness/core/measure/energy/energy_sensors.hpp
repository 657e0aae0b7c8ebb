// The energy sensors of a machine: RAPL counters of x86 processors, the rails of Jetson boards, and
// the management libraries of devices.
//
//   for (const EnergySensor& sensor : find_energy_sensors()) {
//     const EnergyReading reading = sensor.read();
//     if (!reading.refusal.empty()) fmt::print("{}: {}\n", sensor.name, reading.refusal);
//   }
//
// Sources: Documentation/power/powercap/powercap.rst and Documentation/hwmon/{ina3221,ina2xx}.rst
// of Linux; nvmlDeviceGetTotalEnergyConsumption of NVML.
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/measure/machine/files.hpp"

namespace attest::core {

/// What a sensor says at one moment. A sensor may count energy, show power, or both. One that
/// refuses has neither, and a reason.
struct EnergyReading {
  std::optional<double> joules;  // a counter; only differences mean something
  std::optional<double> watts;   // at this moment, or the mean that the chip formed last
  std::string refusal;           // "permission denied"; "": it has answered
};

/// What the sensor of everything that a board draws covers.
inline constexpr const char* kWholeBoard = "the whole board";

struct EnergySensor {
  std::string name;         // "rapl package-0", "ina3221 VDD_IN", "NVML"
  std::string covers;       // what it measures, in words: "CPU package 0"
  double wraps_joules = 0;  // the counter goes on at 0 after this; 0: it does not wrap
  std::function<EnergyReading()> read;
};

/// The sensors below `root`, and those of devices if `devices`. A sensor that is there and refuses
/// is one of them.
std::vector<EnergySensor> find_energy_sensors(const std::filesystem::path& root = machine_root(),
                                              bool devices = true);

}  // namespace attest::core
