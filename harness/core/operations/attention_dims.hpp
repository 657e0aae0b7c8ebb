// The dims of outputs that all kinds of attention have.
#pragma once
#include <string>
#include <string_view>

namespace attest::core {

/// The dims of O, [batch, num_heads, seq_len_q, head_dim_v], and of LSE, its first three.
inline std::string attention_dim(int axis) {
  constexpr std::string_view kNames[] = {"batch", "head", "query", "channel"};
  return std::string(kNames[axis]);
}

}  // namespace attest::core
