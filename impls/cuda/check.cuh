// Errors of CUDA's runtime as exceptions, and figures of the device at hand. Without nvcc, the file
// that includes this has included a runtime before: cuda_runtime_api.h, or a stand-in for it.
#pragma once
#ifdef __CUDACC__
#include <cuda_runtime.h>
#endif

#include <stdexcept>
#include <string>

namespace cuda {

inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // so that the next call does not report it again
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

/// A figure of the device at hand.
inline int attribute(cudaDeviceAttr which) {
  int device = 0, value = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

}  // namespace cuda
