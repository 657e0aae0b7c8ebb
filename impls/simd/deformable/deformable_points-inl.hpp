// The points of a block of queries of deformable attention. From the location and the weight of a
// point come its four pixels and their factors. Compiled once a Highway target; include it after
// foreach_target.h.
//
// A point outside of its level gets pixels of zeros. Where one of two neighbouring pixels lies
// outside, the other one stands for both, and each has half of its factor, which is exact. So no
// pixel is read that the point does not touch.
#if defined(ATTEST_IMPLS_DEFORMABLE_POINTS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEST_IMPLS_DEFORMABLE_POINTS_INL_HPP
#undef ATTEST_IMPLS_DEFORMABLE_POINTS_INL_HPP
#else
#define ATTEST_IMPLS_DEFORMABLE_POINTS_INL_HPP
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "simd/deformable/deformable_rows-inl.hpp"
#include "simd/deformable/deformable_slice.hpp"
#include "simd/lanes-inl.hpp"
#include "simd/sizes.hpp"

HWY_BEFORE_NAMESPACE();
namespace impls {
namespace HWY_NAMESPACE {

// Points and queries of a block, unless one query has more points. Their spots and factors fit into
// a part of the L2 cache.
constexpr int64_t kBlockPoints = 2048, kBlockQueries = 128;

using Integers = hn::RebindToSigned<Floats>;

inline int64_t padded(int64_t n) { return round_up(n, 16); }

// The token of the pixels of a point outside of its level, which stands for zeros.
constexpr int32_t kNoPixel = -1;

/// The pixels of kLanes points, upper left, upper right, lower left and lower right, and their
/// factors.
struct Spots {
  int32_t token[4][kLanes];
  float factor[4][kLanes];
};

/// What one thread keeps of a block of queries. An entry of an array is of one point; the queries
/// stand one after another.
struct Block {
  int64_t query_points, queries;  // points of a query, queries of a block
  int64_t room;                   // points of a block, with whole vectors to spare
  // Of the levels of a query's points, and of some that follow, [query_points + kLanes]: what a
  // location is multiplied with; pixels
  float *scale_x, *scale_y, *width, *height;
  int32_t *first, *across;     // the same: the token of the level's first pixel; width
  float *locations, *weights;  // [room, 2], [room]
  Spots* spots;                // [room / kLanes]
  float* sums;                 // [channels]
  int32_t *bin, *order;        // [queries of a call]
  // [1 + tokens, channels] of V's dtype: zeros, and if it is copied together, V
  float* packed_v;
  int64_t size = 0;  // floats of all arrays

  /// Lays the arrays out from `memory` on, which may be null.
  Block(const DeformableSlice& s, int64_t queries_of_call, float* memory)
      : query_points(s.levels * s.points),
        queries(std::clamp<int64_t>(kBlockPoints / query_points, 1, kBlockQueries)),
        room(padded(queries * query_points) + 16) {
    const auto floats = [&](int64_t count) {
      float* const at = memory == nullptr ? nullptr : memory + size;
      size += padded(count);
      return at;
    };
    const auto integers = [&](int64_t count) { return reinterpret_cast<int32_t*>(floats(count)); };
    for (float** of_level : {&scale_x, &scale_y, &width, &height})
      *of_level = floats(query_points + kLanes);
    first = integers(query_points + kLanes);
    across = integers(query_points + kLanes);
    locations = floats(2 * room);
    weights = floats(room);
    spots = reinterpret_cast<Spots*>(floats(8 * room));
    sums = floats(s.channels);
    bin = integers(queries_of_call);
    order = integers(queries_of_call);
    const int64_t tokens = packs_rows(s, queries_of_call) ? tokens_of(s) : 0;
    packed_v = floats((1 + tokens) * s.channels * size_of(s.v_dtype) / 4 + 1);
  }

