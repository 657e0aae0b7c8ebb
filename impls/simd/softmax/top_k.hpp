// Softmax attention of one head over the top_k keys of each row (flash_cpu). The scores of a tile
// of keys are compared with the least that may still count in each row; what passes is kept in a
// list of the row, which is cut to the top_k largest whenever it has grown long. Values are read
// for the keys of the final lists alone.
#pragma once
#include <cstddef>
#include <cstdint>

#include "simd/softmax/attend.hpp"

namespace impls {

/// How many keys of each row count. No row sees more than `seq_len_kv` keys: no list of keys is
/// longer.
struct TopK {
  int64_t keys, seq_len_kv;
  bool all_ties;  // whether all keys count that share the least logit, or the first of them
};

struct TopKKernel {
  int64_t queries;  // of one call, at most
  size_t (*scratch_bytes)(const TopK& top, int64_t head_dim, int64_t head_dim_v);
  /// Writes o and lse of `queries`, of the keys that they see of `keys`.
  void (*attend)(const Slice& slice, const TopK& top, Range queries, Range keys, void* scratch);
};

/// For the instruction set of this processor; everything is computed in float32.
const TopKKernel& top_k_kernel();

}  // namespace impls
