// The tile kernel of softmax attention in float32 (attend.hpp): online softmax over key tiles,
// several query blocks a tile.
//
// A block's Q lies transposed [head_dim][queries], scaled by softmax_scale * log2(e), so that
// scores come out as [keys][queries] with K read by broadcast, in its natural layout; so does V in
// the second product. The sum over a tile starts from zero and is then added to the row's own:
// chains stay short, which is worth a digit at 32k keys.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/softmax/attend_f32.cpp"
#include "simd/targets.hpp"

// After targets.hpp, which says what foreach_target.h compiles.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simd/softmax/attend-inl.hpp"
#include "simd/softmax/rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace impls {
namespace HWY_NAMESPACE {
namespace {

template <class T>
void load_queries(const Slice& s, Block& b, float* rows) {
  const int64_t depth = round_up(s.head_dim, 4), wide = b.vectors * kLanes;
  const double unit = s.softcap > 0 ? 1.0 / s.softcap : kLog2E;
  const float factor = static_cast<float>(s.softmax_scale * unit);
  const auto* const q = static_cast<const T*>(s.q);
  float* const columns = static_cast<float*>(b.q);
  for (int64_t first = 0; first < wide; first += kLanes) {
    const int64_t lanes = std::min<int64_t>(kLanes, b.count - first);
    if (in_place<T>(s, s.head_dim, lanes)) {
      transpose_in(reinterpret_cast<const float*>(q + (b.first + first) * s.q_stride), s.q_stride,
                   depth, factor, columns + first, wide);
      continue;
    }
    const auto row_at = [&](int64_t i) { return q + row_of(s, b.first + first + i) * s.q_stride; };
    if (b.count == 1) {
      std::memset(columns, 0, static_cast<size_t>(kLanes * depth) * 4);
      widen_row(row_at(0), s.head_dim, factor, rows);
      for (int64_t c = 0; c < s.head_dim; ++c) columns[c * kLanes] = rows[c];
      return;
    }
    std::memset(rows, 0, static_cast<size_t>(kLanes * depth) * 4);
    for (int64_t i = 0; i < lanes; ++i) widen_row(row_at(i), s.head_dim, 1.0f, rows + i * depth);
    transpose_in(rows, depth, depth, factor, columns + first, wide);
  }
}

/// K and V of a tile, for all blocks.
struct Tile {
  Range keys;  // places
  Rows k, v;   // of keys.begin and on
  int finite;  // whether all of V is; -1: not known yet
};

/// What one block attends to of a tile.
struct Part : Scores {
  Rows k, v;
  Ahead* ahead;
  Ahead pairs;   // to be fetched before scores are edited
  bool guarded;  // V has Inf or NaN, which a masked weight must not touch
};

/// Rows of a register tile. Of one vector the sums are twice as many: a multiply-add takes four
/// cycles, and two begin in each.
template <int vectors>
constexpr int kTileRows = vectors == 1 ? 8 : kRows;

/// In a block of so few queries most lanes are idle.
constexpr int64_t kFewQueries = std::min(4, kLanes / 2);
/// In half a vector of 16 lanes, up to kSomeQueries queries gain from whole vectors of V as well,
/// if a tile has at least kManyKeys keys.
constexpr int64_t kSomeQueries = kHalfLanes < kLanes ? 6 : 0, kManyKeys = 120;

/// The second product of a block of at most `rows` queries in one vector: b.o = b.o * keep + its
/// weights times V. Channels of V stand in the lanes, which takes half to a quarter of the
/// multiply-adds; each sum has the same terms in the same order.
template <int rows, class V>
void add_values_of_few(const Slice& s, const Block& b, const Part& t, V keep) {
  const Floats d;
  const hn::DFromV<V> queries;
  for_chunks(s.head_dim_v, [&](int64_t first, auto vectors) HWY_ATTR {
    constexpr int kWide = decltype(vectors)::value, kChannels = kWide * kLanes;
    Vector acc[rows][kWide];
    outer_tile<kWide, false>(t.scores, kLanes, t.v.data + first, t.v.stride,
                             t.keys.end - t.keys.begin, acc);
    HWY_ALIGN float sums[kLanes * kChannels] = {};  // [queries][channels]
    HWY_ALIGN float columns[kChannels * kLanes];    // [channels][queries]
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < kWide; ++v) hn::Store(acc[r][v], d, sums + r * kChannels + v * kLanes);
    transpose_in(sums, kChannels, kChannels, 1.0f, columns, kLanes);
    for (int c = 0; c < kChannels; ++c) {
      float* const at = b.o + (first + c) * kLanes;
      hn::Store(hn::MulAdd(hn::Load(queries, at), keep, hn::Load(queries, columns + c * kLanes)),
                queries, at);
    }
  });
}

/// What makes scores more than q.k, or hides some keys from some queries: nothing, a table of
/// biases alone, or anything.
enum class Edit { kNothing, kTable, kAnything };

/// The keys of a tile of narrow heads; wide ones take half as many.
constexpr int64_t kMostTileKeys = 128;
static_assert(kMostTileKeys % kLanes == 0);

/// A block of one query against one key tile, such as the last of 49. Keys stand in the lanes of
/// its scores and weights, channels in those of the sums over values: fewer multiply-adds than of a
/// vector with one query in it. Each sum has the same terms in the same order.
template <Edit edit>
struct OneQuery {
  OneQuery(const Slice& slice, const Block& block, Part& part) : s(slice), b(block), t(part) {}

