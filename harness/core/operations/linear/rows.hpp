// Reads rows and masks of linear attention.
#pragma once
#include <cstdint>

#include "core/tensor/tensor.hpp"

namespace attest::core::linear {

/// Whether a mask keeps the key or query `index` of sequence b, which lies along `axis`. Without a
/// mask all are kept.
inline bool counts(const Tensor& mask, int64_t b, int axis, int64_t index) {
  if (!mask) return true;
  const int64_t offset = mask.spec.stride[0] * b + mask.spec.stride[axis] * index;
  return load(mask.data, ATTEST_BOOL, offset) != 0;
}

/// The row [b, head, row] of Q, K or V as float64, [its channels].
inline void load_one(const Tensor& from, int64_t b, int64_t head, int64_t row, double* values) {
  const TensorSpec& spec = from.spec;
  load_row(from.data, spec.dtype, b * spec.stride[0] + head * spec.stride[1] + row * spec.stride[2],
           spec.dim[3], spec.stride[3], values);
}

}  // namespace attest::core::linear
