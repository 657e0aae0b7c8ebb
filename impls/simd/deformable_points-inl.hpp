// The points of a block of queries of deformable attention: their locations and weights are read,
// and from them come the four pixels of each point that lies inside its level, with their factors.
// Compiled once a Highway target; include it after foreach_target.h.
//
// Where a pixel lies outside of its level, the pixel beside it takes half of its own factor twice.
// So a point has four pixels, and touches each of them. A point outside reads zeros, if V is packed
// and has a row of them, so that all queries have equally many points; else it is left out.
#if defined(ATTEST_IMPLS_DEFORMABLE_POINTS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEST_IMPLS_DEFORMABLE_POINTS_INL_HPP
#undef ATTEST_IMPLS_DEFORMABLE_POINTS_INL_HPP
#else
#define ATTEST_IMPLS_DEFORMABLE_POINTS_INL_HPP
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "simd/deformable_slice.hpp"
#include "simd/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace impls {
namespace HWY_NAMESPACE {

// Points and queries of a block, if one query has no more points: so many that pixels of a level
// are read again while they are in the L1 cache, so few that what is known of the points is not
// far.
constexpr int64_t kBlockPoints = 1024, kBlockQueries = 64;
constexpr size_t kLineBytes = 64;

using Integers = hn::RebindToSigned<Floats>;

inline int64_t padded(int64_t n) { return (n + 15) / 16 * 16; }

inline int64_t size_of(int32_t dtype) { return dtype == ATTEST_F32 ? 4 : 2; }
inline int64_t tokens_of(const DeformableSlice& s) {
  int64_t tokens = 0;
  for (int64_t level = 0; level < s.levels; ++level)
    tokens += int64_t{s.width[level]} * s.height[level];
  return tokens;
}

/// Whether vectors of channels are summed; else one channel after another.
inline bool in_vectors(const DeformableSlice& s) {
  return s.channels >= kLanes && (s.v_stride[1] == 1 || s.channels == 1);
}

/// Whether the rows of V are copied together first. Where heads lie between them, a power of two
/// apart, they would share a few sets of a cache. It pays if each row is read some times.
inline bool packs_rows(const DeformableSlice& s, int64_t queries) {
  constexpr int64_t kLeastReads = 2;
  return in_vectors(s) && s.v_stride[0] != s.channels &&
         4 * queries * s.levels * s.points >= kLeastReads * tokens_of(s);
}

/// What one thread keeps of a block of queries. An entry of an array is of one point; the queries
/// stand one after another.
struct Block {
  int64_t query_points, queries;  // points of a query, queries of a block
  int64_t room;                   // points of a block, up to whole vectors
  // Of a point's level, [room]: what a location is multiplied with, and pixels
  float *scale_x, *scale_y, *width, *height;
  int32_t *row_tokens, *first;  // [room]: tokens of a row of pixels; the level's first token
  float *locations, *weights;   // [room, 2], [room]
  // [4, room]: of the pixels upper left, upper right, lower left, lower right
  float* factor;
  int32_t* token;
  int32_t* inside;       // [room + 16]: the points that lie inside their levels, ascending
  int32_t* begin;        // [queries * levels + 1]: in `inside`, of the points of a query in a level
  float* sums;           // [queries, channels]
  int32_t *bin, *order;  // [queries of a call]
  float* packed;     // V of the head, its rows one after another: [tokens, channels] of V's dtype
  int64_t size = 0;  // floats of all arrays

  /// Lays the arrays out from `memory` on, which may be null.
  Block(const DeformableSlice& s, int64_t queries_of_call, float* memory)
      : query_points(s.levels * s.points),
        queries(std::clamp<int64_t>(kBlockPoints / query_points, 1, kBlockQueries)),
        room(padded(queries * query_points)) {
    const auto floats = [&](int64_t count) {
      float* const at = memory == nullptr ? nullptr : memory + size;
      size += padded(count);
      return at;
    };
    const auto integers = [&](int64_t count) { return reinterpret_cast<int32_t*>(floats(count)); };
    scale_x = floats(room), scale_y = floats(room), width = floats(room), height = floats(room);
    row_tokens = integers(room), first = integers(room);
    locations = floats(2 * room), weights = floats(room), factor = floats(4 * room);
    token = integers(4 * room), inside = integers(room + 16), sums = floats(queries * s.channels);
    begin = integers(queries * s.levels + 1);
    bin = integers(queries_of_call), order = integers(queries_of_call);
    packed = floats(packs_rows(s, queries_of_call)
                        ? (tokens_of(s) + 1) * s.channels * size_of(s.v_dtype) / 4 + 1
                        : 0);
  }

