// The kernel of deformable attention (deformable.hpp). It takes a block of queries at a time: first
// the pixels and factors of all their points (deformable_points-inl.hpp), then, query by query, the
// sums over these.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/deformable/deformable.cpp"
#include "simd/targets.hpp"

// After targets.hpp, which says what foreach_target.h compiles.
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "simd/deformable/deformable.hpp"
#include "simd/deformable/deformable_points-inl.hpp"
#include "simd/deformable/deformable_rows-inl.hpp"
#include "simd/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace impls {
namespace HWY_NAMESPACE {

constexpr int64_t kWidest = 4;  // vectors of a row of V that are summed at once
// Sums of a channel. An addition waits for the one before it in its own sum alone. There are two
// where there are 16 registers.
constexpr int kSums = kRows == 8 ? 4 : 2;
// Queries are sorted by their places if V of the head has more bytes: an L2 cache keeps fewer of
// them beside what else is read.
constexpr int64_t kSortedBytes = 384 * 1024;
constexpr int kBins = 32;  // of each axis

int64_t chain_of_deformable(const DeformableSlice& s) {
  return in_vectors(s) ? s.levels * s.points * (4 / kSums) + kSums / 2 : 4 * s.levels * s.points;
}

// --- Sums ---

/// The points begin .. end - 1 of a block.
struct Points {
  const Spots* spots;
  int64_t begin, end;
};
/// V of a head from one channel on: its rows, the bytes from one to the next, and a row of zeros.
/// If it is packed, the zeros come before the rows.
struct Pixels {
  const char *rows, *zeros;
  int64_t stride;
  template <bool packed>
  HWY_INLINE const char* at(int32_t token) const {
    return !packed && token == kNoPixel ? zeros : rows + token * stride;
  }
  Pixels from(int64_t bytes) const { return {rows + bytes, zeros, stride}; }
};

/// Loads the channels of a pixel. Of bf16, two vectors have the even and the odd channels of a pair
/// of vectors, so that no permutation is needed.
template <int vectors, class T>
HWY_INLINE void load_pixel(const T* pixel, Vector (&values)[vectors]) {
  for (int w = 0; w < vectors; ++w) values[w] = load_lanes(pixel + w * kLanes);
}
template <int vectors>
HWY_INLINE void load_pixel(const Bf16* pixel, Vector (&values)[vectors]) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> word;
  for (int w = 0; w + 1 < vectors; w += 2) {
    const auto pairs = hn::LoadU(word, reinterpret_cast<const uint32_t*>(pixel + w * kLanes));
    values[w] = hn::BitCast(d, hn::ShiftLeft<16>(pairs));
    values[w + 1] = hn::BitCast(d, hn::And(pairs, hn::Set(word, 0xffff0000u)));
  }
  if (vectors % 2 == 1) values[vectors - 1] = load_lanes(pixel + (vectors - 1) * kLanes);
}
/// Writes sums of such channels in the order of the channels.
template <class T, int vectors>
HWY_INLINE void store_channels(Vector (&sum)[vectors], float* target) {
  const Floats d;
  for (int w = 0; w < vectors; ++w) {
    HWY_ALIGN float ordered[2 * kLanes];
    if (std::is_same<T, Bf16>::value && w + 1 < vectors && w % 2 == 0) {
      store_pairs(sum[w], sum[w + 1], ordered);
      sum[w] = hn::Load(d, ordered);
      sum[w + 1] = hn::Load(d, ordered + kLanes);
    }
    hn::StoreU(sum[w], d, target + w * kLanes);
  }
}

/// target[c] = the sum over the points, c < vectors * kLanes.
template <bool packed, int vectors, class T>
HWY_INLINE void sum_vectors(Points points, Pixels v, float* target) {
  const Floats d;
  Vector sum[kSums][vectors];
  for (int k = 0; k < kSums; ++k)
    for (int w = 0; w < vectors; ++w) sum[k][w] = hn::Zero(d);
  for (int64_t n = points.begin; n < points.end; ++n) {
    const Spots& spots = points.spots[n / kLanes];
    const int64_t lane = n % kLanes;
    for (int k = 0; k < 4; ++k) {
      const Vector factor = hn::Set(d, spots.factor[k][lane]);
      Vector values[vectors];
      load_pixel<vectors>(reinterpret_cast<const T*>(v.at<packed>(spots.token[k][lane])), values);
      for (int w = 0; w < vectors; ++w)
        sum[k % kSums][w] = hn::MulAdd(factor, values[w], sum[k % kSums][w]);
    }
  }
  for (int w = 0; w < vectors; ++w) {
    for (int k = 0; k < kSums; k += 2) sum[k][w] = hn::Add(sum[k][w], sum[k + 1][w]);
    if (kSums == 4) sum[0][w] = hn::Add(sum[0][w], sum[kSums / 2][w]);
  }
  store_channels<T, vectors>(sum[0], target);
}

/// All channels in vectors. The last one may have channels that the vectors before it have too:
/// they get the same sums again.
template <bool packed, class T>
HWY_INLINE void sum_channels(Points points, Pixels v, int64_t channels, float* target) {
  constexpr int64_t kSize = sizeof(T);
  int64_t c = 0;
  for (; c + kWidest * kLanes <= channels; c += kWidest * kLanes)
    sum_vectors<packed, kWidest, T>(points, v.from(c * kSize), target + c);
  const int64_t vectors = (channels - c) / kLanes;
  if (vectors == 3) sum_vectors<packed, 3, T>(points, v.from(c * kSize), target + c);
  if (vectors == 2) sum_vectors<packed, 2, T>(points, v.from(c * kSize), target + c);
  if (vectors == 1) sum_vectors<packed, 1, T>(points, v.from(c * kSize), target + c);
  if (channels % kLanes == 0) return;
  c = channels - kLanes;
  sum_vectors<packed, 1, T>(points, v.from(c * kSize), target + c);
}

