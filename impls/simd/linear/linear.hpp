// Linear attention of one head (LoFTR, elu + 1): sum the keys into a state, then read it out for
// each query.
//   sum_keys(s, {0, keys}, state, scratch);  read_queries(s, {0, queries}, state, scratch);
// Compiled for AVX-512, AVX2, SSE4 and NEON, chosen when the program runs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simd/sizes.hpp"

namespace impls {

/// One (batch, head). Row strides count elements; a row's elements are contiguous; masks are null
/// where there are none.
struct LinearSlice {
  int32_t dtype = 0;  // ATTEST_F32, F16 or BF16
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* o = nullptr;
  int64_t q_stride = 0, k_stride = 0, v_stride = 0, o_stride = 0;
  const uint8_t *mask = nullptr, *query_mask = nullptr;  // of keys, of queries
  int64_t mask_stride = 0, query_mask_stride = 0;
  int64_t head_dim = 0, head_dim_v = 0;
  float eps = 0;
};

constexpr int64_t kLinearTile = 128;  // keys whose sum starts from zero before it joins the state

/// Floats of a state: sum phi(k)^T v and sum phi(k), in the kernel's own order. Sums of states are
/// states.
int64_t linear_state_floats(int64_t head_dim, int64_t head_dim_v);
/// Scratch of one thread, a multiple of 256 bytes.
size_t linear_scratch_bytes(int64_t head_dim, int64_t head_dim_v);

/// state = the sum over `keys`; state and scratch lie on 64 bytes.
void sum_keys(const LinearSlice& slice, Range keys, float* state, void* scratch);
/// Writes o of `queries`.
void read_queries(const LinearSlice& slice, Range queries, const float* state, void* scratch);

}  // namespace impls
