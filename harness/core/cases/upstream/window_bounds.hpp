// The bounds of windows and the diagonals that they go by, as libraries mean them: ours are
// inclusive on both sides, -1 is unbounded.
#pragma once
#include <cstdint>
#include <optional>

#include "attest.h"

namespace attest::core {

struct Bounds {
  int64_t left = -1, right = -1;
};

/// FlashAttention (2.1 and later): inclusive, -1 unbounded, anchored so that the last query sees
/// the last key; causal: nothing to the right, whatever the bound says.
void set_flash_attention_band(attest_softmax_params& p, Bounds window, bool causal);
/// cuDNN: the left bound counts the diagonal too (1: itself alone), the right bound does not (0:
/// causal); nothing: unbounded.
void set_cudnn_band(attest_softmax_params& p, std::optional<int64_t> left,
                    std::optional<int64_t> right, bool bottom_right);
/// ONNX: inclusive, -1 unbounded; causal cuts the right bound. The diagonal follows the `past`
/// keys, or, where sequences have lengths of their own, ends at each one's last key.
void set_onnx_band(attest_softmax_params& p, Bounds window, bool causal, int64_t past,
                   bool lengths);

}  // namespace attest::core
