// Whether a plugin has kernels for the device at hand, before anything is launched.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace attest::core {

/// Why no kernel of the plugin can run on the first device of that kind (attest.h): "no kernel for
/// sm_87: it has sm_90a". Empty: one can, it is not known that none can, or there is no device. A
/// file is read once.
std::string device_code_missing(const std::filesystem::path& plugin, int32_t device);

}  // namespace attest::core