  const Slice& s;
  const Block& b;
  Part& t;
  const int64_t count = t.keys.end - t.keys.begin;
  HWY_ALIGN float row[kMostTileKeys + kLanes];  // scores of all keys, then their weights

  static bool takes(const Slice& s, const Block& b, const Part& t) {
    return b.count == 1 && t.keys.end - t.keys.begin >= kLanes && s.head_dim % 4 == 0 &&
           s.head_dim_v % kLanes == 0 && !(edit != Edit::kNothing && t.guarded) &&
           t.ahead->next_keys == nullptr;
  }

  void attend() {
    const Floats d;
    int64_t first = 0;
    for (; count - first > kLanes; first += 2 * kLanes) dots<2>(first);
    if (first < count) dots<1>(first);
    edit_row();

    hn::StoreU(hn::Set(d, -kInfinity), d, row + count);  // up to the end of the last vector
    Vector top = hn::Set(d, b.top[0]);
    for (int64_t j = 0; j < count; j += kLanes) top = hn::Max(top, hn::Load(d, row + j));
    const float highest = hn::GetLane(hn::MaxOfLanes(d, top)),
                base = highest == -kInfinity ? 0 : highest;
    for (int64_t j = 0; j < count; j += kLanes)
      hn::Store(exp2_lanes(hn::Sub(hn::Load(d, row + j), hn::Set(d, base))), d, row + j);
    float sum = 0;
    for (int64_t j = 0; j < count; ++j) sum += row[j];

    const HalfFloats half;
    const auto keep = exp2_lanes(hn::Set(half, b.top[0] - base));
    const auto add = [&](float& to, float more) HWY_ATTR {
      to = hn::GetLane(hn::MulAdd(hn::Set(half, to), keep, hn::Set(half, more)));
    };
    b.top[0] = highest;
    add(b.sum[0], sum);
    for_chunks(s.head_dim_v, [&](int64_t channel, auto vectors) HWY_ATTR {
      constexpr int kWide = decltype(vectors)::value;
      Vector acc[1][kWide];
      outer_tile<kWide, false>(row, 1, t.v.data + channel, t.v.stride, count, acc);
      HWY_ALIGN float sums[kWide * kLanes];
      for (int v = 0; v < kWide; ++v) hn::Store(acc[0][v], d, sums + v * kLanes);
      for (int c = 0; c < kWide * kLanes; ++c) add(b.o[(channel + c) * kLanes], sums[c]);
    });
  }

