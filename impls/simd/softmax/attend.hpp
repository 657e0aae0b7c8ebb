// Softmax attention of one head over a range of queries and keys: the tile kernels behind
// flash_cpu, flash_cpu_bf16 and window_cpu.
//   Slice s = ...;  attend(Float32Tiles::kernel(problem, 384), s, {0, 384}, {0, keys}, scratch);
//   scratch: scratch_bytes(...) bytes on 64
// Compiled for AVX-512, AVX2, SSE4 and NEON, chosen when the program runs. Queries stand
// in the vector lanes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "attest.h"
#include "simd/sizes.hpp"
#include "simd/storage.hpp"

namespace impls {

/// One (batch, head). Row strides count elements; a row's elements are contiguous. i and j are
/// places: rows, unless `order` says which row stands at a place. What is null or zero does not
/// take part.
struct Slice {
  int32_t dtype = 0;  // ATTEST_F32, F16 or BF16: Q, K, V, O and bias
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* o = nullptr;
  float* lse = nullptr;
  int64_t q_stride = 0, k_stride = 0, v_stride = 0, o_stride = 0, lse_stride = 0;
  const int32_t* order = nullptr;
  // Key j is row j % page_size of page pages[j / page_size * pages_stride]
  const int32_t* pages = nullptr;
  int64_t page_size = 0, pages_stride = 0, k_page_stride = 0,
          v_page_stride = 0;  // page strides: elements from page to page
  int64_t head_dim = 0, head_dim_v = 0;
  float softmax_scale = 1, softcap = 0;
  int64_t window_left = -1, window_right = -1,
          offset = 0;             // i + offset - left <= j <= i + offset + right; -1: unbounded
  const void* bias = nullptr;     // [queries, keys]
  const uint8_t* mask = nullptr;  // [queries, keys]
  int64_t bias_stride_q = 0, bias_stride_kv = 0, mask_stride_q = 0, mask_stride_kv = 0;
  bool pairs_of_rows = false;  // bias and mask are of rows, not of places
  // [blocks of queries, blocks of keys]: place i is in block i / block_q, place j in j / block_kv
  const uint8_t* block_mask = nullptr;
  int64_t block_q = 0, block_kv = 0, block_mask_stride_q = 0, block_mask_stride_kv = 0;
  int64_t global_tokens = 0;        // the first places, which the window leaves out
  const float* rel_bias = nullptr;  // added: rel_bias[rel_place[i] - rel_place[j] + rel_centre]
  const int32_t* rel_place = nullptr;
  int32_t rel_centre = 0;
  // Added: pair_table[j * pair_table_stride + i]. Its rows are padded to whole vectors of queries.
  const float* pair_table = nullptr;
  int64_t pair_table_stride = 0;
  bool bias_in_table = false;       // whether pair_table holds the bias; its -inf hides a pair
  const int32_t* region = nullptr;  // shift_bias is added where region[i] != region[j]
  float shift_bias = 0;
  float sink = -std::numeric_limits<float>::infinity();  // a logit that joins the normaliser of
                                                         // every row that sees a key
  float alibi_slope = 0;                                 // times |i + offset - j| is taken off
  const Slice* next = nullptr;  // what the caller attends to next, to be fetched in time
  Range next_queries{0, 0}, next_keys{0, 0};
};

/// The row of Q, O or LSE that stands at a place.
inline int64_t row_of(const Slice& s, int64_t place) {
  return s.order != nullptr ? s.order[place] : place;
}

/// Keys of `all` that the window of a query of places [first, last] holds.
inline Range window_keys(const Slice& s, int64_t first, int64_t last, Range all) {
  if (s.window_left >= 0) all.begin = std::max(all.begin, first + s.offset - s.window_left);
  if (s.window_right >= 0) all.end = std::min(all.end, last + s.offset + s.window_right + 1);
  return {all.begin, std::max(all.begin, all.end)};
}

/// The fewest keys in which a kernel looks for something to skip.
constexpr int64_t kLeastPiece = 64;

/// The keys of a piece: whole blocks of `block_kv`.
constexpr int64_t piece_keys(int64_t block_kv) { return round_up(kLeastPiece, block_kv); }

/// Keys whose biases and masks are transposed at a time.
constexpr int64_t kPairKeys = 16;

/// Floats of the widest vector: rows of Slice::pair_table are padded to a multiple.
constexpr int64_t kWidestVector = 16;

/// How attend() cuts its work: keys a tile, and queries that share a tile while it is in cache.
struct Tiling {
  int64_t keys, queries, lanes;  // queries: the most one call takes; lanes: queries a vector
  bool from_zero;                // whether the sum over a tile starts from zero
  int64_t products = 1;          // additions a key
  /// The longest chain of float additions in a sum over `keys` keys: within a tile, then over
  /// tiles.
  int64_t sum_chain(int64_t all_keys) const {
    return from_zero ? products * keys + ceil_div(all_keys, keys) : all_keys;
  }
};

/// The functions of a tile kernel.
struct TileKernel {
  Tiling (*tiling)(int64_t head_dim, int64_t head_dim_v);

