// What all threads of a block have in common.
#pragma once
#include "cuda/device_problem.cuh"

namespace cuda {

/// The sum, or the largest, over the kThreads threads of the block; everybody gets it.
template <int kThreads, class Combine>
__device__ float reduce(float value, Combine combine) {
  __shared__ float warps[kThreads / 32];
  for (int step = 16; step > 0; step /= 2)
    value = combine(value, __shfl_xor_sync(0xffffffff, value, step));
  __syncthreads();  // whoever still reads what the last call left
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = warps[0];
  for (int warp = 1; warp < kThreads / 32; ++warp) value = combine(value, warps[warp]);
  return value;
}

}  // namespace cuda
