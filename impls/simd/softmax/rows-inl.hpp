// Rows of K and V as floats, for the kernels that multiply in float32 (attend_f32.cpp,
// backward.cpp). Compiled once a Highway target: include it after foreach_target.h.
#if defined(ATTEST_IMPLS_ROWS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEST_IMPLS_ROWS_INL_HPP
#undef ATTEST_IMPLS_ROWS_INL_HPP
#else
#define ATTEST_IMPLS_ROWS_INL_HPP
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "simd/softmax/attend-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace impls {
namespace HWY_NAMESPACE {

// For register tiles of 4 and 8, transposes of 4.
inline int64_t padded(int64_t head_dim) { return round_up(head_dim, 8); }

/// Rows of K or V as floats: in place where they lie so, else converted and gathered into `copy`,
/// padded with zeros.
struct Rows {
  const float* data;
  int64_t stride;
};
template <class T>
Rows tile_rows(const Slice& s, const T* data, int64_t stride, int64_t page_stride, int64_t first,
               int64_t count, int64_t depth, int64_t unit, float* copy) {
  if constexpr (sizeof(T) == 4) {
    if (s.order == nullptr && s.pages == nullptr && depth % unit == 0)
      return {data + first * stride, stride};
  }
  const int64_t pitch = padded(depth);
  for (int64_t place = first; place < first + count; ++place) {
    float* const target = copy + (place - first) * pitch;
    widen_row(row_at(s, data, stride, page_stride, place), depth, 1.0f, target);
    for (int64_t c = depth; c < pitch; ++c) target[c] = 0;
  }
  return {copy, pitch};
}

inline bool all_finite(Rows rows, int64_t count, int64_t depth) {
  const Floats d;
  Vector poison[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};  // of rows in turn
  float rest = 0;
  for (int64_t j = 0; j < count; ++j) {
    const float* const row = rows.data + j * rows.stride;
    int64_t c = 0;
    for (; c + kLanes <= depth; c += kLanes)
      poison[j % 4] = hn::MulAdd(hn::LoadU(d, row + c), hn::Zero(d), poison[j % 4]);
    for (; c < depth; ++c) rest += row[c] * 0.0f;
  }
  const Vector all = hn::Add(hn::Add(poison[0], poison[1]), hn::Add(poison[2], poison[3]));
  return hn::GetLane(hn::SumOfLanes(d, all)) + rest == 0;
}

}  // namespace HWY_NAMESPACE
}  // namespace impls
HWY_AFTER_NAMESPACE();
#endif
