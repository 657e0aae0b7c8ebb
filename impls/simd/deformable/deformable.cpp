// The kernel of deformable attention (deformable.hpp). It takes a block of queries at a time: first
// the pixels and factors of all their points (deformable_points-inl.hpp), then, level by level and
// query by query, the sums over these.
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
// Sums of a channel, of which an addition waits for one: two where there are 16 registers.
constexpr int kSums = kRows == 8 ? 4 : 2;
// Queries are sorted by their places if V of one head has more bytes: an L2 cache keeps fewer of
// them beside what else is read.
constexpr int64_t kSortedBytes = 256 * 1024;
constexpr int kBins = 32;  // of each axis

int64_t chain_of_deformable(const DeformableSlice& s) {
  return in_vectors(s) ? s.points * (4 / kSums) + kSums / 2 + s.levels : 4 * s.levels * s.points;
}

// --- Sums ---

/// Points of a block: begin .. end - 1, or those numbers of a list.
struct Chosen {
  int64_t begin, end;
  const int32_t* list;  // null, if V is packed: the numbers themselves
};
/// Elements from a pixel to the next one, and to the one below it; the latter if V is packed.
struct Steps {
  int64_t right, down;
};

/// The channels of a pixel, of which neighbours in pairs of vectors of bf16 lie in both vectors: so
/// they need no permutation.
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
/// Adds sums of such channels to `target`, in the order of the channels.
template <class T, int vectors>
HWY_INLINE void add_channels(Vector (&sum)[vectors], float* target) {
  const Floats d;
  for (int w = 0; w < vectors; ++w) {
    HWY_ALIGN float ordered[2 * kLanes];
    if (std::is_same<T, Bf16>::value && w + 1 < vectors && w % 2 == 0) {
      store_pairs(sum[w], sum[w + 1], ordered);
      sum[w] = hn::Load(d, ordered), sum[w + 1] = hn::Load(d, ordered + kLanes);
    }
    hn::StoreU(hn::Add(hn::LoadU(d, target + w * kLanes), sum[w]), d, target + w * kLanes);
  }
}

template <class T>
HWY_INLINE const T* pixel_at(const Block& b, const T* v, int64_t token, int64_t stride) {
  return token == kNoPixel ? reinterpret_cast<const T*>(b.zero_pixel) : v + token * stride;
}

/// target[c] += the sum over the points, c < vectors * kLanes; v: of channel 0.
template <bool packed, int vectors, class T>
HWY_INLINE void sum_vectors(const Block& b, Chosen points, const T* v, Steps steps, float* target) {
  const Floats d;
  Vector sum[kSums][vectors];
  for (int k = 0; k < kSums; ++k)
    for (int w = 0; w < vectors; ++w) sum[k][w] = hn::Zero(d);
  for (int64_t n = points.begin; n < points.end; ++n) {
    const int64_t point = packed ? n : points.list[n];
    const T* const first = packed ? v + int64_t{b.token[point]} * steps.right : v;
    for (int k = 0; k < 4; ++k) {
      const T* const pixel = packed ? first + k % 2 * steps.right + k / 2 * steps.down
                                    : pixel_at(b, v, b.token[k * b.room + point], steps.right);
      const Vector factor = hn::Set(d, b.factor[k * b.room + point]);
      Vector values[vectors];
      load_pixel<vectors>(pixel, values);
      for (int w = 0; w < vectors; ++w)
        sum[k % kSums][w] = hn::MulAdd(factor, values[w], sum[k % kSums][w]);
    }
  }
  for (int w = 0; w < vectors; ++w) {
    for (int k = 0; k < kSums; k += 2) sum[k][w] = hn::Add(sum[k][w], sum[k + 1][w]);
    if (kSums == 4) sum[0][w] = hn::Add(sum[0][w], sum[kSums / 2][w]);
  }
  add_channels<T, vectors>(sum[0], target);
}

/// All channels in vectors. Those of the last one that the vectors before it have too are added
/// apart.
template <bool packed, class T>
HWY_INLINE void sum_channels(const Block& b, Chosen points, const T* v, Steps steps,
                             int64_t channels, float* target) {
  int64_t c = 0;
  for (; c + kWidest * kLanes <= channels; c += kWidest * kLanes)
    sum_vectors<packed, kWidest>(b, points, v + c, steps, target + c);
  const int64_t vectors = (channels - c) / kLanes;
  if (vectors == 3) sum_vectors<packed, 3>(b, points, v + c, steps, target + c);
  if (vectors == 2) sum_vectors<packed, 2>(b, points, v + c, steps, target + c);
  if (vectors == 1) sum_vectors<packed, 1>(b, points, v + c, steps, target + c);
  const int64_t rest = channels % kLanes;
  if (rest == 0) return;
  HWY_ALIGN float last[kLanes] = {};
  sum_vectors<packed, 1>(b, points, v + channels - kLanes, steps, last);
  for (int64_t n = 0; n < rest; ++n) target[channels - rest + n] += last[kLanes - rest + n];
}

