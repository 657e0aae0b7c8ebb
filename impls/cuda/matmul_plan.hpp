// How much of a score matrix is there at a time: plain C++, for kernels and tests.
#pragma once
#include <algorithm>
#include <cstdint>

namespace cuda {

/// The scores of `heads` heads, one behind the other, times `rows` of their rows make one step.
struct MatmulPlan {
  int64_t heads, rows;
  /// A row of scores begins so many elements after the row before it; so does a row of weights.
  int64_t row_stride;
  /// A step's scores and weights take so much memory, in multiples of 256 bytes.
  int64_t scores_bytes, weights_bytes;

  /// Fast products want rows that begin at multiples of 16 bytes.
  static constexpr int64_t kRowMultiple = 8;
  /// A step is three or four launches. Of more than about a thousand, a launch queue is full, and
  /// the host waits for the device in the middle of a run.
  static constexpr int64_t kMostSteps = 128;
  static constexpr int64_t kMostBytes = int64_t{8} << 30;  // of a step, to have fewer steps

  /// What one problem has: `all_heads` heads, of which one call may take `most_heads`; a head has
  /// seq_len_q rows of seq_len_kv scores.
  struct Sizes {
    int64_t all_heads, most_heads, seq_len_q, seq_len_kv;
  };
  /// A step takes whole heads where these fit into `bytes`, else rows of one head, at least one. It
  /// takes more than `bytes`, but not than kMostBytes, where there would be more than about
  /// kMostSteps of them otherwise.
  MatmulPlan(const Sizes& sizes, int64_t weight_bytes, int64_t bytes) {
    const auto [all_heads, most_heads, seq_len_q, seq_len_kv] = sizes;
    row_stride = (seq_len_kv + kRowMultiple - 1) / kRowMultiple * kRowMultiple;
    const int64_t row_bytes = row_stride * (int64_t{sizeof(float)} + weight_bytes);
    const int64_t most_bytes =
        std::max(bytes, std::min(row_bytes * seq_len_q * all_heads / kMostSteps, kMostBytes));
    rows = std::clamp(most_bytes / row_bytes, int64_t{1}, seq_len_q);
    heads = rows < seq_len_q
                ? 1
                : std::clamp(most_bytes / (row_bytes * seq_len_q), int64_t{1}, most_heads);
    const auto whole = [](int64_t size) { return (size + 255) / 256 * 256; };
    scores_bytes = whole(heads * rows * row_stride * int64_t{sizeof(float)});
    weights_bytes = whole(heads * rows * row_stride * weight_bytes);
  }
};

}  // namespace cuda