  void set_levels(const DeformableSlice& s) {
    for (int64_t n = 0; n < room; ++n) {
      const int64_t level = n % query_points / s.points;
      const int32_t across = s.width[level], down = s.height[level], less = s.align_corners ? 1 : 0;
      scale_x[n] = static_cast<float>(across - less), scale_y[n] = static_cast<float>(down - less);
      width[n] = static_cast<float>(across), height[n] = static_cast<float>(down);
      row_tokens[n] = across;
      first[n] = level == 0 || n % query_points == 0 ? 0 : first[n - 1];
      if (level > 0 && n % query_points % s.points == 0)
        first[n] += s.width[level - 1] * s.height[level - 1];
    }
  }
};

inline size_t scratch_of_deformable(const DeformableSlice& s, int64_t queries) {
  return (static_cast<size_t>(Block(s, queries, nullptr).size) * 4 + 255) / 256 * 256;
}

// --- Reading and writing of rows ---

inline const char* address(const void* data, int32_t dtype, int64_t element) {
  return static_cast<const char*>(data) + element * size_of(dtype);
}

HWY_INLINE void prefetch_row(const void* row, size_t bytes) {
  const char* const at = static_cast<const char*>(row);
  for (size_t n = 0; n < bytes; n += kLineBytes) hwy::Prefetch(at + n);
  hwy::Prefetch(at + bytes - 1);
}

/// A vector of elements as floats, in lanes as D has them.
template <class D>
HWY_INLINE hn::Vec<D> load_as(D d, const float* source) {
  return hn::LoadU(d, source);
}
template <class D>
HWY_INLINE hn::Vec<D> load_as(D d, const Bf16* source) {
  const hn::Rebind<uint16_t, D> half;
  const hn::RebindToUnsigned<D> word;
  const auto raw = hn::LoadU(half, reinterpret_cast<const uint16_t*>(source));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(word, raw)));
}
template <class D>
HWY_INLINE hn::Vec<D> load_as(D d, const F16* source) {
#if ATTEST_IMPLS_F16_LANES
  const hn::Rebind<hwy::float16_t, D> half;
  return hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(source)));
#else
  HWY_ALIGN float wide[hn::MaxLanes(D())];
  for (size_t l = 0; l < hn::MaxLanes(D()); ++l) wide[l] = widen(source[l]);
  return hn::Load(d, wide);
#endif
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

/// The locations and weights of queries, read into a block.
class Reader {
 public:
  Reader(const DeformableSlice& s, Block& block) : s_(s), block_(block) {
    const auto are_dense = [](int64_t stride, int64_t dim, int64_t dense) {
      return dim == 1 || stride == dense;
    };
    dense_locations_ = s.location_stride[3] == 1 && are_dense(s.location_stride[2], s.points, 2) &&
                       are_dense(s.location_stride[1], s.levels, 2 * s.points);
    dense_weights_ = are_dense(s.weight_stride[2], s.points, 1) &&
                     are_dense(s.weight_stride[1], s.levels, s.points);
  }

  /// Query i, as number `slot` of the block.
  void read(int64_t i, int64_t slot) const {
    const int64_t count = block_.query_points, at = i * s_.location_stride[0],
                  weight_at = i * s_.weight_stride[0];
    float *const locations = block_.locations + 2 * slot * count, *const weights =
                                                                      block_.weights + slot * count;
    if (dense_locations_)
      read_row(s_.locations, s_.location_dtype, at, 2 * count, locations);
    else
      for (int64_t n = 0; n < 2 * count; ++n)
        locations[n] =
            element(s_.location_dtype, s_.locations,
                    at + n / 2 / s_.points * s_.location_stride[1] +
                        n / 2 % s_.points * s_.location_stride[2] + n % 2 * s_.location_stride[3]);
    if (dense_weights_)
      read_row(s_.weights, s_.weight_dtype, weight_at, count, weights);
    else
      for (int64_t n = 0; n < count; ++n)
        weights[n] = element(
            s_.weight_dtype, s_.weights,
            weight_at + n / s_.points * s_.weight_stride[1] + n % s_.points * s_.weight_stride[2]);
  }

  void prefetch(int64_t i) const {
    if (dense_locations_)
      prefetch_elements(s_.locations, s_.location_dtype, i * s_.location_stride[0],
                        2 * block_.query_points);
    if (dense_weights_)
      prefetch_elements(s_.weights, s_.weight_dtype, i * s_.weight_stride[0], block_.query_points);
  }

 private:
  static void prefetch_elements(const void* data, int32_t dtype, int64_t first, int64_t count) {
    prefetch_row(address(data, dtype, first), static_cast<size_t>(count * size_of(dtype)));
  }

