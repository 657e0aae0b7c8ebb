// The driver's functions as cuda_driver.hpp calls them against NVIDIA's header: what is passed
// where, nothing is called.
#include <cuda.h>
#include <gtest/gtest.h>

#include <type_traits>

#include "core/device/cuda/cuda_driver.hpp"

namespace attest::core {
namespace {

/// Whether two parameters are passed alike: both addresses (handles of the driver are), or numbers
/// of one size and kind.
template <class Ours, class Theirs>
constexpr bool kAlike =
    (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) ||
    (!std::is_pointer_v<Ours> && !std::is_pointer_v<Theirs> && sizeof(Ours) == sizeof(Theirs) &&
     std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs>);

template <class Ours, class Theirs>
constexpr bool kCallable = false;
template <class... Ours, class... Theirs>
constexpr bool kCallable<int (*)(Ours...), CUresult (*)(Theirs...)> = [] {
  if constexpr (sizeof...(Ours) == sizeof...(Theirs))
    return (kAlike<Ours, Theirs> && ...);
  else
    return false;
}();

static_assert(kCallable<int (*)(unsigned, void*), CUresult (*)(unsigned, CUstream)>);
static_assert(!kCallable<int (*)(unsigned), CUresult (*)(size_t)>, "another size");
static_assert(!kCallable<int (*)(void*), CUresult (*)(void*, unsigned)>, "one too few");
static_assert(!kCallable<int (*)(void*), CUresult (*)(size_t)>, "a number for an address");

#define ATTEST_CALLS(member, function)                                        \
  static_assert(kCallable<decltype(CudaDriver::member), decltype(&function)>, \
                "cuda_driver.hpp passes " #function " something else")

ATTEST_CALLS(init, cuInit);
ATTEST_CALLS(driver_version, cuDriverGetVersion);
ATTEST_CALLS(device_count, cuDeviceGetCount);
ATTEST_CALLS(device_get, cuDeviceGet);
ATTEST_CALLS(device_name, cuDeviceGetName);
ATTEST_CALLS(device_attribute, cuDeviceGetAttribute);
ATTEST_CALLS(device_bus_id, cuDeviceGetPCIBusId);
ATTEST_CALLS(device_pool, cuDeviceGetMemPool);
ATTEST_CALLS(pool_get, cuMemPoolGetAttribute);
ATTEST_CALLS(pool_set, cuMemPoolSetAttribute);
ATTEST_CALLS(device_memory, cuDeviceTotalMem_v2);
ATTEST_CALLS(context_retain, cuDevicePrimaryCtxRetain);
ATTEST_CALLS(context_release, cuDevicePrimaryCtxRelease_v2);
ATTEST_CALLS(context_set, cuCtxSetCurrent);
ATTEST_CALLS(allocate, cuMemAlloc_v2);
ATTEST_CALLS(release, cuMemFree_v2);
ATTEST_CALLS(host_allocate, cuMemHostAlloc);
ATTEST_CALLS(host_release, cuMemFreeHost);
ATTEST_CALLS(host_device_address, cuMemHostGetDevicePointer_v2);
ATTEST_CALLS(copy_in, cuMemcpyHtoDAsync_v2);
ATTEST_CALLS(copy_out, cuMemcpyDtoHAsync_v2);
ATTEST_CALLS(fill_bytes, cuMemsetD8Async);
ATTEST_CALLS(stream_create, cuStreamCreate);
ATTEST_CALLS(stream_destroy, cuStreamDestroy_v2);
ATTEST_CALLS(stream_synchronize, cuStreamSynchronize);
ATTEST_CALLS(stream_wait_value, cuStreamWaitValue32_v2);
ATTEST_CALLS(event_create, cuEventCreate);
ATTEST_CALLS(event_destroy, cuEventDestroy_v2);
ATTEST_CALLS(event_record, cuEventRecord);
ATTEST_CALLS(event_elapsed_ms, cuEventElapsedTime);
ATTEST_CALLS(capture_begin, cuStreamBeginCapture_v2);
ATTEST_CALLS(capture_end, cuStreamEndCapture);
ATTEST_CALLS(graph_nodes, cuGraphGetNodes);
ATTEST_CALLS(graph_instantiate, cuGraphInstantiateWithFlags);
ATTEST_CALLS(graph_launch, cuGraphLaunch);
ATTEST_CALLS(graph_exec_destroy, cuGraphExecDestroy);
ATTEST_CALLS(graph_destroy, cuGraphDestroy);
ATTEST_CALLS(module_load, cuModuleLoadData);
ATTEST_CALLS(module_unload, cuModuleUnload);
ATTEST_CALLS(module_function, cuModuleGetFunction);
ATTEST_CALLS(launch, cuLaunchKernel);
ATTEST_CALLS(error_name, cuGetErrorName);
ATTEST_CALLS(error_string, cuGetErrorString);

// Numbers of the header that files of this room have.
static_assert(CU_STREAM_NON_BLOCKING == 1 && CU_MEMHOSTALLOC_DEVICEMAP == 2 &&
              CU_STREAM_WAIT_VALUE_GEQ == 0);
static_assert(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT == 16 &&
              CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE == 38);
static_assert(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR == 75 &&
              CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR == 76);
static_assert(CU_DEVICE_ATTRIBUTE_CLOCK_RATE == 13 &&
              CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO == 87);
static_assert(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED == 115 &&
              CU_STREAM_CAPTURE_MODE_THREAD_LOCAL == 1);
static_assert(CU_MEMPOOL_ATTR_USED_MEM_CURRENT == 7 && CU_MEMPOOL_ATTR_USED_MEM_HIGH == 8);
static_assert(CUDA_ERROR_OUT_OF_MEMORY == 2 && CUDA_ERROR_NOT_SUPPORTED == 801);

// All of it is seen by the compiler; this one runs so that the test is counted.
TEST(CudaHeader, IsWhatTheDriverIsCalledBy) { EXPECT_EQ(int(CUDA_SUCCESS), 0); }

}  // namespace
}  // namespace attest::core
