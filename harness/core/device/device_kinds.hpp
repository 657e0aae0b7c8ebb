// The kinds of devices. To add one, write its files in a folder beside this file, as cuda/ is one,
// and enter it in device_kinds.cpp.
#pragma once
#include <span>

#include "core/device/device.hpp"

namespace attest::core {

/// All kinds, the host first.
std::span<const DeviceKind> device_kinds();
/// The kind with that number of attest.h; null: attest does not know it.
const DeviceKind* find_device_kind(int32_t number);
/// The first device that can compute goldens; null: there is none.
const GoldenDevice* find_golden_device();

}  // namespace attest::core
