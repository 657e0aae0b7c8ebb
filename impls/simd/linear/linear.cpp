// The kernels of linear attention (linear.hpp). The state is d x d_v: its columns stand in the
// vector lanes, in chunks of up to three vectors, each chunk packed [head_dim][chunk]; phi(k) and
// phi(q) enter by broadcast.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/linear/linear.cpp"
#include "simd/targets.hpp"

// After targets.hpp, which says what foreach_target.h compiles.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "simd/ahead.hpp"
#include "simd/lanes-inl.hpp"
#include "simd/linear/linear.hpp"
#include "simd/sizes.hpp"

HWY_BEFORE_NAMESPACE();
namespace impls {
namespace HWY_NAMESPACE {

int64_t total_offset(const LinearSlice& s) {
  return round_up(pitch(s.head_dim) * columns(s.head_dim_v), 16);
}

int64_t state_floats(int64_t head_dim, int64_t head_dim_v) {
  return round_up(pitch(head_dim) * columns(head_dim_v), 16) + pitch(head_dim);
}

size_t scratch_of_linear(int64_t head_dim, int64_t head_dim_v) {
  const int64_t floats = kLinearTile * (pitch(head_dim) + pitch(head_dim_v));
  return static_cast<size_t>(round_up(4 * floats, 256));
}

HWY_INLINE Vector phi_lanes(Vector x) {
  const Floats d;
  return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Add(x, hn::Set(d, 1.0f)), exp_lanes(x));
}

/// target[c] = phi(source[c]) = elu(source[c]) + 1, c < head_dim; zeros up to the pitch.
template <class T>
HWY_INLINE void map_row(const T* source, int64_t head_dim, float* target) {
  const Floats d;
  int64_t c = 0;
  for (; c + kLanes <= head_dim; c += kLanes)
    hn::Store(phi_lanes(load_lanes(source + c)), d, target + c);
  if (c < head_dim) {
    HWY_ALIGN float rest[kLanes] = {};
    for (int64_t n = c; n < head_dim; ++n) rest[n - c] = widen(source[n]);
    hn::Store(phi_lanes(hn::Load(d, rest)), d, target + c);
  }
  for (c = head_dim; c < pitch(head_dim); ++c) target[c] = 0;
}

struct Values {  // rows of V as floats, whole vectors wide
  const float* data;
  int64_t stride;
};

/// Up to kLinearTile keys that count, from `j` on, as phi(k) [count][pitch] and v; moves j on. V
/// stays where it is if it can, and is fetched meanwhile.
template <class T>
int64_t load_keys(const LinearSlice& s, int64_t& j, int64_t end, float* phi, float* copy,
                  Values& values) {
  const T* const v = static_cast<const T*>(s.v);
  const int64_t wide = columns(s.head_dim_v);
  bool in_place = false;
  if constexpr (sizeof(T) == 4) {
    in_place = s.mask == nullptr && wide == s.head_dim_v;
    if (in_place) values = {v + j * s.v_stride, s.v_stride};
  }
  if (!in_place) values = {copy, wide};
  int64_t count = 0;
  for (; j < end && count < kLinearTile; ++j) {
    if (s.mask != nullptr && s.mask[j * s.mask_stride] == 0)
      continue;  // not even Inf or NaN of such a key may be seen
    map_row(static_cast<const T*>(s.k) + j * s.k_stride, s.head_dim,
            phi + count * pitch(s.head_dim));
    if (in_place) {
      Ahead::fetch_row(reinterpret_cast<const char*>(v + j * s.v_stride),
                       s.head_dim_v * static_cast<int64_t>(sizeof(T)));
    } else {
      float* const target = copy + count * wide;
      widen_row(v + j * s.v_stride, s.head_dim_v, 1.0f, target);
      for (int64_t c = s.head_dim_v; c < wide; ++c) target[c] = 0;
    }
    ++count;
  }
  return count;
}

template <class T>
void sum_keys(const LinearSlice& s, Range keys, float* state, float* scratch) {
  const Floats d;
  const int64_t stride = pitch(s.head_dim);
  float *const phi = scratch, *const copy = scratch + kLinearTile * stride,
               *const total = state + total_offset(s);
  std::memset(state, 0, static_cast<size_t>(state_floats(s.head_dim, s.head_dim_v)) * 4);
  for (int64_t j = keys.begin; j < keys.end;) {
    Values values;
    const int64_t count = load_keys<T>(s, j, keys.end, phi, copy, values);
    for (int64_t c = 0; c < stride; c += kLanes) {
      Vector sum = hn::Zero(d);
      for (int64_t n = 0; n < count; ++n) sum = hn::Add(sum, hn::Load(d, phi + n * stride + c));
      hn::Store(hn::Add(hn::Load(d, total + c), sum), d, total + c);
    }
    const T* const next = static_cast<const T*>(s.k) + j * s.k_stride;  // keys of the next tile
    const int64_t rest = keys.end - j;
    for_chunks(s.head_dim_v, [&](int64_t first, auto vectors) HWY_ATTR {
      constexpr int kWide = decltype(vectors)::value;
      for (int64_t c = 0; c < s.head_dim; c += kRows) {
        Vector acc[kRows][kWide];
        const auto fetch = [&](int64_t n) HWY_ATTR {
          if (n < rest) __builtin_prefetch(next + n * s.k_stride + c, 0, 2);
        };
        outer_tile<kWide, false>(phi + c, stride, values.data + first, values.stride, count, acc,
                                 fetch);
        for (int r = 0; r < kRows; ++r)
          for (int v = 0; v < kWide; ++v) {
            float* const at = state + stride * first + ((c + r) * kWide + v) * kLanes;
            hn::Store(hn::Add(hn::Load(d, at), acc[r][v]), d, at);
          }
      }
    });
  }
}

template <class T>
void read_queries(const LinearSlice& s, Range queries, const float* state, float* scratch) {
  const Floats d;
  const int64_t stride = pitch(s.head_dim), wide_o = pitch(s.head_dim_v);
  float *const phi = scratch, *const out = scratch + kLinearTile * stride;
  const float* const total = state + total_offset(s);
  for (int64_t begin = queries.begin; begin < queries.end; begin += kLinearTile) {
    const int64_t count = std::min(kLinearTile, queries.end - begin);
    float inverse[kLinearTile];
    const int64_t calls = ceil_div(count, kRows), next = begin + count;
    Ahead ahead;  // of the tile's O and the next tile's Q
    ahead.add<T>(s.o, s.o_stride, nullptr, {begin, next}, s.head_dim_v, calls);
    ahead.add<T>(s.q, s.q_stride, nullptr, {next, std::min(next + kLinearTile, queries.end)},
                 s.head_dim, calls);
    for (int64_t i = 0; i < count; ++i) {
      float* const row = phi + i * stride;
      map_row(static_cast<const T*>(s.q) + (begin + i) * s.q_stride, s.head_dim, row);
      if (s.query_mask != nullptr && s.query_mask[(begin + i) * s.query_mask_stride] == 0)
        std::memset(row, 0, static_cast<size_t>(stride) * 4);
      Vector sum = hn::Zero(d);
      for (int64_t c = 0; c < stride; c += kLanes)
        sum = hn::MulAdd(hn::Load(d, row + c), hn::Load(d, total + c), sum);
      inverse[i] = 1.0f / (hn::GetLane(hn::SumOfLanes(d, sum)) + s.eps);
    }
    for_chunks(s.head_dim_v, [&](int64_t first, auto vectors) HWY_ATTR {
      constexpr int kWide = decltype(vectors)::value;
      for (int64_t i = 0; i < count; i += kRows) {
        const float* row[kRows];  // rows beyond the last repeat it and are not stored
        for (int r = 0; r < kRows; ++r) row[r] = phi + std::min(i + r, count - 1) * stride;
        Vector acc[kRows][kWide];
        dot_tile<kWide>(row, state + stride * first, s.head_dim, acc);
        ahead.fetch();
        for (int r = 0; r < kRows; ++r)
          for (int v = 0; v < kWide && i + r < count; ++v)
            hn::Store(hn::Mul(acc[r][v], hn::Set(d, inverse[i + r])), d,
                      out + (i + r) * wide_o + first + v * kLanes);
      }
    });
    for (int64_t i = 0; i < count; ++i)
      narrow_row(out + i * wide_o, s.head_dim_v, static_cast<T*>(s.o) + (begin + i) * s.o_stride);
  }
}

void sum_keys_of(const LinearSlice& s, Range keys, float* state, void* memory) {
  float* const scratch = static_cast<float*>(memory);
  if (s.dtype == ATTEST_F32) return sum_keys<float>(s, keys, state, scratch);
  if (s.dtype == ATTEST_F16) return sum_keys<F16>(s, keys, state, scratch);
  sum_keys<Bf16>(s, keys, state, scratch);
}

void read_queries_of(const LinearSlice& s, Range queries, const float* state, void* memory) {
  float* const scratch = static_cast<float*>(memory);
  if (s.dtype == ATTEST_F32) return read_queries<float>(s, queries, state, scratch);
  if (s.dtype == ATTEST_F16) return read_queries<F16>(s, queries, state, scratch);
  read_queries<Bf16>(s, queries, state, scratch);
}

}  // namespace HWY_NAMESPACE
}  // namespace impls
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace impls {

HWY_EXPORT(state_floats);
int64_t linear_state_floats(int64_t head_dim, int64_t head_dim_v) {
  return HWY_DYNAMIC_DISPATCH(state_floats)(head_dim, head_dim_v);
}

HWY_EXPORT(scratch_of_linear);
size_t linear_scratch_bytes(int64_t head_dim, int64_t head_dim_v) {
  return HWY_DYNAMIC_DISPATCH(scratch_of_linear)(head_dim, head_dim_v);
}

HWY_EXPORT(sum_keys_of);
void sum_keys(const LinearSlice& slice, Range keys, float* state, void* scratch) {
  HWY_DYNAMIC_DISPATCH(sum_keys_of)(slice, keys, state, scratch);
}

HWY_EXPORT(read_queries_of);
void read_queries(const LinearSlice& slice, Range queries, const float* state, void* scratch) {
  HWY_DYNAMIC_DISPATCH(read_queries_of)(slice, queries, state, scratch);
}

}  // namespace impls
#endif
