// Gradients of softmax attention of one key head: the tile kernel behind flash_backward_cpu.
//   kernel.begin_keys(s, keys, scratch);
//   for each query head that reads the key head, and each block of queries that sees a key:
//     kernel.add_queries(s, queries, keys, delta, scratch);
//     kernel.join_queries(s, is_first, sums, scratch);
//   kernel.end_keys(s, keys, scratch);  // writes dk and dv
//   kernel.write_queries(s, queries, sums, scratch);  // dq, once all keys were added
// Compiled for AVX-512, AVX2, SSE4, NEON and plain C++, chosen when the program runs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simd/softmax/attend.hpp"

namespace impls {

/// One (batch, head) with its gradients. O and LSE are read. All tensors have the dtype of Q.
struct BackwardSlice : Slice {
  const void* d_o = nullptr;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
  int64_t do_stride = 0, dq_stride = 0, dk_stride = 0, dv_stride = 0;
  int64_t queries = 0, keys = 0;  // rows that count
};

struct BackwardTiling {
  int64_t queries, keys;  // the most of a block and of a part
  int64_t tile_keys;      // sums over keys start anew after so many
};

/// `scratch` lies on 64 bytes and belongs to one thread from begin_keys to end_keys.
struct BackwardKernel {
  BackwardTiling (*tiling)(int64_t head_dim, int64_t head_dim_v);
  /// Scratch of one thread, a multiple of 256 bytes.
  size_t (*scratch_bytes)(int64_t head_dim, int64_t head_dim_v);
  /// Floats of a block's `sums`, a multiple of 64 bytes.
  int64_t (*block_floats)(int64_t head_dim);

  /// delta[i] = do.o of each query i of `queries`.
  void (*write_delta)(const BackwardSlice& slice, Range queries, float* delta);
  void (*begin_keys)(const BackwardSlice& slice, Range keys, void* scratch);
  /// Adds what the pairs of these queries and keys give to dk and dv, and computes what they give
  /// to dq. `delta` is indexed by query.
  void (*add_queries)(const BackwardSlice& slice, Range queries, Range keys, const float* delta,
                      void* scratch);
  /// Adds what the last add_queries gave to dq to `sums`, or replaces them if it is the first.
  void (*join_queries)(const BackwardSlice& slice, bool is_first, float* sums, void* scratch);
  void (*write_queries)(const BackwardSlice& slice, Range queries, const float* sums,
                        void* scratch);
  void (*end_keys)(const BackwardSlice& slice, Range keys, void* scratch);
};

/// For the instruction set of this processor.
const BackwardKernel& backward_kernel();

}  // namespace impls
