#include "core/datasheets/gpu_architectures.hpp"

#include <algorithm>
#include <iterator>

namespace attest::core {
namespace {

// Operations are the peaks that NVIDIA publishes for the device that is named, divided by its
// multiprocessors and its boost clock. Of devices of one architecture the fastest counts: some have
// tensor cores that are slower with sums in f32.
constexpr double kKiB = 1024;
constexpr GpuArchitecture kArchitectures[] = {
    {"sm_75", 128, 1024, 0, 0, "NVIDIA's peaks of T4"},
    {"sm_80", 128, 2048, 1024, 163 * kKiB,
     "NVIDIA A100 white paper (312 TFLOP/s of 108 multiprocessors at 1.41 GHz); CUDA programming "
     "guide, compute capability 8.0"},
    {"sm_86", 256, 1024, 512, 0, "NVIDIA's peaks of RTX A6000"},
    {"sm_87", 256, 2048, 1024, 163 * kKiB,
     "NVIDIA Jetson AGX Orin technical brief; CUDA programming guide, compute capability 8.7"},
    {"sm_89", 256, 1024, 512, 0, "NVIDIA's peaks of L40S"},
    {"sm_90", 256, 4096, 2048, 227 * kKiB,
     "NVIDIA H100 white paper (989 TFLOP/s of 132 multiprocessors at 1.83 GHz); CUDA programming "
     "guide, compute capability 9.0"},
    {"sm_100", 256, 8192, 4096, 0, "NVIDIA's peaks of B200"},
    {"sm_103", 256, 8192, 4096, 0, "NVIDIA's peaks of B300"},
    {"sm_110", 256, 8192, 4096, 0, "NVIDIA's peaks of Jetson Thor"},
    {"sm_120", 256, 1024, 512, 0,
     "NVIDIA's peaks of RTX PRO 6000; an RTX 5090 has half of the TF32"},
};

}  // namespace

const GpuArchitecture* find_gpu_architecture(std::string_view name) {
  const auto* at = std::ranges::find(kArchitectures, name, &GpuArchitecture::name);
  return at == std::end(kArchitectures) ? nullptr : at;
}

}  // namespace attest::core
