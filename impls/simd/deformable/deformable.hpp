// Multi-scale deformable attention of one head over a range of queries: the kernel behind
// deformable_cpu.
//   sample_queries(slice, {0, 4096}, scratch);
//   scratch: deformable_scratch_bytes(slice, 4096) bytes on 64
// Compiled for AVX-512, AVX2, SSE4 and NEON, chosen when the program runs. Points stand
// in the vector lanes until their pixels and factors are known, then channels do.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simd/deformable/deformable_slice.hpp"
#include "simd/sizes.hpp"

namespace impls {

/// Scratch of one thread, a multiple of 256 bytes, for calls of at most `queries` queries.
size_t deformable_scratch_bytes(const DeformableSlice& slice, int64_t queries);

/// The longest chain of additions in a sum over the points of a query.
int64_t deformable_sum_chain(const DeformableSlice& slice);

/// Writes o of `queries`.
void sample_queries(const DeformableSlice& slice, Range queries, void* scratch);

}  // namespace impls
