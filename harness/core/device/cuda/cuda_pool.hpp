// Measures the memory that implementations allocate with cudaMallocAsync, from the high-water mark
// of a CUDA device's memory pool. Memory from cudaMalloc is not counted.
#pragma once
#include <optional>

#include "core/device/cuda/cuda.hpp"

namespace attest::core {

class CudaPool {
 public:
  explicit CudaPool(int device) : device_(device) {}

  /// Begins to measure.
  void watch();
  /// The peak growth since watch(), in bytes. Null if the device has no pool, or another pool now.
  std::optional<uint64_t> growth_bytes() const;

 private:
  CudaHandle current() const;

  int device_;
  CudaHandle watched_ = nullptr;
  uint64_t used_bytes_ = 0;
};

}  // namespace attest::core