  /// Scratch of one thread, a multiple of 256 bytes, for calls of at most `queries` queries; with a
  /// block mask, of at most two thirds of them (scratch_queries).
  size_t (*scratch_bytes)(int64_t head_dim, int64_t head_dim_v, int64_t queries);

  /// Attends to `keys`, as far as `queries` see them. The result is left in `scratch` for merge().
  void (*attend_part)(const Slice& slice, Range queries, Range keys, void* scratch);

  /// Writes the bias of all pairs into a table for Slice::pair_table: [keys, padded to pieces of
  /// kPairKeys][stride].
  void (*fill_table)(const Slice& slice, int64_t queries, int64_t keys, float* table,
                     int64_t stride);

  /// Writes o and lse of `queries` from `parts` of their keys, in the order of the parts: part n
  /// has its scratch at scratch + n * bytes. No part may be of other queries. No key: o = 0,
  /// lse = -inf.
  void (*merge)(const Slice& slice, Range queries, int64_t parts, void* scratch, size_t bytes);
};

/// Everything is computed in float32, whatever the storage: by multiply-adds (attend_f32.cpp), or
/// by AMX in products of bf16 terms (attend_terms.cpp) where that is faster.
/// ATTEST_CPU_F32=fma or amx demands one of them, portable_terms the latter without AMX, for tests.
struct Float32Tiles {
  /// For the instruction set of this processor, and a problem in which `queries` queries attend to
  /// the same keys. The answer depends on the problem alone: any number of threads gives the same
  /// bits.
  static const TileKernel& kernel(const attest_problem& problem, int64_t queries);
  /// The one that multiplies and adds.
  static const TileKernel& fma_kernel();

  static void declare(attest_support& support, const attest_problem& problem, int64_t queries);
  /// Why this processor cannot run it; null if it can.
  static const char* refusal();

 private:
  static bool by_terms(const attest_problem& problem, int64_t queries);
};

/// The products multiply bf16 and sum in float32: Q, K, V and the weights exp(logit - max) are
/// rounded to bf16. They multiply by AMX, by AVX512_BF16, or by what Highway has elsewhere;
/// ATTEST_CPU_BF16=amx, avx512_bf16 or portable demands one of them.
struct Bf16Tiles {
  static const TileKernel& kernel(const attest_problem& problem, int64_t queries);
  static void declare(attest_support& support, const attest_problem& problem, int64_t queries);
  static const char* refusal();
};

/// Writes o and lse of `queries` from all `keys` that they may see.
inline void attend(const TileKernel& kernel, const Slice& slice, Range queries, Range keys,
                   void* scratch) {
  kernel.attend_part(slice, queries, keys, scratch);
  kernel.merge(slice, queries, 1, scratch, 0);
}

/// o = 0 and lse = -inf for places that do not count.
void clear_rows(const Slice& slice, Range queries);

}  // namespace impls
