// How much of a score matrix is there at a time: plain C++, for kernels and tests.
#pragma once
#include <algorithm>
#include <cstdint>

namespace cuda {

/// The scores of `heads` heads, one behind the other, times `rows` of their rows make one step.
struct MatmulPlan {
  int64_t heads, rows;
  int64_t scores_bytes, weights_bytes;  // of a step; each a multiple of 256

  /// `heads`: how many one call may take; `seq_len_q` rows of `seq_len_kv` scores a head. A step
  /// takes whole heads where these fit into most_bytes, else rows of one head, at least one.
  MatmulPlan(int64_t most_heads, int64_t seq_len_q, int64_t seq_len_kv, int64_t weight_bytes,
             int64_t most_bytes) {
    const int64_t row_bytes = seq_len_kv * (int64_t{sizeof(float)} + weight_bytes);
    rows = std::clamp(most_bytes / row_bytes, int64_t{1}, seq_len_q);
    heads = rows < seq_len_q
                ? 1
                : std::clamp(most_bytes / (row_bytes * seq_len_q), int64_t{1}, most_heads);
    const auto whole = [](int64_t bytes) { return (bytes + 255) / 256 * 256; };
    scores_bytes = whole(heads * rows * seq_len_kv * int64_t{sizeof(float)});
    weights_bytes = whole(heads * rows * seq_len_kv * weight_bytes);
  }
};

}  // namespace cuda