  const DeformableSlice& s_;
  Block& block_;
  bool dense_locations_, dense_weights_;
};

// --- Points ---

/// Where points lie along one axis: the pixels before and after, and their factors.
struct Axis {
  Vector before, after, before_factor, after_factor;
};
HWY_INLINE Axis place_on_axis(Vector at, Vector pixels) {
  const Floats d;
  const Vector zero = hn::Zero(d), one = hn::Set(d, 1.0f);
  const Vector below = hn::Floor(at), fraction = hn::Sub(at, below), rest = hn::Sub(one, fraction);
  const auto is_first = hn::Lt(below, zero), is_last = hn::Ge(hn::Add(below, one), pixels);
  const Vector half = hn::Mul(hn::Set(d, 0.5f), hn::IfThenElse(is_first, fraction, rest));
  const auto is_single = hn::Or(is_first, is_last);
  return {hn::IfThenElse(is_first, zero, below),
          hn::IfThenElse(is_last, hn::Sub(pixels, one), hn::Add(below, one)),
          hn::IfThenElse(is_single, half, rest), hn::IfThenElse(is_single, half, fraction)};
}

/// Finds pixels and factors of the block's first `count` points. If `packed`, points outside have
/// the row of zeros, number `zeros`; else those inside are listed. Returns how many are listed.
template <bool packed>
HWY_INLINE int64_t place_points(const Block& b, int64_t count, bool align_corners, int32_t zeros) {
  const Floats d;
  const Integers number;
  const Vector edge = hn::Set(d, align_corners ? 0.0f : 0.5f), outside = hn::Set(d, -1.0f);
  for (int64_t n = 2 * count; n < 2 * padded(count); ++n)
    b.locations[n] = std::numeric_limits<float>::quiet_NaN();  // lies nowhere
  int64_t listed = 0;
  for (int64_t n = 0; n < count; n += kLanes) {
    Vector x, y;
    hn::LoadInterleaved2(d, b.locations + 2 * n, x, y);
    x = hn::MulSub(x, hn::Load(d, b.scale_x + n), edge);
    y = hn::MulSub(y, hn::Load(d, b.scale_y + n), edge);
    const Vector width = hn::Load(d, b.width + n), height = hn::Load(d, b.height + n);
    const auto is_inside = hn::And(hn::And(hn::Gt(x, outside), hn::Lt(x, width)),
                                   hn::And(hn::Gt(y, outside), hn::Lt(y, height)));
    if constexpr (!packed) {
      const auto lane = hn::Iota(number, static_cast<int32_t>(n));
      hn::StoreU(hn::Compress(lane, hn::RebindMask(number, is_inside)), number, b.inside + listed);
      listed += static_cast<int64_t>(hn::CountTrue(d, is_inside));
    }
    const Axis across = place_on_axis(x, width), down = place_on_axis(y, height);
    const Vector weight = hn::Load(d, b.weights + n);
    const auto row_tokens = hn::Load(number, b.row_tokens + n),
               first = hn::Load(number, b.first + n);
    const auto store = [&](int64_t pixel, Vector row, Vector column, Vector row_factor,
                           Vector column_factor) HWY_ATTR {
      auto token = hn::Add(hn::Add(hn::Mul(hn::ConvertTo(number, row), row_tokens), first),
                           hn::ConvertTo(number, column));
      Vector factor = hn::Mul(hn::Mul(weight, row_factor), column_factor);
      if constexpr (packed) {
        token = hn::IfThenElse(hn::RebindMask(number, is_inside), token, hn::Set(number, zeros));
        factor = hn::IfThenElseZero(is_inside, factor);
      }
      hn::Store(token, number, b.token + pixel * b.room + n);
      hn::Store(factor, d, b.factor + pixel * b.room + n);
    };
    store(0, down.before, across.before, down.before_factor, across.before_factor);
    store(1, down.before, across.after, down.before_factor, across.after_factor);
    store(2, down.after, across.before, down.after_factor, across.before_factor);
    store(3, down.after, across.after, down.after_factor, across.after_factor);
  }
  return listed;
}

/// Places the points of the block's first `queries` queries. Those listed are counted by query and
/// level.
template <bool packed>
inline void place_queries(const Block& b, int64_t queries, const DeformableSlice& s,
                          int32_t zeros) {
  const int64_t listed = place_points<packed>(b, queries * b.query_points, s.align_corners, zeros);
  if (packed) return;
  b.begin[0] = 0;
  for (int64_t part = 1, next = 0; part <= queries * s.levels; ++part) {
    while (next < listed && b.inside[next] < part * s.points) ++next;
    b.begin[part] = static_cast<int32_t>(next);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace impls
HWY_AFTER_NAMESPACE();
#endif