  /// row[j] = q.k of keys from `first` on. The last vector ends with the last key, and so overlaps
  /// the one before it.
  template <int vectors>
  void dots(int64_t first) {
    const Floats d;
    const auto* const q = static_cast<const float*>(b.q);
    int64_t key[vectors];
    Vector acc[vectors];
    for (int v = 0; v < vectors; ++v) {
      key[v] = std::min(first + v * kLanes, count - kLanes);
      acc[v] = hn::Zero(d);
      for (int n = 0; n < kLanes; n += kRows) {
        t.ahead->fetch();
        t.pairs.fetch();
      }
    }
    for (int64_t c = 0; c < s.head_dim; c += 4) {
      for (int v = 0; v < vectors; ++v) {
        Vector channel[4];
        load_columns(t.k.data + key[v] * t.k.stride + c, t.k.stride, channel);
        for (int i = 0; i < 4; ++i)
          acc[v] = hn::MulAdd(channel[i], hn::Set(d, q[(c + i) * kLanes]), acc[v]);
      }
    }
    for (int v = 0; v < vectors; ++v) hn::StoreU(acc[v], d, row + key[v]);
  }

  void edit_row() {
    if constexpr (edit == Edit::kTable) {
      const Floats d;
      HWY_ALIGN float biases[kMostTileKeys] = {};
      const float* const bias = s.pair_table + t.keys.begin * s.pair_table_stride + b.first;
      for (int64_t j = 0; j < count; ++j) biases[j] = bias[j * s.pair_table_stride];
      for (int64_t j = 0; j < count; j += kLanes)
        hn::Store(biased(hn::Load(d, row + j), hn::Load(d, biases + j)), d, row + j);
    }
    if constexpr (edit == Edit::kAnything) {
      const HalfFloats d;
      for (int64_t j = 0; j < count; ++j) {
        hn::Store(hn::Zero(d), d, t.scores + j * kLanes);
        t.scores[j * kLanes] = row[j];
      }
      hn::Vec<HalfFloats> top[1] = {hn::Zero(d)};
      edit_scores<1, true>(s, b, t, 1.0f, top);
      for (int64_t j = 0; j < count; ++j) row[j] = t.scores[j * kLanes];
    }
  }
};

/// One block against one key tile.
template <class D, int vectors, Edit edit>
void attend_part_of_tile(const Slice& s, const Block& b, Part& t) {
  using V = hn::Vec<D>;
  const D d;
  const int64_t count = t.keys.end - t.keys.begin;
  constexpr int64_t wide = vectors * kLanes;
  constexpr bool edited = edit != Edit::kNothing;

  if constexpr (vectors == 1 && kFewQueries >= 2) {
    if (OneQuery<edit>::takes(s, b, t)) return OneQuery<edit>(s, b, t).attend();
  }
  V before[vectors], top[vectors];
  for (int v = 0; v < vectors; ++v) top[v] = before[v] = hn::Load(d, b.top + v * kLanes);
  for_row_tiles<kTileRows<vectors>>(count, [&](int64_t j, auto rows_of) HWY_ATTR {
    constexpr int rows = decltype(rows_of)::value;
    const float* row[rows];  // rows beyond the last repeat it; their scores are not used
    for (int r = 0; r < rows; ++r) row[r] = t.k.data + std::min(j + r, count - 1) * t.k.stride;
    V acc[rows][vectors];
    const auto* const q = static_cast<const float*>(b.q);
    if (vectors == 1 && t.ahead->next_keys != nullptr) {
      // A line in each step: of K in every other register tile, else of V.
      const int64_t tile = j / kTileRows<vectors>;
      const char* const next =
          (tile % 2 == 0 ? t.ahead->next_keys : t.ahead->next_values) + tile / 2 * s.head_dim * 64;
      dot_tile<vectors>(row, q, s.head_dim, acc,
                        [&](int64_t c) HWY_ATTR { __builtin_prefetch(next + c * 64, 0, 2); });
    } else {
      dot_tile<vectors>(row, q, s.head_dim, acc);
    }
    for (int r = 0; r < rows; r += kRows) {
      t.ahead->fetch();
      if constexpr (edited) t.pairs.fetch();
    }
    for (int r = 0; r < rows; ++r) {
      if constexpr (edit == Edit::kTable) {
        const int64_t key = t.keys.begin + std::min(j + r, count - 1);
        const float* const biases = s.pair_table + key * s.pair_table_stride + b.first;
        for (int v = 0; v < vectors; ++v)
          acc[r][v] = biased(acc[r][v], hn::LoadU(d, biases + v * kLanes));
      }
      for (int v = 0; v < vectors; ++v) {
        hn::Store(acc[r][v], d, t.scores + (j + r) * wide + v * kLanes);
        if constexpr (edit != Edit::kAnything) top[v] = hn::Max(top[v], acc[r][v]);
      }
    }
  });
  if constexpr (edit == Edit::kAnything) edit_scores<vectors, true>(s, b, t, 1.0f, top);

  V keep[vectors], base[vectors], sum[vectors];
  for (int v = 0; v < vectors; ++v) {
    // A row without any key yet has the maximum -inf: any finite base gives it weights of 0 instead
    // of NaN.
    base[v] = hn::IfThenZeroElse(hn::Eq(top[v], hn::Set(d, -kInfinity)), top[v]);
    keep[v] = exp2_lanes(hn::Sub(before[v], base[v]));
    sum[v] = hn::Zero(d);
    hn::Store(top[v], d, b.top + v * kLanes);
  }
  const auto weigh = [&](auto guarded) HWY_ATTR {
    for (int64_t j = 0; j < count; ++j) {
      for (int v = 0; v < vectors; ++v) {
        float* const at = t.scores + j * wide + v * kLanes;
        const V x = hn::Load(d, at);
        V p = exp2_lanes(hn::Sub(x, base[v]));
        sum[v] = hn::Add(sum[v], p);
        if constexpr (decltype(guarded)::value)
          p = hn::IfThenElse(hn::Eq(x, hn::Set(d, -kInfinity)), hn::Set(d, -0.0f), p);
        hn::Store(p, d, at);
      }
    }
  };
  if (edited && t.guarded)
    weigh(std::true_type());
  else
    weigh(std::false_type());
  for (int v = 0; v < vectors; ++v)
    hn::Store(hn::MulAdd(hn::Load(d, b.sum + v * kLanes), keep[v], sum[v]), d, b.sum + v * kLanes);

  if constexpr (vectors == 1 && kFewQueries >= 2) {
    const bool guarded = edited && t.guarded;
    if (s.head_dim_v % kLanes == 0 && !guarded) {
      if (b.count <= 2) return add_values_of_few<2>(s, b, t, keep[0]);
      if (b.count <= kFewQueries) return add_values_of_few<4>(s, b, t, keep[0]);
      if constexpr (kSomeQueries > 0) {
        if (b.count <= kSomeQueries && count >= kManyKeys)
          return add_values_of_few<kSomeQueries>(s, b, t, keep[0]);
      }
    }
  }
  for_row_tiles<kTileRows<vectors>>(s.head_dim_v, [&](int64_t c, auto rows_of) HWY_ATTR {
    constexpr int rows = decltype(rows_of)::value;
    V acc[rows][vectors];
    if (edited && t.guarded) {
      outer_tile<vectors, true>(t.v.data + c, t.v.stride, t.scores, wide, count, acc);
    } else {
      outer_tile<vectors, false>(t.v.data + c, t.v.stride, t.scores, wide, count, acc);
    }
    for (int r = 0; r < rows; ++r) {
      for (int v = 0; v < vectors; ++v) {
        float* const at = b.o + (c + r) * wide + v * kLanes;
        hn::Store(hn::MulAdd(hn::Load(d, at), keep[v], acc[r][v]), d, at);
      }
    }
  });
}

template <Edit edit>
void attend_part_of_tile(const Slice& s, const Block& b, Part& t) {
  if (b.vectors == 3) return attend_part_of_tile<Floats, 3, edit>(s, b, t);
  if (b.vectors == 2) return attend_part_of_tile<Floats, 2, edit>(s, b, t);
  if (!b.half) return attend_part_of_tile<Floats, 1, edit>(s, b, t);
  if constexpr (kHalfLanes < kLanes) attend_part_of_tile<HalfFloats, 1, edit>(s, b, t);
}

struct Float32Kernel {
  static constexpr bool kOnlyBf16 = false, kWholeTiles = false;
  static constexpr int64_t kFetchKeys = kRows, kTileStep = 16;

