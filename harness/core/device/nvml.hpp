// NVIDIA's management library, found at run time: clocks, power and heat of a device. Whatever it
// does not know is left out.
#pragma once
#include <string>

#include "core/device/device.hpp"

namespace attest::core {

/// "" where the library is there, else why not: "libnvidia-ml.so.1 does not load". Looked at once.
/// ATTEST_NVML in the environment names another library.
const std::string& nvml_missing();
/// Of the device at a PCI address, as cuDeviceGetPCIBusId spells it.
DeviceState read_nvml_state(const std::string& bus_id);

}  // namespace attest::core
