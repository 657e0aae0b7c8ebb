// Reads a row of a tensor of any dtype as float32. It looks at the dtype once a row, not once an
// element.
#pragma once
#include <algorithm>
#include <limits>

#include "attest.hpp"

namespace honest {

template <class T>
void load_row_as(const void* data, int64_t offset, int64_t stride, int64_t count, float* to) {
  const T* from = static_cast<const T*>(data) + offset;
  for (int64_t d = 0; d < count; ++d) to[d] = static_cast<float>(from[d * stride]);
}

/// Reads `count` elements, each as attest::AnyElement does. The first lies at `offset`, the others
/// follow `stride` elements apart.
inline void load_row(int32_t dtype, const void* data, int64_t offset, int64_t stride, int64_t count,
                     float* to) {
  const auto load = [&](auto element) {
    load_row_as<decltype(element)>(data, offset, stride, count, to);
  };
  switch (dtype) {
    case ATTEST_F32: return load(float{});
    case ATTEST_F16: return load(attest::Half{});
    case ATTEST_BF16: return load(attest::BFloat16{});
    case ATTEST_F64: return load(double{});
    case ATTEST_F8E4M3: return load(attest::F8E4M3{});
    case ATTEST_F8E5M2: return load(attest::F8E5M2{});
    default: std::fill_n(to, count, std::numeric_limits<float>::quiet_NaN());
  }
}

}  // namespace honest
