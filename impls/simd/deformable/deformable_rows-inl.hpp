// Rows of the tensors of deformable attention: how they are read, written, and V copied together.
// Compiled once a Highway target; include it after foreach_target.h.
#if defined(ATTEST_IMPLS_DEFORMABLE_ROWS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEST_IMPLS_DEFORMABLE_ROWS_INL_HPP
#undef ATTEST_IMPLS_DEFORMABLE_ROWS_INL_HPP
#else
#define ATTEST_IMPLS_DEFORMABLE_ROWS_INL_HPP
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "simd/deformable/deformable_slice.hpp"
#include "simd/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace impls {
namespace HWY_NAMESPACE {

constexpr size_t kLineBytes = 64;

inline int64_t size_of(int32_t dtype) { return dtype == ATTEST_F32 ? 4 : 2; }

inline const char* address(const void* data, int32_t dtype, int64_t element) {
  return static_cast<const char*>(data) + element * size_of(dtype);
}

HWY_INLINE void prefetch_row(const void* row, size_t bytes) {
  const char* const at = static_cast<const char*>(row);
  for (size_t n = 0; n < bytes; n += kLineBytes) hwy::Prefetch(at + n);
  hwy::Prefetch(at + bytes - 1);
}

/// widen_row() for rows that may be shorter than a vector.
template <class T>
HWY_INLINE void widen_short(const T* source, int64_t count, float* target) {
  if (count >= kLanes) return widen_row(source, count, 1.0f, target);
  int64_t n = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> four;
  for (; n + 4 <= count; n += 4) hn::StoreU(load_as(four, source + n), four, target + n);
#endif
  for (; n < count; ++n) target[n] = widen(source[n]);
}

/// target[n] = the element at first + n, n < count.
inline void read_row(const void* data, int32_t dtype, int64_t first, int64_t count, float* target) {
  const char* const at = address(data, dtype, first);
  if (dtype == ATTEST_F32)
    widen_short(reinterpret_cast<const float*>(at), count, target);
  else if (dtype == ATTEST_F16)
    widen_short(reinterpret_cast<const F16*>(at), count, target);
  else
    widen_short(reinterpret_cast<const Bf16*>(at), count, target);
}

template <class T>
inline void write_row(const float* source, int64_t count, void* data, int64_t first,
                      int64_t stride) {
  T* const at = static_cast<T*>(data) + first;
  if (stride == 1 || count == 1) return narrow_row(source, count, at);
  for (int64_t n = 0; n < count; ++n) at[n * stride] = narrow<T>(source[n]);
}

// --- V ---

/// Pixels of the levels before `level`, with `edge` more on every side of each.
inline int64_t tokens_before(const DeformableSlice& s, int64_t level, int64_t edge) {
  int64_t tokens = 0;
  for (int64_t l = 0; l < level; ++l) tokens += (s.width[l] + 2 * edge) * (s.height[l] + 2 * edge);
  return tokens;
}
inline int64_t tokens_of(const DeformableSlice& s) { return tokens_before(s, s.levels, 0); }

/// Whether vectors of channels are summed; else one channel after another.
inline bool in_vectors(const DeformableSlice& s) {
  return s.channels >= kLanes && (s.v_stride[1] == 1 || s.channels == 1);
}

// V copied together: each level has an edge of zeros, and two more pixels of zeros follow the last.
constexpr int64_t kEdge = 1, kLastZeros = 2;
inline int64_t packed_tokens(const DeformableSlice& s) {
  return tokens_before(s, s.levels, kEdge) + kLastZeros;
}
/// Whether V is copied together first. Where heads lie between its rows, a power of two apart, they
/// would share a few sets of a cache, and points inside need not heed the edges of levels. It pays
/// if each row is read some times.
inline bool packs_rows(const DeformableSlice& s, int64_t queries) {
  const int64_t least_reads = s.v_stride[0] == s.channels ? 8 : 2, tokens = packed_tokens(s);
  return in_vectors(s) && tokens <= std::numeric_limits<int32_t>::max() &&
         4 * queries * s.levels * s.points >= least_reads * tokens;
}

template <class T>
HWY_INLINE void copy_pixel(const T* source, size_t bytes, T* target) {
  const char* const from = reinterpret_cast<const char*>(source);
  char* const to = reinterpret_cast<char*>(target);
  size_t n = 0;
  for (; n + kLineBytes <= bytes; n += kLineBytes) std::memcpy(to + n, from + n, kLineBytes);
  std::memcpy(to + n, from + n, bytes - n);
}

/// Copies V of the head together. `packed` has packed_tokens() pixels.
template <class T>
const T* pack_rows(const DeformableSlice& s, T* packed) {
  constexpr int64_t kAhead = 16;  // pixels
  const T *v = static_cast<const T*>(s.v), *const last = v + (tokens_of(s) - 1) * s.v_stride[0];
  const size_t bytes = static_cast<size_t>(s.channels) * sizeof(T);
  T* target = packed;
  const auto put_zeros = [&](int64_t pixels) {
    std::memset(static_cast<void*>(target), 0, static_cast<size_t>(pixels) * bytes);
    target += pixels * s.channels;
  };
  for (int64_t level = 0; level < s.levels; ++level) {
    const int64_t width = s.width[level];
    put_zeros(width + 2 * kEdge);
    for (int64_t y = 0; y < s.height[level]; ++y) {
      put_zeros(kEdge);
      for (int64_t x = 0; x < width; ++x, v += s.v_stride[0], target += s.channels) {
        prefetch_row(std::min(v + kAhead * s.v_stride[0], last), bytes);
        copy_pixel(v, bytes, target);
      }
      put_zeros(kEdge);
    }
    put_zeros(width + 2 * kEdge);
  }
  put_zeros(kLastZeros);
  return packed;
}

}  // namespace HWY_NAMESPACE
}  // namespace impls
HWY_AFTER_NAMESPACE();
#endif
