// The points of a block of queries of deformable attention: their locations and weights are read,
// and from them come the four pixels of each point that lies inside its level, with their factors.
// Compiled once a Highway target; include it after foreach_target.h.
//
// Where V is copied together, each level has an edge of zeros, and a point outside reads zeros: all
// queries have equally many points, of four pixels each. Elsewhere a point outside is left out, and
// a pixel outside stands for zeros. No point touches a pixel that is not its own, and both ways
// give the same bits.
#if defined(ATTEST_IMPLS_DEFORMABLE_POINTS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEST_IMPLS_DEFORMABLE_POINTS_INL_HPP
#undef ATTEST_IMPLS_DEFORMABLE_POINTS_INL_HPP
#else
#define ATTEST_IMPLS_DEFORMABLE_POINTS_INL_HPP
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "simd/deformable/deformable_rows-inl.hpp"
#include "simd/deformable/deformable_slice.hpp"
#include "simd/lanes-inl.hpp"
#include "simd/sizes.hpp"

HWY_BEFORE_NAMESPACE();
namespace impls {
namespace HWY_NAMESPACE {

// Points and queries of a block, if one query has no more points: so many that pixels of a level
// are read again while they are in the L1 cache, so few that what is known of the points is not
// far.
constexpr int64_t kBlockPoints = 4096, kBlockQueries = 128;

// The token of a pixel outside of its level.
constexpr int32_t kNoPixel = -1;

using Integers = hn::RebindToSigned<Floats>;

inline int64_t padded(int64_t n) { return round_up(n, 16); }

/// What one thread keeps of a block of queries. An entry of an array is of one point; the queries
/// stand one after another.
struct Block {
  bool packed;                    // V is copied together
  int64_t query_points, queries;  // points of a query, queries of a block
  int64_t room;                   // points of a block, up to whole vectors
  // Of the levels of a query's points, and of some that follow, [query_points + kLanes]: what a
  // location is multiplied with, and pixels
  float *scale_x, *scale_y, *width, *height;
  // Tokens of a row of pixels; the token of the level's first pixel; if V is packed, that of zeros
  // which have zeros after and below them
  int32_t *row_tokens, *first, *zeros;
  float *locations, *weights;  // [room, 2], [room]
  // [4, room]: of the pixels upper left, upper right, lower left, lower right
  float* factor;
  int32_t* token;        // [4, room], kNoPixel outside; if V is packed, only the first
  int32_t* inside;       // [room + 16]: the points that lie inside their levels, ascending
  int32_t* begin;        // [queries * levels + 1]: in `inside`, of the points of a query in a level
  float* sums;           // [queries, channels]
  int32_t *bin, *order;  // [queries of a call]
  float* zero_pixel;     // [channels]
  float* packed_v;       // [packed_tokens(), channels] of V's dtype
  int64_t size = 0;      // floats of all arrays

  /// Lays the arrays out from `memory` on, which may be null.
  Block(const DeformableSlice& s, int64_t queries_of_call, float* memory)
      : packed(packs_rows(s, queries_of_call)),
        query_points(s.levels * s.points),
        queries(std::clamp<int64_t>(kBlockPoints / query_points, 1, kBlockQueries)),
        room(padded(queries * query_points)) {
    const auto floats = [&](int64_t count) {
      float* const at = memory == nullptr ? nullptr : memory + size;
      size += padded(count);
      return at;
    };
    const auto integers = [&](int64_t count) { return reinterpret_cast<int32_t*>(floats(count)); };
    for (float** of_level : {&scale_x, &scale_y, &width, &height})
      *of_level = floats(query_points + kLanes);
    for (int32_t** of_level : {&row_tokens, &first, &zeros})
      *of_level = integers(query_points + kLanes);
    locations = floats(2 * room), weights = floats(room), factor = floats(4 * room);
    token = integers(4 * room), inside = integers(room + 16);
    begin = integers(queries * s.levels + 1);
    sums = floats(queries * s.channels);
    bin = integers(queries_of_call), order = integers(queries_of_call);
    zero_pixel = floats(s.channels);
    packed_v = floats(packed ? packed_tokens(s) * s.channels * size_of(s.v_dtype) / 4 + 1 : 0);
  }