/// The same one by one: few channels, or channels apart.
template <class T>
void sum_singly(const Block& b, Chosen points, const T* v, const int64_t* stride, int64_t channels,
                float* target) {
  for (int64_t n = points.begin; n < points.end; ++n)
    for (int k = 0; k < 4; ++k) {
      const int64_t at = k * b.room + points.list[n];
      if (b.token[at] == kNoPixel) continue;
      const T* const pixel = v + int64_t{b.token[at]} * stride[0];
      const float factor = b.factor[at];
      for (int64_t c = 0; c < channels; ++c) target[c] += factor * widen(pixel[c * stride[1]]);
    }
}

// --- Queries ---

/// The queries in an order in which neighbours read pixels near one another: by the places of their
/// first points, in squares of the level, row by row, there and back. Null if they are in such an
/// order already, or V is so small that it does not matter.
const int32_t* sort_queries(const DeformableSlice& s, Range queries, const Block& b) {
  constexpr int64_t kAhead = 16;  // queries
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
    const int64_t later = queries.begin + std::min(n + kAhead, count - 1);
    hwy::Prefetch(address(s.locations, s.location_dtype, later * s.location_stride[0]));
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

void write_query(const DeformableSlice& s, int64_t i, const float* sums) {
  const int64_t at = i * s.o_stride[0], stride = s.o_stride[1];
  if (s.o_dtype == ATTEST_F32) return write_row<float>(sums, s.channels, s.o, at, stride);
  if (s.o_dtype == ATTEST_F16) return write_row<F16>(sums, s.channels, s.o, at, stride);
  write_row<Bf16>(sums, s.channels, s.o, at, stride);
}

/// `packed`: V is copied together first.
template <bool packed, class T>
void sample(const DeformableSlice& s, Range queries, float* memory) {
  Block b(s, queries.end - queries.begin, memory);
  b.set_levels(s);
  const Reader reader(s, b);
  const T* const v =
      packed ? pack_rows(s, reinterpret_cast<T*>(b.packed_v)) : static_cast<const T*>(s.v);
  const int32_t* const order = sort_queries(s, queries, b);
  const auto query = [&](int64_t n) {
    return queries.begin + (order == nullptr ? n : int64_t{order[n]});
  };
  const int64_t count = queries.end - queries.begin;
  for (int64_t first = 0; first < count; first += b.queries) {
    const int64_t end = std::min(first + b.queries, count);
    for (int64_t n = first; n < end; ++n) reader.read(query(n), n - first);
    place_queries<packed>(b, end - first, s);
    std::fill_n(b.sums, (end - first) * s.channels, 0.0f);
    // Level by level: the queries of a block read pixels near one another.
    for (int64_t level = 0; level < s.levels; ++level) {
      const Steps steps = packed ? Steps{s.channels, (s.width[level] + 2 * kEdge) * s.channels}
                                 : Steps{s.v_stride[0], 0};
      for (int64_t n = first; n < end; ++n) {
        if (level == 0 && n + b.queries < count) reader.prefetch(query(n + b.queries));
        const int64_t part = (n - first) * s.levels + level;
        const Chosen points = packed ? Chosen{part * s.points, (part + 1) * s.points, nullptr}
                                     : Chosen{b.begin[part], b.begin[part + 1], b.inside};
        float* const target = b.sums + (n - first) * s.channels;
        if (packed || in_vectors(s))
          sum_channels<packed>(b, points, v, steps, s.channels, target);
        else
          sum_singly(b, points, v, s.v_stride, s.channels, target);
      }
    }
    for (int64_t n = first; n < end; ++n)
      write_query(s, query(n), b.sums + (n - first) * s.channels);
  }
}

template <class T>
void sample(const DeformableSlice& s, Range queries, float* memory) {
  if (packs_rows(s, queries.end - queries.begin)) return sample<true, T>(s, queries, memory);
  sample<false, T>(s, queries, memory);
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
