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

#include "simd/deformable/deformable_slice.hpp"
#include "simd/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace impls {
namespace HWY_NAMESPACE {

constexpr int64_t kLineBytes = 64;

inline int64_t size_of(int32_t dtype) { return dtype == ATTEST_F32 ? 4 : 2; }

inline int64_t tokens_before(const DeformableSlice& s, int64_t level) {
  int64_t tokens = 0;
  for (int64_t l = 0; l < level; ++l) tokens += int64_t{s.width[l]} * s.height[l];
  return tokens;
}
inline int64_t tokens_of(const DeformableSlice& s) { return tokens_before(s, s.levels); }

/// Whether vectors of channels are summed; else one channel after another.
inline bool in_vectors(const DeformableSlice& s) {
  return s.channels >= kLanes && (s.v_stride[1] == 1 || s.channels == 1);
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

/// What each query has for its points: locations, of two axes, or weights, of one.
class OfPoints {
 public:
  /// `stride`: of queries, levels, points and, of two axes, axes.
  OfPoints(const DeformableSlice& s, const void* data, int32_t dtype, const int64_t* stride,
           int64_t axes)
      : data_(static_cast<const char*>(data)),
        stride_(stride),
        points_(s.points),
        axes_(axes),
        elements_(s.levels * s.points * axes),
        dtype_(dtype),
        is_dense_((axes == 1 || stride[3] == 1) && (s.points == 1 || stride[2] == axes) &&
                  (s.levels == 1 || stride[1] == s.points * axes)) {}

  /// Writes those of `count` queries, one query after another.
  void read(const int32_t* queries, int64_t count, float* target) const {
    if (dtype_ == ATTEST_F32) return read_as<float>(queries, count, target);
    if (dtype_ == ATTEST_F16) return read_as<F16>(queries, count, target);
    read_as<Bf16>(queries, count, target);
  }

  HWY_INLINE void prefetch(int32_t query) const {
    if (!is_dense_) return;
    const int64_t size = size_of(dtype_), bytes = elements_ * size;
    const char* const at = data_ + query * stride_[0] * size;
    for (int64_t n = 0; n < bytes; n += kLineBytes) hwy::Prefetch(at + n);
    hwy::Prefetch(at + bytes - 1);
  }

 private:
  template <class T>
  void read_as(const int32_t* queries, int64_t count, float* target) const {
    for (int64_t n = 0; n < count; ++n, target += elements_) {
      const T* const source = reinterpret_cast<const T*>(data_) + queries[n] * stride_[0];
      if (is_dense_)
        widen_short(source, elements_, target);
      else
        for (int64_t at = 0; at < elements_; ++at)
          target[at] =
              widen(source[at / axes_ / points_ * stride_[1] + at / axes_ % points_ * stride_[2] +
                           (axes_ == 1 ? 0 : at % axes_ * stride_[3])]);
    }
  }

  const char* data_;
  const int64_t* stride_;
  int64_t points_, axes_, elements_;  // elements: of a query
  int32_t dtype_;
  bool is_dense_;
};

template <class T>
inline void write_row_as(const float* source, int64_t count, T* target, int64_t stride) {
  if (stride == 1 || count == 1) return narrow_row(source, count, target);
  for (int64_t n = 0; n < count; ++n) target[n * stride] = narrow<T>(source[n]);
}
inline void write_row(const DeformableSlice& s, int32_t query, const float* source) {
  const int64_t first = query * s.o_stride[0], stride = s.o_stride[1];
  if (s.o_dtype == ATTEST_F32)
    write_row_as(source, s.channels, static_cast<float*>(s.o) + first, stride);
  else if (s.o_dtype == ATTEST_F16)
    write_row_as(source, s.channels, static_cast<F16*>(s.o) + first, stride);
  else
    write_row_as(source, s.channels, static_cast<Bf16*>(s.o) + first, stride);
}

/// Whether O is float32 and its channels lie side by side.
inline bool has_dense_floats(const DeformableSlice& s) {
  return s.o_dtype == ATTEST_F32 && (s.o_stride[1] == 1 || s.channels == 1);
}
HWY_INLINE void prefetch_row(const DeformableSlice& s, int32_t query) {
  const int64_t size = size_of(s.o_dtype);
  const char* const at = static_cast<const char*>(s.o) + query * s.o_stride[0] * size;
  for (int64_t n = 0; n < s.channels * size; n += kLineBytes) hwy::Prefetch(at + n);
}

// --- V ---

/// Whether V is copied together first. Where heads lie between its rows, a power of two apart, they
/// would share a few sets of a cache. It pays if each row is read some times.
constexpr int64_t kLeastReads = 2;
inline bool packs_rows(const DeformableSlice& s, int64_t queries) {
  return in_vectors(s) && s.v_stride[0] != s.channels &&
         4 * queries * s.levels * s.points >= kLeastReads * tokens_of(s);
}

/// Copies V of the head together.
template <class T>
void pack_rows(const DeformableSlice& s, T* packed) {
  constexpr int64_t kAhead = 16;  // rows
  const int64_t tokens = tokens_of(s), bytes = s.channels * int64_t{sizeof(T)};
  const T* v = static_cast<const T*>(s.v);
  for (int64_t n = 0; n < tokens; ++n, v += s.v_stride[0]) {
    const char* const ahead =
        reinterpret_cast<const char*>(v + std::min(kAhead, tokens - 1 - n) * s.v_stride[0]);
    for (int64_t at = 0; at < bytes; at += kLineBytes) hwy::Prefetch(ahead + at);
    std::copy_n(v, s.channels, packed + n * s.channels);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace impls
HWY_AFTER_NAMESPACE();
#endif