  void set_levels(const DeformableSlice& s) {
    for (int64_t n = 0; n < query_points + kLanes; ++n) {
      const int64_t level = n % query_points / s.points, less = s.align_corners ? 1 : 0;
      scale_x[n] = static_cast<float>(s.width[level] - less);
      scale_y[n] = static_cast<float>(s.height[level] - less);
      width[n] = static_cast<float>(s.width[level]);
      height[n] = static_cast<float>(s.height[level]);
      across[n] = s.width[level];
      first[n] = static_cast<int32_t>(tokens_before(s, level));
    }
  }
};

inline size_t scratch_of_deformable(const DeformableSlice& s, int64_t queries) {
  return (static_cast<size_t>(Block(s, queries, nullptr).size) * 4 + 255) / 256 * 256;
}

/// The two pixels of one axis around a coordinate, and their factors.
struct Neighbours {
  Neighbours() {}           // written out: an implicit one is not compiled for this target
  hn::Vec<Integers> pixel;  // the first one
  Vector step;              // all bits where the level has both, else 0
  Vector factor[2];
};
/// `at` lies between -1 and `size`.
HWY_INLINE Neighbours neighbours_of(Vector at, Vector size) {
  const Floats d;
  const Vector one = hn::Set(d, 1.0f), zero = hn::Zero(d), floor = hn::Floor(at),
               of_next = hn::Sub(at, floor), of_floor = hn::Sub(one, of_next);
  const auto has_floor = hn::Ge(floor, zero),
             has_both = hn::And(has_floor, hn::Lt(hn::Add(floor, one), size));
  const Vector half = hn::Mul(hn::Set(d, 0.5f), hn::IfThenElse(has_floor, of_floor, of_next));
  Neighbours x;
  x.pixel = hn::ConvertTo(Integers(), hn::Max(floor, zero));
  x.step = hn::VecFromMask(d, has_both);
  x.factor[0] = hn::IfThenElse(has_both, of_floor, half);
  x.factor[1] = hn::IfThenElse(has_both, of_next, half);
  return x;
}

/// Finds the pixels and factors of the points n .. n + kLanes - 1 of the block, whose first is
/// number `number` of its query. `edge`: the coordinate of location 0, negated.
HWY_INLINE void find_spots(const Block& b, int64_t n, int64_t number, Vector edge) {
  const Floats d;
  const Integers integer;
  const Vector outside = hn::Set(d, -1.0f), width = hn::LoadU(d, b.width + number),
               height = hn::LoadU(d, b.height + number);
  Vector x, y;
  load_pairs(b.locations + 2 * n, x, y);
  x = hn::MulSub(x, hn::LoadU(d, b.scale_x + number), edge);
  y = hn::MulSub(y, hn::LoadU(d, b.scale_y + number), edge);
  const auto is_inside = hn::And(hn::And(hn::Gt(x, outside), hn::Lt(x, width)),
                                 hn::And(hn::Gt(y, outside), hn::Lt(y, height)));
  const auto inside = hn::RebindMask(integer, is_inside);
  const Neighbours columns = neighbours_of(hn::IfThenElseZero(is_inside, x), width),
                   rows = neighbours_of(hn::IfThenElseZero(is_inside, y), height);
  const Vector weight = hn::IfThenElseZero(is_inside, hn::Load(d, b.weights + n));
  const auto across = hn::LoadU(integer, b.across + number),
             right = hn::BitCast(integer, columns.step),  // -1 or 0
      upper = hn::Add(hn::Add(hn::Mul(rows.pixel, across), columns.pixel),
                      hn::LoadU(integer, b.first + number)),
             lower = hn::Add(upper, hn::And(hn::BitCast(integer, rows.step), across));
  const hn::Vec<Integers> token[] = {upper, hn::Sub(upper, right), lower, hn::Sub(lower, right)};
  Spots& spots = b.spots[n / kLanes];
  for (int k = 0; k < 4; ++k) {
    hn::Store(hn::IfThenElse(inside, token[k], hn::Set(integer, kNoPixel)), integer,
              spots.token[k]);
    hn::Store(hn::Mul(hn::Mul(weight, rows.factor[k / 2]), columns.factor[k % 2]), d,
              spots.factor[k]);
  }
}

/// Finds those of the block's first `queries` queries.
inline void place_points(const Block& b, int64_t queries, bool align_corners) {
  const int64_t count = queries * b.query_points, step = kLanes % b.query_points;
  const Vector edge = hn::Set(Floats(), align_corners ? 0.0f : 0.5f);
  for (int64_t n = 0, number = 0; n < count; n += kLanes) {
    find_spots(b, n, number, edge);
    number += step;
    if (number >= b.query_points) number -= b.query_points;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace impls
HWY_AFTER_NAMESPACE();
#endif
