#include "core/device/cuda/cuda_device.hpp"

#include <fmt/format.h>

#include "core/device/cuda/cuda_graph.hpp"
#include "core/device/cuda/cuda_pool.hpp"
#include "core/device/cuda/cuda_timer.hpp"
#include "core/device/cuda/nvml.hpp"

namespace attest::core {
namespace {

CudaAddress address(const void* data) { return reinterpret_cast<CudaAddress>(data); }

/// Two transfers in a clock. What CUDA says of a Jetson's memory is wrong.
double memory_gbs(int device) {
  if (cuda_attribute(device, kIntegrated) != 0) return 0;
  return 2e-6 * cuda_attribute(device, kMemoryClock_khz) * cuda_attribute(device, kMemoryBusBits) /
         8;
}

class CudaDevice : public Device {
 public:
  void* stream() const override { return stream_.handle(); }
  void* allocate(size_t bytes) override {
    CudaAddress data = 0;
    cuda_check(cuda_driver().allocate(&data, bytes), "cuMemAlloc");
    return reinterpret_cast<void*>(data);
  }
  void release(void* data) noexcept override { cuda_driver().release(address(data)); }
  void copy_in(void* to, const void* from, size_t bytes) override {
    cuda_check(cuda_driver().copy_in(address(to), from, bytes, stream_.handle()),
               "cuMemcpyHtoDAsync");
  }
  void copy_out(void* to, const void* from, size_t bytes) override {
    cuda_check(cuda_driver().copy_out(to, address(from), bytes, stream_.handle()),
               "cuMemcpyDtoHAsync");
  }
  void fill(void* to, unsigned char value, size_t bytes) override {
    cuda_check(cuda_driver().fill_bytes(address(to), value, bytes, stream_.handle()),
               "cuMemsetD8Async");
  }
  void synchronize() override { stream_.synchronize(); }
  void watch_pool() override { pool_.watch(); }
  std::optional<uint64_t> pool_growth_bytes() override { return pool_.growth_bytes(); }
  std::unique_ptr<Recording> record(const std::function<void()>& enqueue) override {
    return std::make_unique<CudaGraph>(stream_, enqueue);
  }
  std::unique_ptr<DeviceTimer> make_timer() override {
    return std::make_unique<CudaTimer>(*this, stream_, read_cuda_facts());
  }

 private:
  CudaContext context_;
  CudaStream stream_;
  CudaPool pool_{cuda_device_of(0)};
};

}  // namespace

DeviceFacts read_cuda_facts() {
  const CudaDriver& driver = cuda_driver();
  const int device = cuda_device_of(0);
  char name[256] = "";
  size_t bytes = 0;
  int version = 0;
  cuda_check(driver.device_name(name, sizeof(name), device), "cuDeviceGetName");
  cuda_check(driver.device_memory(&bytes, device), "cuDeviceTotalMem");
  cuda_check(driver.driver_version(&version), "cuDriverGetVersion");
  return {.name = name,
          .architecture = fmt::format("sm_{}{}", cuda_attribute(device, kMajor),
                                      cuda_attribute(device, kMinor)),
          .driver = fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10),
          .multiprocessors = cuda_attribute(device, kMultiprocessors),
          .memory_bytes = bytes,
          .cache_bytes = uint64_t(cuda_attribute(device, kL2Bytes)),
          .sm_mhz = cuda_attribute(device, kClock_khz) * 1e-3,
          .memory_gbs = memory_gbs(device)};
}

DeviceState read_cuda_state() {
  char bus_id[32] = "";
  int device = 0;
  if (!cuda_missing().empty() || cuda_driver().device_get(&device, 0) != 0) return {};
  if (cuda_driver().device_bus_id(bus_id, sizeof(bus_id), device) != 0) return {};
  return read_nvml_state(bus_id);
}

std::unique_ptr<Device> open_cuda_device() { return std::make_unique<CudaDevice>(); }

}  // namespace attest::core
