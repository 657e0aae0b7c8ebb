#include "core/measure/energy/energy_sensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "core/device/device_kinds.hpp"
#include "core/measure/machine/files.hpp"
#include "core/measure/machine/reading.hpp"

namespace attest::core {
namespace {

namespace fs = std::filesystem;

// Beyond these a reading is garbage, or has another unit: the largest board, a Thor, takes 130 W,
// and rails are measured where they leave the supply, at 5 V or more, or 1.8 V.
constexpr double kLeastVolts = 0.5, kMostVolts = 60, kMostAmperes = 200;
constexpr double kLeastWatts = 0.1, kMostWatts = 300;

EnergyReading joules_of(const fs::path& microjoules) {
  const Reading<double> counter = read_value(microjoules);
  if (!counter.value) return {{}, {}, counter.missing};
  return {*counter.value * 1e-6, {}, {}};
}

// The power of the sum of several rails, each in millivolts and milliamperes.
struct Rail {
  fs::path millivolts, milliamperes;
};

EnergyReading watts_of(const std::vector<Rail>& rails) {
  double watts = 0;
  for (const Rail& rail : rails) {
    const Reading<double> volts = within(read_value(rail.millivolts), 1e-3, kLeastVolts, kMostVolts,
                                         "V", "the voltage of a rail"),
                          amperes = within(read_value(rail.milliamperes), 1e-3, -1, kMostAmperes,
                                           "A", "the current of a rail");
    for (const Reading<double>& one : {volts, amperes})
      if (!one.value) return {{}, {}, one.missing};
    const Reading<double> power = within(Reading<double>::of(*volts.value * *amperes.value), 1,
                                         -kMostWatts, kMostWatts, "W", "the power of a rail");
    if (!power.value) return {{}, {}, power.missing};
    watts += *power.value;
  }
  return {{}, watts, {}};
}

// intel-rapl:0 is a package, intel-rapl:0:0 a part of it; AMD's driver uses the same names.
void find_rapl(const fs::path& root, std::vector<EnergySensor>& sensors) {
  for (const fs::path& zone : entries_of(root / "sys/class/powercap")) {
    if (!zone.filename().string().starts_with("intel-rapl:")) continue;
    const std::string name = read_text(zone / "name");
    if (name.empty()) continue;
    const std::string id = zone.filename().string().substr(std::strlen("intel-rapl:"));
    const bool part = id.find(':') != std::string::npos;
    std::string covers = name;
    if (name.starts_with("package-")) covers = "CPU package " + name.substr(8);
    if (name == "psys") covers = "the whole platform";
    if (part) covers = fmt::format("{} of CPU package {}", name, id.substr(0, id.find(':')));
    sensors.push_back({.name = fmt::format("rapl {}{}", name, part ? " " + id : ""),
                       .covers = covers,
                       .wraps_joules = read_number(zone / "max_energy_range_uj").value_or(0) * 1e-6,
                       .read = [zone] { return joules_of(zone / "energy_uj"); }});
  }
}

// Rails whose sum is what an AGX Orin draws; NX and Nano have VDD_IN for that.
constexpr const char* kAgxRails[] = {"VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"};

void find_ina3221(const fs::path& root, std::vector<EnergySensor>& sensors) {
  constexpr int kChannels = 3;
  std::vector<Rail> total;
  for (const fs::path& monitor : entries_of(root / "sys/class/hwmon")) {
    if (read_text(monitor / "name") != "ina3221") continue;
    for (int channel = 1; channel <= kChannels; ++channel) {
      const std::string label = read_text(monitor / fmt::format("in{}_label", channel));
      if (label.empty() || label == "NC") continue;  // not connected
      const Rail rail{monitor / fmt::format("in{}_input", channel),
                      monitor / fmt::format("curr{}_input", channel)};
      sensors.push_back(
          {.name = "ina3221 " + label,
           .covers = label == "VDD_IN" ? std::string(kWholeBoard) : "the rail " + label,
           .wraps_joules = 0,
           .read = [rail] { return watts_of({rail}); }});
      if (std::ranges::find(kAgxRails, label) != std::end(kAgxRails)) total.push_back(rail);
    }
  }
  if (total.size() == std::size(kAgxRails))
    sensors.push_back(
        {.name = "ina3221 total", .covers = kWholeBoard, .wraps_joules = 0, .read = [total] {
           return watts_of(total);
         }});
}

// Thor's input is an INA238, which computes the power itself, in microwatts.
void find_ina238(const fs::path& root, std::vector<EnergySensor>& sensors) {
  for (const fs::path& monitor : entries_of(root / "sys/class/hwmon")) {
    if (read_text(monitor / "name") != "ina238") continue;
    sensors.push_back({.name = "ina238",
                       .covers = kWholeBoard,
                       .wraps_joules = 0,
                       .read = [monitor]() -> EnergyReading {
                         const Reading<double> power =
                             within(read_value(monitor / "power1_input"), 1e-6, kLeastWatts,
                                    kMostWatts, "W", "the power of a board");
                         if (!power.value) return {{}, {}, power.missing};
                         return {{}, power.value, {}};
                       }});
  }
}

// NVML of a Jetson initialises and then refuses every question about power.
EnergyReading reading_of(const DeviceState& state) {
  if (state.energy_j || state.watts) return {state.energy_j, state.watts, {}};
  return {{}, {}, "it answers neither for energy nor for power"};
}

void find_monitors(std::vector<EnergySensor>& sensors) {
  for (const DeviceKind& kind : device_kinds()) {
    if (!kind.state || !kind.missing().empty()) continue;
    const std::string missing = kind.monitor_missing();
    sensors.push_back({.name = kind.monitor,
                       .covers = fmt::format("the first {} device", kind.title),
                       .wraps_joules = 0,
                       .read = [&kind, missing]() -> EnergyReading {
                         if (!missing.empty()) return {{}, {}, missing};
                         return reading_of(kind.state());
                       }});
  }
}

}  // namespace

std::vector<EnergySensor> find_energy_sensors(const fs::path& root, bool devices) {
  std::vector<EnergySensor> sensors;
  find_rapl(root, sensors);
  find_ina3221(root, sensors);
  find_ina238(root, sensors);
  if (devices) find_monitors(sensors);
  return sensors;
}

}  // namespace attest::core
