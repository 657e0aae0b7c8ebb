#include "core/operations/softmax/golden/passes/block_shape.hpp"

#include <algorithm>

namespace attest::core::passes {
namespace {

// K, V and what else is kept of them fit into half a megabyte.
constexpr int64_t kBlockNumbers = 16384;
constexpr int64_t kLeastKeys = 32, kMostKeys = 256;
constexpr int64_t kApart = 8;  // rows a power of two apart would share cache sets

}  // namespace

BlockShape::BlockShape(const attest_softmax_params& params)
    : head_dim(params.head_dim),
      head_dim_v(params.head_dim_v),
      keys(std::clamp(kBlockNumbers / std::max(head_dim, head_dim_v) / kColumns * kColumns,
                      kLeastKeys, kMostKeys)),
      key_stride(keys + kApart),
      value_stride(round_up(head_dim_v, kColumns)) {}

}  // namespace attest::core::passes