  void set_levels(const DeformableSlice& s) {
    std::fill_n(zero_pixel, s.channels, 0.0f);
    const int64_t edge = packed ? kEdge : 0;
    for (int64_t n = 0; n < query_points + kLanes; ++n) {
      const int64_t level = n % query_points / s.points, across = s.width[level],
                    down = s.height[level], less = s.align_corners ? 1 : 0, row = across + 2 * edge,
                    start = tokens_before(s, level, edge);
      scale_x[n] = static_cast<float>(across - less), scale_y[n] = static_cast<float>(down - less);
      width[n] = static_cast<float>(across), height[n] = static_cast<float>(down);
      row_tokens[n] = static_cast<int32_t>(row);
      first[n] = static_cast<int32_t>(start + edge * (row + 1));
      zeros[n] = static_cast<int32_t>(start + (down + edge) * row);
    }
  }
};

inline size_t scratch_of_deformable(const DeformableSlice& s, int64_t queries) {
  return (static_cast<size_t>(Block(s, queries, nullptr).size) * 4 + 255) / 256 * 256;
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

/// Coordinates of points, and what else places them.
struct Spots {
  Spots() {}  // written out: an implicit one is not compiled for this target
  Vector x, y, width, height, weight;
  hn::Vec<Integers> row_tokens, first, zeros;
  hn::Mask<Floats> is_inside;
};
/// The points n .. n + kLanes - 1 of the block, whose first is number `number` of its query.
HWY_INLINE Spots find_spots(const Block& b, int64_t n, int64_t number, bool align_corners) {
  const Floats d;
  const Integers integer;
  const Vector edge = hn::Set(d, align_corners ? 0.0f : 0.5f), outside = hn::Set(d, -1.0f);
  Spots spots;
  load_pairs(b.locations + 2 * n, spots.x, spots.y);
  spots.x = hn::MulSub(spots.x, hn::LoadU(d, b.scale_x + number), edge);
  spots.y = hn::MulSub(spots.y, hn::LoadU(d, b.scale_y + number), edge);
  spots.width = hn::LoadU(d, b.width + number), spots.height = hn::LoadU(d, b.height + number);
  spots.weight = hn::Load(d, b.weights + n);
  spots.row_tokens = hn::LoadU(integer, b.row_tokens + number);
  spots.first = hn::LoadU(integer, b.first + number);
  spots.zeros = hn::LoadU(integer, b.zeros + number);
  spots.is_inside = hn::And(hn::And(hn::Gt(spots.x, outside), hn::Lt(spots.x, spots.width)),
                            hn::And(hn::Gt(spots.y, outside), hn::Lt(spots.y, spots.height)));
  return spots;
}

/// Pixels and factors of points. Pixels outside have a factor of 0 where the weight is infinite.
template <bool packed>
HWY_INLINE void place_spots(const Block& b, int64_t n, const Spots& spots) {
  const Floats d;
  const Integers integer;
  const Vector one = hn::Set(d, 1.0f), x = hn::IfThenElseZero(spots.is_inside, spots.x),
               y = hn::IfThenElseZero(spots.is_inside, spots.y),
               weight = hn::IfThenElseZero(spots.is_inside, spots.weight);
  const Vector column = hn::Floor(x), row = hn::Floor(y), right = hn::Sub(x, column),
               lower = hn::Sub(y, row), left = hn::Sub(one, right),
               of_lower = hn::Mul(weight, lower), of_upper = hn::Mul(weight, hn::Sub(one, lower));
  const Vector factors[] = {hn::Mul(of_upper, left), hn::Mul(of_upper, right),
                            hn::Mul(of_lower, left), hn::Mul(of_lower, right)};
  const auto token =
      hn::Add(hn::Add(hn::Mul(hn::ConvertTo(integer, row), spots.row_tokens), spots.first),
              hn::ConvertTo(integer, column));
  if (packed) {
    const Vector infinity = hn::Set(d, std::numeric_limits<float>::infinity());
    const auto inside = hn::RebindMask(integer, spots.is_inside);
    hn::Store(hn::IfThenElse(inside, token, spots.zeros), integer, b.token + n);
    if (hn::AllFalse(d, hn::Eq(hn::Abs(weight), infinity))) {  // the edges are zeros
      for (int k = 0; k < 4; ++k) hn::Store(factors[k], d, b.factor + k * b.room + n);
      return;
    }
  }
  const auto is_left = hn::Ge(column, hn::Zero(d)), is_upper = hn::Ge(row, hn::Zero(d)),
             is_right = hn::Lt(hn::Add(column, one), spots.width),
             is_lower = hn::Lt(hn::Add(row, one), spots.height);
  const hn::Mask<Floats> in_level[] = {hn::And(is_upper, is_left), hn::And(is_upper, is_right),
                                       hn::And(is_lower, is_left), hn::And(is_lower, is_right)};
  for (int k = 0; k < 4; ++k)
    hn::Store(hn::IfThenElseZero(in_level[k], factors[k]), d, b.factor + k * b.room + n);
  if (packed) return;
  const auto below = hn::Add(token, spots.row_tokens), next = hn::Set(integer, 1);
  const hn::Vec<Integers> at[] = {token, hn::Add(token, next), below, hn::Add(below, next)};
  for (int k = 0; k < 4; ++k)
    hn::Store(
        hn::IfThenElse(hn::RebindMask(integer, in_level[k]), at[k], hn::Set(integer, kNoPixel)),
        integer, b.token + k * b.room + n);
}

/// Finds pixels and factors of the points of the block's first `queries` queries. Those listed are
/// counted by query and level.
template <bool packed>
inline void place_queries(const Block& b, int64_t queries, const DeformableSlice& s) {
  const int64_t count = queries * b.query_points, step = kLanes % b.query_points;
  for (int64_t n = 2 * count; n < 2 * padded(count); ++n)
    b.locations[n] = std::numeric_limits<float>::quiet_NaN();  // lies nowhere
  [[maybe_unused]] const Integers integer;
  int64_t listed = 0, number = 0;
  for (int64_t n = 0; n < count; n += kLanes) {
    const Spots spots = find_spots(b, n, number, s.align_corners);
    place_spots<packed>(b, n, spots);
    if (!packed) {
      const auto lane = hn::Iota(integer, static_cast<int32_t>(n));
      hn::StoreU(hn::Compress(lane, hn::RebindMask(integer, spots.is_inside)), integer,
                 b.inside + listed);
      listed += static_cast<int64_t>(hn::CountTrue(Floats(), spots.is_inside));
    }
    number += step;
    if (number >= b.query_points) number -= b.query_points;
  }
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
