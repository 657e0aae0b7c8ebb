#include "core/device/device_kinds.hpp"

#include <algorithm>
#include <optional>

#include "abi/attest.h"
#include "core/device/cuda/cuda_device.hpp"
#include "core/device/cuda/cuda_golden.hpp"
#include "core/device/cuda/nvml.hpp"

namespace attest::core {
namespace {

/// What makes goldens on the first CUDA device, or why nothing does. Looked for once: a device that
/// does not answer is none.
struct CudaGolden {
  std::optional<CudaGoldenDevice> device;
  std::string missing = cuda_golden_missing();

  CudaGolden() {
    if (!missing.empty()) return;
    try {
      device.emplace();
    } catch (const DeviceError& error) {
      missing = error.what();
    }
  }
};
const CudaGolden& cuda_golden() {
  static const CudaGolden found;
  return found;
}

const DeviceKind kKinds[] = {
    {.number = ATTEST_CPU,
     .name = "cpu",
     .title = "the CPU",
     .advice = "",
     .unseen = "",
     .own_memory = false,
     .fastest_flops_per_ns = 300,
     .missing = [] { return std::string(); },
     .facts = nullptr,
     .open = nullptr,
     .state = nullptr,
     .golden = nullptr,
     .golden_missing = nullptr,
     .monitor = nullptr,
     .monitor_missing = nullptr},
    {.number = ATTEST_CUDA,
     .name = "cuda",
     .title = "CUDA",
     .advice = "install NVIDIA's driver (on a Jetson: nvidia-l4t-cuda); needed only for CUDA "
               "implementations",
     .unseen = "what run or create allocate other than in the order of a stream (cudaMalloc)",
     .own_memory = true,
     .fastest_flops_per_ns = 5e6,
     .missing = [] { return cuda_missing(); },
     .facts = read_cuda_facts,
     .open = open_cuda_device,
     .state = read_cuda_state,
     .golden = []() -> const GoldenDevice* { return &*cuda_golden().device; },
     .golden_missing = [] { return cuda_golden().missing; },
     .monitor = "NVML",
     .monitor_missing = [] { return nvml_missing(); }},
};

}  // namespace

std::span<const DeviceKind> device_kinds() { return kKinds; }

const DeviceKind* find_device_kind(int32_t number) {
  const auto* kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                  [&](const DeviceKind& each) { return each.number == number; });
  return kind == std::end(kKinds) ? nullptr : kind;
}

const GoldenDevice* find_golden_device() {
  for (const DeviceKind& kind : kKinds)
    if (kind.golden && kind.golden_missing().empty()) return kind.golden();
  return nullptr;
}

}  // namespace attest::core
