// NVIDIA's management library (NVML), loaded at run time: clocks, power and temperature of a
// device. Values that it does not know are left out.
#pragma once
#include <string>

#include "core/device/device.hpp"

namespace attest::core {

/// "" if the library loads; otherwise why not: "libnvidia-ml.so.1 does not load". Determined once.
/// The environment variable ATTEST_NVML names another library.
const std::string& nvml_missing();
/// The state of the device at a PCI address, spelled as by cuDeviceGetPCIBusId.
DeviceState read_nvml_state(const std::string& bus_id);

}  // namespace attest::core
