#include "core/vectors/upstream/window_bounds.hpp"

namespace attest::core {
namespace {

void set_band(attest_softmax_params& p, Bounds inclusive, int32_t diagonal, int64_t offset) {
  p.window_left = inclusive.left;
  p.window_right = inclusive.right;
  if (p.window_left < 0 && p.window_right < 0) return;  // no band has no diagonal
  p.diagonal = diagonal;
  p.diagonal_offset = offset;
}

}  // namespace

void set_flash_attention_band(attest_softmax_params& p, Bounds window, bool causal) {
  set_band(p, {window.left, causal ? 0 : window.right}, ATTEST_BOTTOM_RIGHT, 0);
}

void set_cudnn_band(attest_softmax_params& p, std::optional<int64_t> left,
                    std::optional<int64_t> right, bool bottom_right) {
  set_band(p, {left ? *left - 1 : -1, right.value_or(-1)},
           bottom_right ? ATTEST_BOTTOM_RIGHT : ATTEST_TOP_LEFT, 0);
}

void set_onnx_band(attest_softmax_params& p, Bounds window, bool causal, int64_t past,
                   bool lengths) {
  set_band(p, {window.left, causal ? 0 : window.right},
           lengths ? ATTEST_BOTTOM_RIGHT : ATTEST_TOP_LEFT, lengths ? 0 : past);
}

}  // namespace attest::core
