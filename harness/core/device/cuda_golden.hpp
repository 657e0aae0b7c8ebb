// Goldens on a CUDA device: the core's own kernels, from a module that was compiled where there was
// nvcc.
#pragma once
#include <cstddef>
#include <span>

#include "core/operations/golden_device.hpp"

namespace attest::core {

/// The module that is compiled into this program, in one of the driver's formats; empty: it was
/// built without nvcc.
std::span<const std::byte> golden_module();

/// The first CUDA device, which there must be.
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

/// "" where there are a device and a module, else why not.
std::string cuda_golden_missing();

}  // namespace attest::core