  static Tiling tiling(int64_t head_dim, int64_t head_dim_v) {
    const int64_t widest = std::max(head_dim, head_dim_v);
    // A block's Q and O beside a K and a V tile: half a megabyte, which is half of a small L2.
    const int64_t blocks = std::clamp<int64_t>(
        (int64_t{1} << 18) / (4 * kBlock * (padded(head_dim) + padded(head_dim_v))), 1,
        std::max<int64_t>(1, 384 / kBlock));
    return {widest <= 64 ? kMostTileKeys : kMostTileKeys / 2, blocks * kBlock, kLanes, true};
  }

  static Room room_of(int64_t head_dim, int64_t head_dim_v) {
    const int64_t keys = tiling(head_dim, head_dim_v).keys;
    Room room;
    room.scores = round_up(keys, kRows) * kBlock;
    room.keys = keys * padded(head_dim);
    room.values = keys * padded(head_dim_v);
    room.rows = kLanes * std::max(padded(head_dim), padded(head_dim_v));
    room.q = padded(head_dim) * kBlock;
    room.o = padded(head_dim_v) * kBlock;
    return room;
  }

  explicit Float32Kernel(const Slice& slice) : s(slice) {}

  const Slice& s;
  const Room room = room_of(s.head_dim, s.head_dim_v);
  const int64_t tile_keys = tiling(s.head_dim, s.head_dim_v).keys;
  const bool always = always_edited(s);
  const bool only_table = s.bias_in_table && only_pairs(s);  // such a problem has no mask

