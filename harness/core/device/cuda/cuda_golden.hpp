// Computes goldens on a CUDA device, with kernels of the core that nvcc compiled into a module.
#pragma once
#include <cstddef>
#include <span>

#include "core/operations/golden_device.hpp"

namespace attest::core {

/// The module in this program, in a format that the driver loads; empty: attest was built without
/// nvcc.
std::span<const std::byte> golden_module();

/// The first CUDA device. To be used only if cuda_golden_missing() is "".
class CudaGoldenDevice : public GoldenDevice {
 public:
  /// `module` must outlive it.
  explicit CudaGoldenDevice(std::span<const std::byte> module = golden_module());
  std::string name() const override { return name_; }
  double multiply_adds_per_s() const override { return multiply_adds_per_s_; }
  std::unique_ptr<GoldenQueue> open() const override;

 private:
  std::span<const std::byte> module_;
  std::string name_;
  double multiply_adds_per_s_;
};

/// "" if there are a device and a module; otherwise which is missing and why.
std::string cuda_golden_missing();

}  // namespace attest::core
