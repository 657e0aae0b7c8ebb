#include "core/device/cuda/cuda_driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

#include "core/device/device.hpp"

namespace attest::core {
namespace {

constexpr const char* kDriverLibrary = "libcuda.so.1";
constexpr int kOutOfMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY

struct Loaded {
  CudaDriver driver{};
  std::string missing;
};

std::string words(const CudaDriver& driver, int error) {
  const char *name = nullptr, *text = nullptr;
  if (driver.error_name(error, &name) != 0 || !name) return fmt::format("error {}", error);
  return driver.error_string(error, &text) == 0 && text ? fmt::format("{} ({})", name, text)
                                                        : std::string(name);
}

// The names of the versions whose signatures CudaDriver has: what programs built for CUDA 11 and
// later call.
std::string resolve(void* library, CudaDriver& driver) {
  std::string missing;
  const auto find = [&](auto& function, const char* symbol) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    if (!function && missing.empty()) missing = symbol;
  };
  find(driver.init, "cuInit");
  find(driver.driver_version, "cuDriverGetVersion");
  find(driver.device_count, "cuDeviceGetCount");
  find(driver.device_get, "cuDeviceGet");
  find(driver.device_name, "cuDeviceGetName");
  find(driver.device_attribute, "cuDeviceGetAttribute");
  find(driver.device_memory, "cuDeviceTotalMem_v2");
  find(driver.device_bus_id, "cuDeviceGetPCIBusId");
  find(driver.device_pool, "cuDeviceGetMemPool");
  find(driver.pool_get, "cuMemPoolGetAttribute");
  find(driver.pool_set, "cuMemPoolSetAttribute");
  find(driver.context_retain, "cuDevicePrimaryCtxRetain");
  find(driver.context_release, "cuDevicePrimaryCtxRelease_v2");
  find(driver.context_set, "cuCtxSetCurrent");
  find(driver.allocate, "cuMemAlloc_v2");
  find(driver.release, "cuMemFree_v2");
  find(driver.host_allocate, "cuMemHostAlloc");
  find(driver.host_release, "cuMemFreeHost");
  find(driver.host_device_address, "cuMemHostGetDevicePointer_v2");
  find(driver.copy_in, "cuMemcpyHtoDAsync_v2");
  find(driver.copy_out, "cuMemcpyDtoHAsync_v2");
  find(driver.fill_bytes, "cuMemsetD8Async");
  find(driver.stream_create, "cuStreamCreate");
  find(driver.stream_destroy, "cuStreamDestroy_v2");
  find(driver.stream_synchronize, "cuStreamSynchronize");
  find(driver.stream_wait_value, "cuStreamWaitValue32_v2");
  find(driver.event_create, "cuEventCreate");
  find(driver.event_destroy, "cuEventDestroy_v2");
  find(driver.event_record, "cuEventRecord");
  find(driver.event_elapsed_ms, "cuEventElapsedTime");
  find(driver.capture_begin, "cuStreamBeginCapture_v2");
  find(driver.capture_end, "cuStreamEndCapture");
  find(driver.graph_nodes, "cuGraphGetNodes");
  find(driver.graph_instantiate, "cuGraphInstantiateWithFlags");
  find(driver.graph_launch, "cuGraphLaunch");
  find(driver.graph_exec_destroy, "cuGraphExecDestroy");
  find(driver.graph_destroy, "cuGraphDestroy");
  find(driver.module_load, "cuModuleLoadData");
  find(driver.module_unload, "cuModuleUnload");
  find(driver.module_function, "cuModuleGetFunction");
  find(driver.launch, "cuLaunchKernel");
  find(driver.error_name, "cuGetErrorName");
  find(driver.error_string, "cuGetErrorString");
  return missing;
}

Loaded load_driver() {
  Loaded loaded;
  const char* given = std::getenv("ATTEST_CUDA_DRIVER");
  const char* name = given ? given : kDriverLibrary;
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    loaded.missing = given ? fmt::format("no driver: {}", dlerror())
                           : fmt::format("no driver ({})", kDriverLibrary);
  } else if (const std::string symbol = resolve(library, loaded.driver); !symbol.empty()) {
    loaded.missing = fmt::format("the driver has no {}: too old", symbol);
  } else if (const int error = loaded.driver.init(0)) {
    loaded.missing = fmt::format("cuInit: {}", words(loaded.driver, error));
  } else if (int count = 0; loaded.driver.device_count(&count) != 0 || count == 0) {
    loaded.missing = "the driver has no device";
  }
  return loaded;
}

const Loaded& loaded() {
  static const Loaded once = load_driver();
  return once;
}

}  // namespace

const std::string& cuda_missing() { return loaded().missing; }

const CudaDriver& cuda_driver() {
  if (!cuda_missing().empty()) throw DeviceError("CUDA: " + cuda_missing());
  return loaded().driver;
}

void cuda_check(int error, const char* function) {
  if (error != 0)
    throw DeviceError(fmt::format("{}: {}", function, words(cuda_driver(), error)),
                      error == kOutOfMemory);
}

}  // namespace attest::core