  /// Whether attend_tile() fetches the next tile line by line, if its rows are evenly apart.
  template <class T>
  bool fetches_lines() const {
    return sizeof(T) == 4;
  }

  template <class T>
  void load_queries(Block& b, float* rows) const {
    HWY_NAMESPACE::load_queries<T>(s, b, rows);
  }

  template <class T>
  Tile load_tile(Range keys, const Scratch& scratch) const {
    const int64_t count = keys.end - keys.begin;
    return {keys,
            tile_rows(s, static_cast<const T*>(s.k), s.k_stride, s.k_page_stride, keys.begin, count,
                      s.head_dim, 1, scratch.keys),
            tile_rows(s, static_cast<const T*>(s.v), s.v_stride, s.v_page_stride, keys.begin, count,
                      s.head_dim_v, kRows, scratch.values),
            -1};
  }

  void attend_tile(const Block& b, Tile& tile, Range seen, const Scratch& scratch,
                   Ahead& ahead) const {
    Part part{{seen, scratch.scores, scratch.pair_terms}, tile.k, tile.v, &ahead, {}, false};
    part.k.data += (seen.begin - tile.keys.begin) * tile.k.stride;
    part.v.data += (seen.begin - tile.keys.begin) * tile.v.stride;
    const bool edge = crosses_edge(s, b, seen);
    if (!always && !edge) return attend_part_of_tile<Edit::kNothing>(s, b, part);
    if (tile.finite < 0)
      tile.finite = all_finite(tile.v, tile.keys.end - tile.keys.begin, s.head_dim_v);
    part.guarded = tile.finite == 0;
    if (only_table && !edge) return attend_part_of_tile<Edit::kTable>(s, b, part);
    const int64_t calls = ceil_div(seen.end - seen.begin, kRows);
    part.pairs = s.dtype == ATTEST_F32 ? pairs_ahead<float>(s, b, seen, calls)
                                       : pairs_ahead<uint16_t>(s, b, seen, calls);
    attend_part_of_tile<Edit::kAnything>(s, b, part);
  }
};

const TileKernel* kernel() { return tile_kernel<Float32Kernel>(); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace impls
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace impls {

HWY_EXPORT(kernel);
const TileKernel& Float32Tiles::fma_kernel() { return *HWY_DYNAMIC_DISPATCH(kernel)(); }

}  // namespace impls
#endif
