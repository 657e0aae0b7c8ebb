#include "core/device/cuda/cuda_pool.hpp"

namespace attest::core {
namespace {

constexpr int kPoolsSupported = 115;        // CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED
constexpr int kUsedNow = 7, kUsedHigh = 8;  // CU_MEMPOOL_ATTR_USED_MEM_CURRENT, _HIGH

}  // namespace

CudaHandle CudaPool::current() const {
  int supported = 0;
  if (cuda_driver().device_attribute(&supported, kPoolsSupported, device_) != 0 || supported == 0)
    return nullptr;
  CudaHandle pool = nullptr;
  cuda_check(cuda_driver().device_pool(&pool, device_), "cuDeviceGetMemPool");
  return pool;
}

void CudaPool::watch() {
  watched_ = current();
  if (!watched_) return;
  uint64_t zero = 0;
  cuda_check(cuda_driver().pool_set(watched_, kUsedHigh, &zero), "cuMemPoolSetAttribute");
  cuda_check(cuda_driver().pool_get(watched_, kUsedNow, &used_bytes_), "cuMemPoolGetAttribute");
}

std::optional<uint64_t> CudaPool::growth_bytes() const {
  if (!watched_ || current() != watched_) return std::nullopt;
  uint64_t high_bytes = 0;
  cuda_check(cuda_driver().pool_get(watched_, kUsedHigh, &high_bytes), "cuMemPoolGetAttribute");
  return high_bytes > used_bytes_ ? high_bytes - used_bytes_ : 0;
}

}  // namespace attest::core
