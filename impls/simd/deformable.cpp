// The kernel of deformable attention (deformable.hpp). It takes a block of queries at a time: first
// the pixels and factors of all their points (deformable_points-inl.hpp), then, query by query, the
// sums over these.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/deformable.cpp"
#include "simd/targets.hpp"

// After targets.hpp, which says what foreach_target.h compiles.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "simd/deformable.hpp"
#include "simd/deformable_points-inl.hpp"
#include "simd/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace impls {
namespace HWY_NAMESPACE {

constexpr int64_t kWidest = 4;  // vectors of a row of V that are summed at once
// Sums of a channel, of which an addition waits for one: two where there are 16 registers.
constexpr int kSums = kRows == 8 ? 4 : 2;
// Queries are sorted by their places if V of one head has more bytes: they do not stay in an L2
// cache beside what else is read.
constexpr int64_t kSortedBytes = 256 * 1024;
constexpr int kBins = 16;  // of each axis

int64_t chain_of_deformable(const DeformableSlice& s) {
  const int64_t points = s.levels * s.points;
  return in_vectors(s) ? points * (4 / kSums) + kSums / 2 : 4 * points;
}

// --- Sums ---

/// Points of a block, by their numbers.
struct Chosen {
  const int32_t *begin, *end;
};

/// target[c] = the sum over the points, c < vectors * kLanes; v: of channel 0.
template <int vectors, class T>
HWY_INLINE void sum_vectors(const Block& b, Chosen points, const T* v, int64_t stride,
                            float* target) {
  const Floats d;
  Vector sum[kSums][vectors];
  for (int k = 0; k < kSums; ++k)
    for (int w = 0; w < vectors; ++w) sum[k][w] = hn::Zero(d);
  for (const int32_t* n = points.begin; n != points.end; ++n)
    for (int k = 0; k < 4; ++k) {
      const T* const pixel = v + int64_t{b.token[k * b.room + *n]} * stride;
      const Vector factor = hn::Set(d, b.factor[k * b.room + *n]);
      for (int w = 0; w < vectors; ++w)
        sum[k % kSums][w] = hn::MulAdd(factor, load_lanes(pixel + w * kLanes), sum[k % kSums][w]);
    }
  for (int w = 0; w < vectors; ++w) {
    for (int k = 0; k < kSums; k += 2) sum[k][w] = hn::Add(sum[k][w], sum[k + 1][w]);
    if (kSums == 4) sum[0][w] = hn::Add(sum[0][w], sum[kSums / 2][w]);
    hn::StoreU(sum[0][w], d, target + w * kLanes);
  }
}

/// All channels in vectors, the last of which overlaps the one before it.
template <class T>
HWY_INLINE void sum_channels(const Block& b, Chosen points, const T* v, int64_t stride,
                             int64_t channels) {
  int64_t c = 0;
  for (; c + kWidest * kLanes <= channels; c += kWidest * kLanes)
    sum_vectors<kWidest>(b, points, v + c, stride, b.sums + c);
  const int64_t vectors = (channels - c) / kLanes;
  if (vectors == 3) sum_vectors<3>(b, points, v + c, stride, b.sums + c);
  if (vectors == 2) sum_vectors<2>(b, points, v + c, stride, b.sums + c);
  if (vectors == 1) sum_vectors<1>(b, points, v + c, stride, b.sums + c);
  if (channels % kLanes == 0) return;
  c = channels - kLanes;
  sum_vectors<1>(b, points, v + c, stride, b.sums + c);
}

/// The same one by one: few channels, or channels apart.
template <class T>
void sum_singly(const Block& b, Chosen points, const T* v, const int64_t* stride,
                int64_t channels) {
  std::fill_n(b.sums, channels, 0.0f);
  for (const int32_t* n = points.begin; n != points.end; ++n)
    for (int k = 0; k < 4; ++k) {
      const T* const pixel = v + int64_t{b.token[k * b.room + *n]} * stride[0];
      const float factor = b.factor[k * b.room + *n];
      for (int64_t c = 0; c < channels; ++c) b.sums[c] += factor * widen(pixel[c * stride[1]]);
    }
}

// --- Queries ---

/// The queries in an order in which neighbours read pixels near one another: by the places of their
/// first points, in squares of the level, row by row, there and back. Null if they are in such an
/// order already, or V is so small that it does not matter.
const int32_t* sort_queries(const DeformableSlice& s, Range queries, const Block& b) {
  const int64_t count = queries.end - queries.begin;
  if (tokens_of(s) * s.channels * size_of(s.v_dtype) <= kSortedBytes) return nullptr;
  const auto bin_of = [](float location) {
    const float at = location * kBins;
    return at > 0 ? at < kBins ? static_cast<int>(at) : kBins - 1 : 0;  // NaN: 0
  };
  int32_t start[kBins * kBins + 1] = {};
  int64_t changes = 0;
  for (int64_t n = 0; n < count; ++n) {
    const int64_t at = (queries.begin + n) * s.location_stride[0];
    const int x = bin_of(element(s.location_dtype, s.locations, at)),
              y = bin_of(element(s.location_dtype, s.locations, at + s.location_stride[3]));
    b.bin[n] = y * kBins + (y % 2 == 0 ? x : kBins - 1 - x);
    changes += n > 0 && b.bin[n] != b.bin[n - 1];
    ++start[b.bin[n] + 1];
  }
  if (changes < count / 4) return nullptr;
  for (int n = 0; n < kBins * kBins; ++n) start[n + 1] += start[n];
  for (int64_t n = 0; n < count; ++n) b.order[start[b.bin[n]]++] = static_cast<int32_t>(n);
  return b.order;
}

template <class T>
const T* pack_rows(const DeformableSlice& s, T* packed) {
  constexpr int64_t kAhead = 16;  // rows
  const T* const v = static_cast<const T*>(s.v);
  const size_t bytes = static_cast<size_t>(s.channels) * sizeof(T);
  for (int64_t token = 0, end = tokens_of(s); token < end; ++token) {
    prefetch_row(v + std::min(token + kAhead, end - 1) * s.v_stride[0], bytes);
    std::memcpy(packed + token * s.channels, v + token * s.v_stride[0], bytes);
  }
  return packed;
}

template <class T>
void sample(const DeformableSlice& s, Range queries, float* memory) {
  Block b(s, queries.end - queries.begin, memory);
  b.set_levels(s);
  const Reader reader(s, b);
  const bool is_packed = packs_rows(s, queries.end - queries.begin);
  const T* const v =
      is_packed ? pack_rows(s, reinterpret_cast<T*>(b.packed)) : static_cast<const T*>(s.v);
  const int64_t row = is_packed ? s.channels : s.v_stride[0];
  const int32_t* const order = sort_queries(s, queries, b);
  const auto query = [&](int64_t n) {
    return queries.begin + (order == nullptr ? n : int64_t{order[n]});
  };
  const int64_t count = queries.end - queries.begin,
                ahead = std::max(b.queries, kPrefetchedPoints / b.query_points);
  for (int64_t begin = 0; begin < count; begin += b.queries) {
    const int64_t end = std::min(begin + b.queries, count);
    for (int64_t n = begin; n < end; ++n) {
      if (n + ahead < count) reader.prefetch(query(n + ahead));
      reader.read(query(n), n - begin);
    }
    const int32_t *next = b.inside, *const last =
                                        next + place_points(b, (end - begin) * b.query_points,
                                                            s.align_corners);
    for (int64_t n = begin; n < end; ++n) {
      const int32_t* const first = next;
      next = std::lower_bound(next, last, static_cast<int32_t>((n - begin + 1) * b.query_points));
      if (in_vectors(s))
        sum_channels(b, {first, next}, v, row, s.channels);
      else
        sum_singly(b, {first, next}, v, s.v_stride, s.channels);
      const int64_t at = query(n) * s.o_stride[0];
      if (s.o_dtype == ATTEST_F32) write_row<float>(b.sums, s.channels, s.o, at, s.o_stride[1]);
      if (s.o_dtype == ATTEST_F16) write_row<F16>(b.sums, s.channels, s.o, at, s.o_stride[1]);
      if (s.o_dtype == ATTEST_BF16) write_row<Bf16>(b.sums, s.channels, s.o, at, s.o_stride[1]);
    }
  }
}

void sample_of(const DeformableSlice& s, Range queries, void* memory) {
  float* const floats = static_cast<float*>(memory);
  if (s.v_dtype == ATTEST_F32) return sample<float>(s, queries, floats);
  if (s.v_dtype == ATTEST_F16) return sample<F16>(s, queries, floats);
  sample<Bf16>(s, queries, floats);
}

}  // namespace HWY_NAMESPACE
}  // namespace impls
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace impls {

HWY_EXPORT(scratch_of_deformable);
size_t deformable_scratch_bytes(const DeformableSlice& slice, int64_t queries) {
  return HWY_DYNAMIC_DISPATCH(scratch_of_deformable)(slice, queries);
}

HWY_EXPORT(chain_of_deformable);
int64_t deformable_sum_chain(const DeformableSlice& slice) {
  return HWY_DYNAMIC_DISPATCH(chain_of_deformable)(slice);
}

HWY_EXPORT(sample_of);
void sample_queries(const DeformableSlice& slice, Range queries, void* scratch) {
  HWY_DYNAMIC_DISPATCH(sample_of)(slice, queries, scratch);
}

}  // namespace impls
#endif
