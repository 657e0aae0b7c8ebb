// What needs no vectors (attend.hpp).
#include "simd/softmax/attend.hpp"

#include <cstring>

namespace impls {

void clear_rows(const Slice& s, Range queries) {
  const size_t size = s.dtype == ATTEST_F32 ? 4 : 2;
  for (int64_t i = queries.begin; i < queries.end; ++i) {
    const int64_t row = s.order != nullptr ? s.order[i] : i;
    std::memset(static_cast<char*>(s.o) + static_cast<size_t>(row * s.o_stride) * size, 0,
                static_cast<size_t>(s.head_dim_v) * size);
    if (s.lse != nullptr) s.lse[row * s.lse_stride] = -std::numeric_limits<float>::infinity();
  }
}

}  // namespace impls