/// The same one by one: few channels, or channels apart.
template <class T>
void sum_singly(const DeformableSlice& s, Points points, float* target) {
  std::fill_n(target, s.channels, 0.0f);
  for (int64_t n = points.begin; n < points.end; ++n)
    for (int k = 0; k < 4; ++k) {
      const int32_t token = points.spots[n / kLanes].token[k][n % kLanes];
      if (token == kNoPixel) continue;
      const float factor = points.spots[n / kLanes].factor[k][n % kLanes];
      const T* const pixel = static_cast<const T*>(s.v) + token * s.v_stride[0];
      for (int64_t c = 0; c < s.channels; ++c)
        target[c] += factor * widen(pixel[c * s.v_stride[1]]);
    }
}

// --- Queries ---

/// Counts the queries of each bin: a square of the level, by the location of the first point. The
/// bins go row by row, there and back. Returns how often neighbouring queries have different bins.
template <class T>
int64_t count_bins(const DeformableSlice& s, Range queries, int32_t* bin, int32_t* start) {
  constexpr int64_t kAhead = 16;  // queries
  const auto along = [](float location) {
    const float at = location * kBins;
    return at > 0 ? at < kBins ? static_cast<int>(at) : kBins - 1 : 0;  // NaN: 0
  };
  const T* const locations = static_cast<const T*>(s.locations);
  int64_t changes = 0;
  int32_t last = 0;
  for (int64_t i = queries.begin; i < queries.end; ++i) {
    hwy::Prefetch(locations + std::min(i + kAhead, queries.end - 1) * s.location_stride[0]);
    const T* const location = locations + i * s.location_stride[0];
    const int x = along(widen(location[0])), y = along(widen(location[s.location_stride[3]]));
    const int32_t at = y * kBins + (y % 2 == 0 ? x : kBins - 1 - x);
    changes += at != last;
    last = *bin++ = at;
    ++start[at];
  }
  return changes;
}

/// Puts the queries into `b.order`. If V is so large that it matters, neighbours then read pixels
/// near one another.
void sort_queries(const DeformableSlice& s, Range queries, const Block& b) {
  const int64_t count = queries.end - queries.begin;
  int32_t start[kBins * kBins + 1] = {};
  int64_t changes = 0;
  if (tokens_of(s) * s.channels * size_of(s.v_dtype) > kSortedBytes)
    changes = s.location_dtype == ATTEST_F32   ? count_bins<float>(s, queries, b.bin, start + 1)
              : s.location_dtype == ATTEST_F16 ? count_bins<F16>(s, queries, b.bin, start + 1)
                                               : count_bins<Bf16>(s, queries, b.bin, start + 1);
  const bool sorts = changes > count / 4;  // else they are in such an order already
  for (int n = 0; n < kBins * kBins; ++n) start[n + 1] += start[n];
  for (int64_t n = 0; n < count; ++n)
    b.order[sorts ? start[b.bin[n]]++ : n] = static_cast<int32_t>(queries.begin + n);
}

/// Writes the rows of O of the first `count` queries of the block.
template <bool packed, class T>
void write_rows(const DeformableSlice& s, const Block& b, Pixels v, const int32_t* query,
                int64_t count) {
  constexpr int64_t kAhead = 4;  // queries
  const bool in_o = has_dense_floats(s);
  for (int64_t n = 0; n < count; ++n) {
    prefetch_row(s, query[std::min(n + kAhead, count - 1)]);
    const Points points{b.spots, n * b.query_points, (n + 1) * b.query_points};
    float* const target = in_o ? static_cast<float*>(s.o) + query[n] * s.o_stride[0] : b.sums;
    if (in_vectors(s))
      sum_channels<packed, T>(points, v, s.channels, target);
    else
      sum_singly<T>(s, points, target);
    if (!in_o) write_row(s, query[n], target);
  }
}

/// Where V is read from: where it lies, or `packed`, which begins with a row of zeros.
template <class T>
Pixels pixels_of(const DeformableSlice& s, bool packs, T* packed) {
  constexpr int64_t kSize = sizeof(T);
  const char* const zeros = reinterpret_cast<const char*>(packed);
  std::fill_n(packed, s.channels, T());
  if (!packs) return {static_cast<const char*>(s.v), zeros, s.v_stride[0] * kSize};
  pack_rows(s, packed + s.channels);
  return {zeros + s.channels * kSize, zeros, s.channels * kSize};
}

template <class T>
void sample(const DeformableSlice& s, Range queries, float* memory) {
  const int64_t all = queries.end - queries.begin;
  Block b(s, all, memory);
  b.set_levels(s);
  const OfPoints locations(s, s.locations, s.location_dtype, s.location_stride, 2),
      weights(s, s.weights, s.weight_dtype, s.weight_stride, 1);
  sort_queries(s, queries, b);
  const bool packs = packs_rows(s, all);
  const Pixels v = pixels_of(s, packs, reinterpret_cast<T*>(b.packed_v));
  for (int64_t first = 0; first < all; first += b.queries) {
    const int32_t* const query = b.order + first;
    const int64_t count = std::min(b.queries, all - first);
    locations.read(query, count, b.locations);
    weights.read(query, count, b.weights);
    place_points(b, count, s.align_corners);
    // Those of the next block
    for (int64_t n = count; n < std::min(2 * count, all - first); ++n) {
      locations.prefetch(query[n]);
      weights.prefetch(query[n]);
    }
    if (packs)
      write_rows<true, T>(s, b, v, query, count);
    else
      write_rows<false, T>(s, b, v, query, count);
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
