// Errors of CUDA's runtime as exceptions, and figures of the device at hand; whichever runtime
// there is: nvcc's, that of a file that has included cuda_runtime_api.h, or the one that runs
// kernels on the host.
#pragma once
#if defined(__CUDACC__)
#include <cuda_runtime.h>
#elif !defined(CUDART_VERSION)
#include "cuda/on_host.hpp"
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
