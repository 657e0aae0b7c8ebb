// Rows of tensors to and from float32.
#pragma once
#include <type_traits>

#include "attest.hpp"
#include "mutants/operations/tiles.hpp"

namespace mutants {

inline void widen(const float* from, int64_t count, float* to) {
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof *to);
}
inline void widen(const attest::Half* from, int64_t count, float* to) {
  widen_half(&from->bits, count, to);
}
inline void widen(const attest::BFloat16* from, int64_t count, float* to) {
  widen_bfloat16(&from->bits, count, to);
}

/// Converts a row of `count` elements, which lie `stride` apart, to float32. The stride may be 0
/// where there is one element.
template <class T>
void load_row(const T* from, int64_t stride, int64_t count, float* to) {
  if (stride <= 1) return widen(from, count, to);
  for (int64_t d = 0; d < count; ++d) to[d] = static_cast<float>(from[d * stride]);
}

/// Returns the row that load_row makes. A row of float32 without gaps is returned as it lies in
/// memory; of any other, a copy is made at `copy`.
template <class T>
const float* widened(const T* from, int64_t stride, int64_t count, float* copy) {
  if constexpr (std::is_same_v<T, float>)
    if (stride <= 1) return from;
  load_row(from, stride, count, copy);
  return copy;
}

inline void store_cut(float& to, float value) { to = value; }
/// Stores a value, rounded towards 0.
template <class T>
void store_cut(T& to, float value) {
  to = value;
  if (std::fabs(static_cast<float>(to)) > std::fabs(value)) --to.bits;
}

}  // namespace mutants
