// Which kinds of devices there are: a new one is a line here, with its files beside it.
#pragma once
#include <span>

#include "core/device/device.hpp"

namespace attest::core {

/// All kinds, the host first.
std::span<const DeviceKind> device_kinds();
/// By its number in attest.h; null: this attest knows no such kind.
const DeviceKind* find_device_kind(int32_t number);
/// The first device that makes goldens; null: none does.
const GoldenDevice* find_golden_device();

}  // namespace attest::core
