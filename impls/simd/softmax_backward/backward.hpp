// Gradients of softmax attention of one key head: the tile kernel behind flash_backward_cpu.
//   kernel.begin_keys(s, keys, scratch);
//   for each query head that reads the key head, and each block of queries that sees a key:
//     kernel.add_queries(s, queries, keys, delta, scratch);
//     kernel.join_queries(s, is_first, sums, scratch);
//     with DBIAS: kernel.clear_bias before, kernel.join_bias or join_bias_row behind
//   kernel.end_keys(s, keys, scratch);  // writes dk and dv
//   kernel.write_queries(s, queries, sums, scratch);  // dq, once all keys were added
// Compiled for AVX-512, AVX2, SSE4 and NEON, chosen when the program runs.
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
  /// The sequence has `query_rows` and `key_rows` rows. The first `queries` and `keys` of them
  /// count; dq, dk and dv of the others are 0.
  int64_t queries = 0, keys = 0, query_rows = 0, key_rows = 0;
  /// The queries of a call see no key outside these limits.
  Range limits{0, 0};
  /// dbias of this (batch, head): [queries][keys]. The stride leads from one query to the next, and
  /// the keys of a query are contiguous.
  void* d_bias = nullptr;
  int64_t d_bias_stride = 0;
};

struct BackwardTiling {
  int64_t queries, keys;  // the most of a block and of a part
  int64_t tile_keys;      // sums over keys start anew after so many
};

/// `scratch` lies on 64 bytes and belongs to one thread from begin_keys to end_keys.
struct BackwardKernel {
  BackwardTiling (*tiling)(int64_t head_dim, int64_t head_dim_v);
  /// Scratch of one thread, a multiple of 256 bytes.
  size_t (*scratch_bytes)(int64_t head_dim, int64_t head_dim_v, bool has_d_bias);
  /// Floats of a block's `sums`, a multiple of 64 bytes.
  int64_t (*block_floats)(int64_t head_dim);

  /// delta[i] = do.o of each query i of `queries`.
  void (*write_delta)(const BackwardSlice& slice, Range queries, float* delta);
  void (*begin_keys)(const BackwardSlice& slice, Range keys, void* scratch);
  /// Adds what the pairs of these queries and keys give to dk and dv, and computes what they give
  /// to dq. With d_bias it adds to each pair's sum, too. `delta` is indexed by query.
  void (*add_queries)(const BackwardSlice& slice, Range queries, Range keys, const float* delta,
                      void* scratch);
  /// Adds what the last add_queries gave to dq to `sums`, or replaces them if it is the first.
  void (*join_queries)(const BackwardSlice& slice, bool is_first, float* sums, void* scratch);
  void (*write_queries)(const BackwardSlice& slice, Range queries, const float* sums,
                        void* scratch);
  void (*end_keys)(const BackwardSlice& slice, Range keys, void* scratch);

  /// The sum of each pair of a block with the keys of begin_keys becomes 0.
  void (*clear_bias)(const BackwardSlice& slice, void* scratch);
  /// Adds the sums of these pairs to `sums` [query][stride], or replaces them if it is the first;
  /// the last writes DBIAS instead. The first and last one alone needs no `sums`.
  void (*join_bias)(const BackwardSlice& slice, Range queries, Range keys, bool is_first,
                    bool is_last, float* sums, int64_t stride, void* scratch);
  /// Adds the sums over these queries to `sums` [key], or replaces them if it is the first.
  void (*join_bias_row)(const BackwardSlice& slice, Range queries, Range keys, bool is_first,
                        float* sums, void* scratch);
  /// Writes DBIAS that all queries share. sums[0] is of the first of `keys`.
  void (*write_bias_row)(const BackwardSlice& slice, Range keys, const float* sums);
};

/// For the instruction set of this processor.
const BackwardKernel& backward_kernel();

}  // namespace impls
