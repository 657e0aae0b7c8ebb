#include "core/device/cuda/nvml.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

namespace attest::core {
namespace {

constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

// The library's functions by their names in nvml.h, without prefix; they return 0 for success.
struct Nvml {
  int (*init)();
  int (*by_bus_id)(const char* bus_id, void** device);
  int (*clock)(void* device, int type, unsigned* mhz);
  int (*temperature)(void* device, int sensor, unsigned* celsius);
  int (*power)(void* device, unsigned* milliwatts);
  int (*energy)(void* device, unsigned long long* millijoules);
  int (*reasons)(void* device, unsigned long long* bits);
  int (*ecc_mode)(void* device, unsigned* now, unsigned* after_reset);
  std::string missing;
};

// nvmlClockType_t and nvmlTemperatureSensors_t.
constexpr int kSmClock = 1, kMemoryClock = 2, kCore = 0;

// nvmlClocksEventReasons: what holds clocks down against the will of who set them.
constexpr struct {
  unsigned long long bit;
  const char* name;
} kReasons[] = {{0x04, "power cap"},
                {0x08, "hardware slowdown"},
                {0x20, "heat"},
                {0x40, "heat (hardware)"},
                {0x80, "power brake"}};

Nvml load_nvml() {
  Nvml nvml{};
  const char* given = std::getenv("ATTEST_NVML");
  void* library = dlopen(given ? given : kNvmlLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    nvml.missing = given ? dlerror() : fmt::format("{} does not load", kNvmlLibrary);
    return nvml;
  }
  const auto find = [&](auto& function, const char* symbol) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    return function != nullptr;
  };
  const bool found =
      find(nvml.init, "nvmlInit_v2") && find(nvml.by_bus_id, "nvmlDeviceGetHandleByPciBusId_v2");
  find(nvml.clock, "nvmlDeviceGetClockInfo");
  find(nvml.temperature, "nvmlDeviceGetTemperature");
  find(nvml.power, "nvmlDeviceGetPowerUsage");
  find(nvml.energy, "nvmlDeviceGetTotalEnergyConsumption");
  find(nvml.ecc_mode, "nvmlDeviceGetEccMode");
  // Renamed in release 535; the old name is deprecated.
  if (!find(nvml.reasons, "nvmlDeviceGetCurrentClocksEventReasons"))
    find(nvml.reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
  if (!found)
    nvml.missing = "the library is too old";
  else if (const int error = nvml.init())
    nvml.missing = fmt::format("nvmlInit gave {}", error);
  return nvml;
}

const Nvml& nvml() {
  static const Nvml once = load_nvml();
  return once;
}

// What ask(where) says, times `unit`; nothing where `function` is not there or fails.
template <class Number, class Function, class Ask>
std::optional<double> known(const Function& function, double unit, const Ask& ask) {
  Number value = 0;
  if (!function || ask(&value) != 0) return std::nullopt;
  return double(value) * unit;
}

}  // namespace

const std::string& nvml_missing() { return nvml().missing; }

DeviceState read_nvml_state(const std::string& bus_id) {
  DeviceState state;
  void* device = nullptr;
  if (!nvml_missing().empty() || nvml().by_bus_id(bus_id.c_str(), &device) != 0) return state;
  const Nvml& n = nvml();
  state.sm_mhz =
      known<unsigned>(n.clock, 1, [&](unsigned* mhz) { return n.clock(device, kSmClock, mhz); });
  state.memory_mhz = known<unsigned>(
      n.clock, 1, [&](unsigned* mhz) { return n.clock(device, kMemoryClock, mhz); });
  state.celsius = known<unsigned>(
      n.temperature, 1, [&](unsigned* celsius) { return n.temperature(device, kCore, celsius); });
  state.watts = known<unsigned>(n.power, 1e-3,
                                [&](unsigned* milliwatts) { return n.power(device, milliwatts); });
  using Counter = unsigned long long;
  state.energy_j = known<Counter>(
      n.energy, 1e-3, [&](Counter* millijoules) { return n.energy(device, millijoules); });
  if (unsigned now = 0, after_reset = 0; n.ecc_mode && n.ecc_mode(device, &now, &after_reset) == 0)
    state.ecc = now == 1 ? "on" : "off";
  Counter bits = 0;
  if (n.reasons && n.reasons(device, &bits) == 0)
    for (const auto& [bit, name] : kReasons)
      if (bits & bit) state.held_down_by.push_back(name);
  return state;
}

}  // namespace attest::core
