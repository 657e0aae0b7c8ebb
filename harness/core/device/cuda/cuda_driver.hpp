// NVIDIA's driver, loaded at run time: building needs no CUDA toolkit, and attest runs without a
// driver.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace attest::core {

/// Handles of the driver. Its functions return 0 for success.
using CudaHandle = void*;
using CudaAddress = unsigned long long;

/// The driver's functions that attest uses, with the types of its ABI.
struct CudaDriver {
  int (*init)(unsigned flags);
  int (*driver_version)(int* version);
  int (*device_count)(int* count);
  int (*device_get)(int* device, int ordinal);
  int (*device_name)(char* name, int size, int device);
  int (*device_attribute)(int* value, int attribute, int device);
  int (*device_bus_id)(char* text, int size, int device);
  int (*device_pool)(CudaHandle* pool, int device);
  int (*pool_get)(CudaHandle pool, int attribute, void* value);
  int (*pool_set)(CudaHandle pool, int attribute, void* value);
  int (*device_memory)(size_t* bytes, int device);
  int (*context_retain)(CudaHandle* context, int device);
  int (*context_release)(int device);
  int (*context_set)(CudaHandle context);
  int (*allocate)(CudaAddress* address, size_t bytes);
  int (*release)(CudaAddress address);
  int (*host_allocate)(void** address, size_t bytes, unsigned flags);
  int (*host_release)(void* address);
  int (*host_device_address)(CudaAddress* address, void* host, unsigned flags);
  int (*copy_in)(CudaAddress to, const void* from, size_t bytes, CudaHandle stream);
  int (*copy_out)(void* to, CudaAddress from, size_t bytes, CudaHandle stream);
  int (*fill_bytes)(CudaAddress to, unsigned char value, size_t bytes, CudaHandle stream);
  int (*stream_create)(CudaHandle* stream, unsigned flags);
  int (*stream_destroy)(CudaHandle stream);
  int (*stream_synchronize)(CudaHandle stream);
  int (*stream_wait_value)(CudaHandle stream, CudaAddress address, unsigned value, unsigned flags);
  int (*event_create)(CudaHandle* event, unsigned flags);
  int (*event_destroy)(CudaHandle event);
  int (*event_record)(CudaHandle event, CudaHandle stream);
  int (*event_elapsed_ms)(float* milliseconds, CudaHandle begin, CudaHandle end);
  int (*capture_begin)(CudaHandle stream, int mode);
  int (*capture_end)(CudaHandle stream, CudaHandle* graph);
  int (*graph_nodes)(CudaHandle graph, CudaHandle* nodes, size_t* count);
  int (*graph_instantiate)(CudaHandle* ready, CudaHandle graph, unsigned long long flags);
  int (*graph_launch)(CudaHandle ready, CudaHandle stream);
  int (*graph_exec_destroy)(CudaHandle ready);
  int (*graph_destroy)(CudaHandle graph);
  int (*module_load)(CudaHandle* module, const void* image);
  int (*module_unload)(CudaHandle module);
  int (*module_function)(CudaHandle* function, CudaHandle module, const char* name);
  int (*launch)(CudaHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                CudaHandle stream, void** parameters, void** extra);
  int (*error_name)(int error, const char** name);
  int (*error_string)(int error, const char** text);
};

/// "" if there is a CUDA device; otherwise why not: "no driver (libcuda.so.1)", "the driver has no
/// device". Determined once. The environment variable ATTEST_CUDA_DRIVER names another library.
const std::string& cuda_missing();
/// The driver. Throws DeviceError with cuda_missing() if there is none.
const CudaDriver& cuda_driver();
/// Throws DeviceError if `error` is not 0: "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
void cuda_check(int error, const char* function);

}  // namespace attest::core
