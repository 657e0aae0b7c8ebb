// What implementations allocate in the order of a stream (cudaMallocAsync): the high mark of a CUDA
// device's memory pool. What they allocate past it (cudaMalloc) is not seen.
#pragma once
#include <optional>

#include "core/device/cuda.hpp"

namespace attest::core {

class CudaPool {
 public:
  explicit CudaPool(int device) : device_(device) {}

  /// From now on.
  void watch();
  /// The most that was in use since, beyond what was in use then. Null where the device has no
  /// pools, or another one now.
  std::optional<uint64_t> growth_bytes() const;

 private:
  CudaHandle current() const;

  int device_;
  CudaHandle watched_ = nullptr;
  uint64_t used_bytes_ = 0;
};

}  // namespace attest::core
