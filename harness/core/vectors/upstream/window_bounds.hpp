// Translates the window bounds and causal diagonals of libraries. Those of attest are inclusive on
// both sides; -1 is unbounded.
#pragma once
#include <cstdint>
#include <optional>

#include "attest.h"

namespace attest::core {

struct Bounds {
  int64_t left = -1, right = -1;
};

/// FlashAttention (2.1 and later): bounds are inclusive, -1 is unbounded. The last query is aligned
/// with the last key. `causal` sets the right bound to 0.
void set_flash_attention_band(attest_softmax_params& p, Bounds window, bool causal);
/// cuDNN: the left bound includes the diagonal (1: the diagonal alone), the right bound does not
/// (0: causal). Absent: unbounded.
void set_cudnn_band(attest_softmax_params& p, std::optional<int64_t> left,
                    std::optional<int64_t> right, bool bottom_right);
/// ONNX: bounds are inclusive, -1 is unbounded. `causal` sets the right bound to 0. The diagonal
/// begins after the `past` keys; if sequences have lengths, it ends at the last key of each.
void set_onnx_band(attest_softmax_params& p, Bounds window, bool causal, int64_t past,
                   bool lengths);

}  // namespace attest::core
