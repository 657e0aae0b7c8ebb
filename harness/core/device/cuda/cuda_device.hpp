// The CUDA functions of DeviceKind.
#pragma once
#include "core/device/cuda/cuda.hpp"
#include "core/device/device.hpp"

namespace attest::core {

DeviceFacts read_cuda_facts();
DeviceState read_cuda_state();
std::unique_ptr<Device> open_cuda_device();

}  // namespace attest::core
