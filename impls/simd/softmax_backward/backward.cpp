// The kernel of the gradients of softmax attention (backward.hpp), in float32.
//
// A block of queries is cut into groups of up to three vectors. Q and dO of a group lie transposed
// [channel][query], so that scores and do.v come out as [key][query] with rows of K and V by
// broadcast, as in attend_f32.cpp. p and ds are kept as [key][query of the block]. dV = p dO and
// dK = ds Q then sum over the queries of the block, with rows of p and ds by broadcast; dQ sums
// over the keys of a tile, transposed.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/softmax_backward/backward.cpp"
#include "simd/targets.hpp"

// After targets.hpp, which says what foreach_target.h compiles.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simd/softmax/attend-inl.hpp"
#include "simd/softmax/rows-inl.hpp"
#include "simd/softmax_backward/backward.hpp"

HWY_BEFORE_NAMESPACE();
namespace impls {
namespace HWY_NAMESPACE {
namespace {

// Queries of a block: 96, in whole groups. Wide vectors have few groups.
constexpr int64_t kGroups = kBlock < 96 ? 96 / kBlock : 1, kQueries = kGroups * kBlock;
constexpr int64_t kTileKeys = 64;
// A hidden pair has this weight, whatever its score is; no pair that is seen has it.
constexpr float kHiddenWeight = -0.0f;

int64_t part_keys(int64_t head_dim, int64_t head_dim_v) {
  // K, V, dK and dV of a part: a quarter of a megabyte, which is half of a small L2.
  const int64_t fits = (int64_t{1} << 15) / (pitch(head_dim) + pitch(head_dim_v));
  return std::clamp<int64_t>(fits / kTileKeys * kTileKeys, kTileKeys, 4 * kTileKeys);
}

/// What a thread keeps from begin_keys to end_keys.
struct Part {
  Rows k, v;        // in place, or in `keys` and `values`
  bool all_finite;  // all of K
};

/// One thread's memory, cut from the host's workspace; counts when there is no base.
struct BackwardScratch {
  Part* part;
  float *keys, *values;         // [part_keys][padded]
  float *dk, *dv;               // [part_keys][pitch]
  float *q, *d_o;               // [kQueries][pitch]
  float *q_turned, *do_turned;  // [kGroups][pitch][kBlock]
  float* dq;                    // the same of dq
  float *lse, *delta;           // [kQueries]; lse times log2(e)
  int32_t *rel, *region;        // [kQueries]
  float *scores, *slopes;       // [kTileKeys][kBlock]
  float *p, *ds;                // [kTileKeys][kQueries]
  float *rows, *pair_terms;
  float* bias_sums;  // [part_keys][kQueries]: of each pair, for DBIAS
  size_t bytes;
};

BackwardScratch cut(char* base, int64_t head_dim, int64_t head_dim_v, bool has_d_bias) {
  size_t used = 0;
  const auto floats = [&](int64_t count) {
    float* const at = base == nullptr ? nullptr : reinterpret_cast<float*>(base + used);
    used += static_cast<size_t>(round_up(4 * count, 64));
    return at;
  };
  const int64_t keys = part_keys(head_dim, head_dim_v), width = pitch(head_dim),
                width_v = pitch(head_dim_v);
  BackwardScratch m;
  m.part = reinterpret_cast<Part*>(floats(static_cast<int64_t>(sizeof(Part) / 4)));
  m.keys = floats(keys * width);
  m.values = floats(keys * width_v);
  m.dk = floats(keys * width);
  m.dv = floats(keys * width_v);
  m.q = floats(kQueries * width);
  m.d_o = floats(kQueries * width_v);
  m.q_turned = floats(kQueries * width);
  m.do_turned = floats(kQueries * width_v);
  m.dq = floats(kQueries * width);
  m.lse = floats(kQueries);
  m.delta = floats(kQueries);
  m.rel = reinterpret_cast<int32_t*>(floats(kQueries));
  m.region = reinterpret_cast<int32_t*>(floats(kQueries));
  m.scores = floats(kTileKeys * kBlock);
  m.slopes = floats(kTileKeys * kBlock);
  m.p = floats(kTileKeys * kQueries);
  m.ds = floats(kTileKeys * kQueries);
  m.rows = floats(kLanes * width);
  m.pair_terms = floats(kPairKeys * kBlock);
  m.bias_sums = has_d_bias ? floats(keys * kQueries) : nullptr;
  m.bytes = static_cast<size_t>(round_up(static_cast<int64_t>(used), 256));
  return m;
}
BackwardScratch scratch_of(const BackwardSlice& s, void* memory) {
  return cut(static_cast<char*>(memory), s.head_dim, s.head_dim_v, s.d_bias != nullptr);
}

size_t scratch_bytes(int64_t head_dim, int64_t head_dim_v, bool has_d_bias) {
  return cut(nullptr, head_dim, head_dim_v, has_d_bias).bytes;
}
BackwardTiling tiling(int64_t head_dim, int64_t head_dim_v) {
  return {kQueries, part_keys(head_dim, head_dim_v), kTileKeys};
}
int64_t block_floats(int64_t head_dim) { return kQueries * pitch(head_dim); }

/// The groups of a block of queries.
struct Groups {
  int64_t count = 0;
  Block group[kGroups];

  explicit Groups(Range queries) {
    for (int64_t i = queries.begin; i < queries.end; i += kBlock) {
      Block& b = group[count++];
      b.first = i;
      b.count = std::min(kBlock, queries.end - i);
      b.vectors = static_cast<int>(ceil_div(b.count, kLanes));
    }
  }
};

template <class T>
void write_delta(const BackwardSlice& s, Range queries, float* delta) {
  const Floats d;
  const auto* const d_o = static_cast<const T*>(s.d_o);
  const auto* const o = static_cast<const T*>(s.o);
  for (int64_t i = queries.begin; i < queries.end; ++i) {
    const T *const gradient = d_o + row_of(s, i) * s.do_stride, *const row =
                                                                    o + row_of(s, i) * s.o_stride;
    Vector sum = hn::Zero(d);
    float rest = 0;
    int64_t c = 0;
    for (; c + kLanes <= s.head_dim_v; c += kLanes)
      sum = hn::MulAdd(load_lanes(gradient + c), load_lanes(row + c), sum);
    for (; c < s.head_dim_v; ++c) rest += widen(gradient[c]) * widen(row[c]);
    delta[i] = hn::GetLane(hn::SumOfLanes(d, sum)) + rest;
  }
}

template <class T>
void begin_keys(const BackwardSlice& s, Range keys, void* memory) {
  const BackwardScratch m = scratch_of(s, memory);
  const int64_t count = keys.end - keys.begin;
  const Rows k = tile_rows(s, static_cast<const T*>(s.k), s.k_stride, 0, keys.begin, count,
                           s.head_dim, kRows, m.keys),
             v = tile_rows(s, static_cast<const T*>(s.v), s.v_stride, 0, keys.begin, count,
                           s.head_dim_v, 1, m.values);
  *m.part = {k, v, all_finite(k, count, s.head_dim)};
  std::memset(m.dk, 0, static_cast<size_t>(count * pitch(s.head_dim)) * 4);
  std::memset(m.dv, 0, static_cast<size_t>(count * pitch(s.head_dim_v)) * 4);
}

/// Rows of Q or dO as floats [query][pitch], padded with zeros, and transposed by groups.
template <class T>
void load_rows(const Slice& s, const T* data, int64_t stride, int64_t depth, const Groups& groups,
               float* rows, float* turned) {
  const int64_t width = pitch(depth), turn = round_up(depth, 4);
  for (int64_t g = 0; g < groups.count; ++g) {
    const Block& b = groups.group[g];
    const int64_t wide = b.vectors * kLanes;
    float *const to = rows + g * kBlock * width, *const columns = turned + g * kBlock * width;
    for (int64_t i = 0; i < wide; ++i) {
      float* const row = to + i * width;
      const int64_t filled = i < b.count ? depth : 0;
      if (filled > 0) widen_row(data + row_of(s, b.first + i) * stride, depth, 1.0f, row);
      for (int64_t c = filled; c < width; ++c) row[c] = 0;
    }
    for (int64_t first = 0; first < wide; first += kLanes)
      transpose_in(to + first * width, width, turn, 1.0f, columns + first, wide);
  }
}

/// A tile of keys and the memory of one group: p, ds, lse, delta and bias_sums begin with its first
/// query.
struct Pairs {
  Range keys;
  Rows k, v;
  const float *q, *d_o;  // transposed
  const float *lse, *delta;
  float *scores, *slopes, *pair_terms, *p, *ds;
  float* bias_sums;  // null without DBIAS
};

/// scores = q.k, [key][wide].
template <int vectors>
void multiply(const Pairs& t, Rows rows, const float* columns, int64_t depth, float* out,
              int64_t stride) {
  const Floats d;
  const int64_t count = t.keys.end - t.keys.begin;
  for (int64_t j = 0; j < count; j += kRows) {
    const float* row[kRows];  // rows beyond the last repeat it and are not stored
    for (int r = 0; r < kRows; ++r) row[r] = rows.data + std::min(j + r, count - 1) * rows.stride;
    Vector acc[kRows][vectors];
    dot_tile<vectors>(row, columns, depth, acc);
    for (int r = 0; r < kRows && j + r < count; ++r)
      for (int v = 0; v < vectors; ++v)
        hn::Store(acc[r][v], d, out + (j + r) * stride + v * kLanes);
  }
}

/// 1 - tanh(x)^2 as 4 e / (1 + e)^2 with e = exp(-2 |x|). Its relative error is about that of e,
/// however small it is: the difference would have that of 1.
Vector cap_slope(Vector x) {
  const Floats d;
  const Vector e = exp2_lanes(hn::Mul(hn::Abs(x), hn::Set(d, static_cast<float>(-2 * kLog2E)))),
               sum = hn::Add(e, hn::Set(d, 1.0f));
  return hn::Div(hn::Mul(e, hn::Set(d, 4.0f)), hn::Mul(sum, sum));
}

/// slopes = the derivative of the logit by the scaled score, under a softcap. `unit`: what a score
/// is multiplied by before tanh.
void write_slopes(const float* scores, int64_t count, float unit, float* slopes) {
  const Floats d;
  for (int64_t n = 0; n < count; n += kLanes)
    hn::Store(cap_slope(hn::Mul(hn::Load(d, scores + n), hn::Set(d, unit))), d, slopes + n);
}

/// p and ds of one group and one tile. `edited`: scores are more than q.k, or some keys are hidden
/// from some queries.
template <int vectors, bool edited>
void weigh(const BackwardSlice& s, const Block& b, const Pairs& t) {
  const Floats d;
  constexpr int64_t wide = vectors * kLanes;
  const int64_t count = t.keys.end - t.keys.begin;
  const bool is_capped = edited && s.softcap > 0;
  const float unit =
      is_capped ? s.softmax_scale / s.softcap : static_cast<float>(s.softmax_scale * kLog2E);
  const Vector nothing = hn::Set(d, -kInfinity), most = hn::Set(d, 127.0f);
  multiply<vectors>(t, t.k, t.q, s.head_dim, t.scores, wide);
  multiply<vectors>(t, t.v, t.d_o, s.head_dim_v, t.ds, kQueries);
  if constexpr (edited) {
    if (is_capped) write_slopes(t.scores, count * wide, unit, t.slopes);
    Vector top[vectors];
    for (int v = 0; v < vectors; ++v) top[v] = nothing;
    edit_scores<vectors, false>(s, b, {t.keys, t.scores, t.pair_terms}, unit, top);
  }
  Vector lse[vectors], delta[vectors];
  for (int v = 0; v < vectors; ++v) {
    lse[v] = hn::Load(d, t.lse + v * kLanes);
    delta[v] = hn::Load(d, t.delta + v * kLanes);
  }
  for (int64_t j = 0; j < count; ++j)
    for (int v = 0; v < vectors; ++v) {
      const int64_t at = j * kQueries + v * kLanes;
      const Vector score = hn::Load(d, t.scores + j * wide + v * kLanes),
                   gradient = hn::Load(d, t.ds + at);
      const Vector logit =
          edited ? hn::Sub(score, lse[v]) : hn::MulSub(score, hn::Set(d, unit), lse[v]);
      // An lse that does not belong to the scores may give an infinite p.
      Vector p = hn::IfThenElse(hn::Gt(logit, most), hn::Set(d, kInfinity), exp2_lanes(logit));
      Vector ds = hn::Mul(p, hn::Sub(gradient, delta[v]));
      if constexpr (edited) {
        const auto hidden = hn::Eq(score, nothing);
        if (t.bias_sums != nullptr)
          hn::Store(hn::Add(hn::Load(d, t.bias_sums + at), hn::IfThenZeroElse(hidden, ds)), d,
                    t.bias_sums + at);
        if (is_capped) ds = hn::Mul(ds, hn::Load(d, t.slopes + j * wide + v * kLanes));
        p = hn::IfThenElse(hidden, hn::Set(d, kHiddenWeight), p);
        ds = hn::IfThenElse(hidden, hn::Zero(d), ds);
      }
      hn::Store(p, d, t.p + at);
      hn::Store(ds, d, t.ds + at);
    }
}

template <bool edited>
void weigh(const BackwardSlice& s, const Block& b, const Pairs& t) {
  if (b.vectors == 3) return weigh<3, edited>(s, b, t);
  if (b.vectors == 2) return weigh<2, edited>(s, b, t);
  weigh<1, edited>(s, b, t);
}

/// p and ds of one group and one tile of which it sees nothing.
void hide(const Block& b, int64_t keys, float* p, float* ds) {
  const Floats d;
  for (int64_t j = 0; j < keys; ++j)
    for (int64_t i = 0; i < b.vectors * kLanes; i += kLanes) {
      hn::Store(hn::Set(d, kHiddenWeight), d, p + j * kQueries + i);
      hn::Store(hn::Zero(d), d, ds + j * kQueries + i);
    }
}

/// sums[j][..] += sum over the queries of weights[j][query] * rows[query][..].
void add_over_queries(const float* weights, int64_t keys, const float* rows, int64_t queries,
                      int64_t depth, float* sums) {
  const Floats d;
  const int64_t stride = pitch(depth);
  for_chunks(depth, [&](int64_t first, auto vectors) HWY_ATTR {
    constexpr int kWide = decltype(vectors)::value;
    for (int64_t j = 0; j < keys; j += kRows) {
      const float* row[kRows];  // rows beyond the last repeat it and are not stored
      for (int r = 0; r < kRows; ++r) row[r] = weights + std::min(j + r, keys - 1) * kQueries;
      Vector acc[kRows][kWide];
      dot_tile<kWide>(row, rows + first, stride, queries, acc);
      for (int r = 0; r < kRows && j + r < keys; ++r)
        for (int v = 0; v < kWide; ++v) {
          float* const at = sums + (j + r) * stride + first + v * kLanes;
          hn::Store(hn::Add(hn::Load(d, at), acc[r][v]), d, at);
        }
    }
  });
}

/// sums[c][query] += sum over the keys of k[key][c] * ds[key][query], of one group.
template <int vectors>
void add_over_keys(Rows k, int64_t keys, int64_t depth, const float* ds, float* sums) {
  const Floats d;
  for (int64_t c = 0; c < depth; c += kRows) {
    Vector acc[kRows][vectors];
    outer_tile<vectors, false>(k.data + c, k.stride, ds, kQueries, keys, acc);
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < vectors; ++v) {
        float* const at = sums + (c + r) * vectors * kLanes + v * kLanes;
        hn::Store(hn::Add(hn::Load(d, at), acc[r][v]), d, at);
      }
  }
}

/// One tile of keys, and the groups first .. last of a block. The first and the last one see some
/// of it.
struct Tile {
  int64_t first_key, count;  // key 0 of the tile is row first_key of the part
  Rows k;
  int64_t first, last;
};

/// Pair by pair, for rows with Inf or NaN: nothing of a hidden pair is touched.
void add_pairs(const BackwardSlice& s, const Groups& groups, const Tile& t,
               const BackwardScratch& m) {
  const int64_t width = pitch(s.head_dim), width_v = pitch(s.head_dim_v);
  for (int64_t j = 0; j < t.count; ++j)
    for (int64_t g = t.first; g <= t.last; ++g) {
      const Block& b = groups.group[g];
      for (int64_t i = 0; i < b.count; ++i) {
        const int64_t query = g * kBlock + i, at = j * kQueries + query, row = t.first_key + j;
        const float p = m.p[at], ds = m.ds[at];
        if (float_bits(p) == float_bits(kHiddenWeight)) continue;
        for (int64_t c = 0; c < s.head_dim_v; ++c)
          m.dv[row * width_v + c] += p * m.d_o[query * width_v + c];
        for (int64_t c = 0; c < s.head_dim; ++c) {
          m.dk[row * width + c] += ds * m.q[query * width + c];
          m.dq[g * kBlock * width + c * b.vectors * kLanes + i] +=
              ds * t.k.data[j * t.k.stride + c];
        }
      }
    }
}

/// The sums of a tile, where nothing hidden can leak: 0 times a finite number is 0.
void add_products(const BackwardSlice& s, const Groups& groups, const Tile& t,
                  const BackwardScratch& m) {
  const int64_t width = pitch(s.head_dim), width_v = pitch(s.head_dim_v), from = t.first * kBlock,
                queries = t.last * kBlock + groups.group[t.last].count - from;
  add_over_queries(m.p + from, t.count, m.d_o + from * width_v, queries, s.head_dim_v,
                   m.dv + t.first_key * width_v);
  add_over_queries(m.ds + from, t.count, m.q + from * width, queries, s.head_dim,
                   m.dk + t.first_key * width);
  for (int64_t g = t.first; g <= t.last; ++g) {
    const float* const ds = m.ds + g * kBlock;
    float* const sums = m.dq + g * kBlock * width;
    const int vectors = groups.group[g].vectors;
    if (vectors == 3) add_over_keys<3>(t.k, t.count, s.head_dim, ds, sums);
    if (vectors == 2) add_over_keys<2>(t.k, t.count, s.head_dim, ds, sums);
    if (vectors == 1) add_over_keys<1>(t.k, t.count, s.head_dim, ds, sums);
  }
}

template <class T>
void add_queries(const BackwardSlice& s, Range queries, Range keys, const float* delta,
                 void* memory) {
  const BackwardScratch m = scratch_of(s, memory);
  const Part part = *m.part;
  Groups groups(queries);
  const Range within{std::max(keys.begin, s.limits.begin), std::min(keys.end, s.limits.end)};
  for (Block& b : groups.group) b.keys = visible_keys(s, b.first, b.first + b.count - 1, within);
  const int64_t width = pitch(s.head_dim), width_v = pitch(s.head_dim_v),
                rows = queries.end - queries.begin;
  load_rows(s, static_cast<const T*>(s.q), s.q_stride, s.head_dim, groups, m.q, m.q_turned);
  load_rows(s, static_cast<const T*>(s.d_o), s.do_stride, s.head_dim_v, groups, m.d_o, m.do_turned);
  for (int64_t i = 0; i < kQueries; ++i) {
    const int64_t place = queries.begin + std::min(i, rows - 1);
    m.lse[i] = static_cast<float>(s.lse[row_of(s, place) * s.lse_stride] * kLog2E);
    m.delta[i] = delta[place];
    m.rel[i] = s.rel_place != nullptr ? s.rel_place[place] : 0;
    m.region[i] = s.region != nullptr ? s.region[place] : 0;
  }
  for (int64_t g = 0; g < groups.count; ++g) {
    groups.group[g].rel = m.rel + g * kBlock;
    groups.group[g].region = m.region + g * kBlock;
  }
  std::memset(m.dq, 0, static_cast<size_t>(kQueries * width) * 4);
  const bool always = always_edited(s);
  int finite = part.all_finite ? -1 : 0;  // whether K, Q and dO are; -1: Q and dO are not known yet
  for (int64_t at = within.begin; at < within.end; at += kTileKeys) {
    const Range tile{at, std::min(at + kTileKeys, within.end)};
    const int64_t first_key = at - keys.begin;
    const Rows k{part.k.data + first_key * part.k.stride, part.k.stride},
        v{part.v.data + first_key * part.v.stride, part.v.stride};
    Tile seen{first_key, tile.end - tile.begin, k, groups.count, -1};
    bool sees_tile[kGroups], any_edited = false;
    for (int64_t g = 0; g < groups.count; ++g) {
      sees_tile[g] = any_sees(s, groups.group + g, 1, tile);
      if (sees_tile[g]) {
        seen.first = std::min(seen.first, g);
        seen.last = g;
      }
    }
    for (int64_t g = seen.first; g <= seen.last; ++g) {
      const Block& b = groups.group[g];
      const int64_t from = g * kBlock;
      if (!sees_tile[g]) {
        hide(b, seen.count, m.p + from, m.ds + from);
        any_edited = true;
        continue;
      }
      float* const bias_sums =
          m.bias_sums == nullptr ? nullptr : m.bias_sums + first_key * kQueries + from;
      const Pairs pairs{tile,
                        k,
                        v,
                        m.q_turned + from * width,
                        m.do_turned + from * width_v,
                        m.lse + from,
                        m.delta + from,
                        m.scores,
                        m.slopes,
                        m.pair_terms,
                        m.p + from,
                        m.ds + from,
                        bias_sums};
      const bool edited = always || crosses_edge(s, b, tile);
      any_edited |= edited;
      if (edited)
        weigh<true>(s, b, pairs);
      else
        weigh<false>(s, b, pairs);
    }
    if (seen.last < 0) continue;
    if (any_edited && finite < 0)
      finite = all_finite({m.q, width}, rows, s.head_dim) &&
               all_finite({m.d_o, width_v}, rows, s.head_dim_v);
    if (any_edited && finite == 0)
      add_pairs(s, groups, seen, m);
    else
      add_products(s, groups, seen, m);
  }
}

void join_queries(const BackwardSlice& s, bool is_first, float* sums, void* memory) {
  const Floats d;
  const BackwardScratch m = scratch_of(s, memory);
  const int64_t count = block_floats(s.head_dim);
  for (int64_t n = 0; n < count; n += kLanes) {
    const Vector more = hn::Load(d, m.dq + n);
    hn::Store(is_first ? more : hn::Add(hn::Load(d, sums + n), more), d, sums + n);
  }
}

template <class T>
void write_queries(const BackwardSlice& s, Range queries, const float* sums, void* memory) {
  const BackwardScratch m = scratch_of(s, memory);
  const int64_t width = pitch(s.head_dim);
  const Vector scale = hn::Set(Floats(), s.softmax_scale);
  const Groups groups(queries);
  for (int64_t g = 0; g < groups.count; ++g) {
    const Block& b = groups.group[g];
    const int64_t wide = b.vectors * kLanes;
    for (int64_t first = 0; first < b.count; first += kLanes) {
      transpose_out(sums + g * kBlock * width + first, wide, round_up(s.head_dim, 4), scale, m.rows,
                    width);
      for (int64_t i = first; i < std::min<int64_t>(b.count, first + kLanes); ++i)
        narrow_row(m.rows + (i - first) * width, s.head_dim,
                   static_cast<T*>(s.dq) + row_of(s, b.first + i) * s.dq_stride);
    }
  }
}

template <class T>
void end_keys(const BackwardSlice& s, Range keys, void* memory) {
  const BackwardScratch m = scratch_of(s, memory);
  const int64_t width = pitch(s.head_dim), width_v = pitch(s.head_dim_v);
  for (int64_t j = 0; j < keys.end - keys.begin; ++j) {
    const int64_t row = row_of(s, keys.begin + j);
    widen_row(m.dk + j * width, s.head_dim, s.softmax_scale, m.rows);
    narrow_row(m.rows, s.head_dim, static_cast<T*>(s.dk) + row * s.dk_stride);
    narrow_row(m.dv + j * width_v, s.head_dim_v, static_cast<T*>(s.dv) + row * s.dv_stride);
  }
}

void clear_bias(const BackwardSlice& s, void* memory) {
  const int64_t keys = part_keys(s.head_dim, s.head_dim_v);
  std::memset(scratch_of(s, memory).bias_sums, 0, static_cast<size_t>(keys * kQueries) * 4);
}

template <class T>
void join_bias(const BackwardSlice& s, Range queries, Range keys, bool is_first, bool is_last,
               float* sums, int64_t stride, void* memory) {
  const BackwardScratch m = scratch_of(s, memory);
  const Groups groups(queries);
  auto* const d_bias = static_cast<T*>(s.d_bias);
  for (int64_t at = keys.begin; at < keys.end; at += kTileKeys) {
    const int64_t count = std::min(kTileKeys, keys.end - at);
    for (int64_t first = queries.begin; first < queries.end; first += kLanes) {
      const float* const columns =
          m.bias_sums + (at - keys.begin) * kQueries + first - queries.begin;
      transpose_out(columns, kQueries, round_up(count, 4), hn::Set(Floats(), 1.0f), m.scores,
                    kTileKeys);
      for (int64_t i = first; i < std::min<int64_t>(queries.end, first + kLanes); ++i) {
        float* const row = m.scores + (i - first) * kTileKeys;
        // Lanes behind the last query hold anything.
        if (i >= s.queries) std::fill_n(row, count, 0.0f);
        const int64_t sum = i * stride + at;
        for (int64_t j = 0; !is_first && j < count; ++j) row[j] += sums[sum + j];
        if (is_last)
          narrow_row(row, count, d_bias + i * s.d_bias_stride + at);
        else
          std::copy_n(row, count, sums + sum);
      }
    }
  }
}

void join_bias_row(const BackwardSlice& s, Range queries, Range keys, bool is_first, float* sums,
                   void* memory) {
  const Floats d;
  const BackwardScratch m = scratch_of(s, memory);
  const int64_t count = std::min(queries.end, s.queries) - queries.begin;
  for (int64_t j = 0; j < keys.end - keys.begin; ++j) {
    const float* const row = m.bias_sums + j * kQueries;
    Vector sum = hn::Zero(d);
    float rest = 0;
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) sum = hn::Add(sum, hn::Load(d, row + i));
    for (; i < count; ++i) rest += row[i];
    const float more = hn::GetLane(hn::SumOfLanes(d, sum)) + rest;
    sums[j] = is_first ? more : sums[j] + more;
  }
}

template <class T>
void write_bias_row(const BackwardSlice& s, Range keys, const float* sums) {
  narrow_row(sums, keys.end - keys.begin, static_cast<T*>(s.d_bias) + keys.begin);
}

/// Calls run(a value of the type of the slice's tensors).
template <class Run>
void by_dtype(const BackwardSlice& s, const Run& run) {
  if (s.dtype == ATTEST_F32) return run(float());
  if (s.dtype == ATTEST_F16) return run(F16());
  run(Bf16());
}

constexpr BackwardKernel kKernel{
    tiling,
    scratch_bytes,
    block_floats,
    [](const BackwardSlice& s, Range queries, float* delta) {
      by_dtype(s, [&](auto type) { write_delta<decltype(type)>(s, queries, delta); });
    },
    [](const BackwardSlice& s, Range keys, void* scratch) {
      by_dtype(s, [&](auto type) { begin_keys<decltype(type)>(s, keys, scratch); });
    },
    [](const BackwardSlice& s, Range queries, Range keys, const float* delta, void* scratch) {
      by_dtype(s,
               [&](auto type) { add_queries<decltype(type)>(s, queries, keys, delta, scratch); });
    },
    join_queries,
    [](const BackwardSlice& s, Range queries, const float* sums, void* scratch) {
      by_dtype(s, [&](auto type) { write_queries<decltype(type)>(s, queries, sums, scratch); });
    },
    [](const BackwardSlice& s, Range keys, void* scratch) {
      by_dtype(s, [&](auto type) { end_keys<decltype(type)>(s, keys, scratch); });
    },
    clear_bias,
    [](const BackwardSlice& s, Range queries, Range keys, bool is_first, bool is_last, float* sums,
       int64_t stride, void* scratch) {
      by_dtype(s, [&](auto type) {
        join_bias<decltype(type)>(s, queries, keys, is_first, is_last, sums, stride, scratch);
      });
    },
    join_bias_row,
    [](const BackwardSlice& s, Range keys, const float* sums) {
      by_dtype(s, [&](auto type) { write_bias_row<decltype(type)>(s, keys, sums); });
    }};
const BackwardKernel* kernel() { return &kKernel; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace impls
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace impls {

HWY_EXPORT(kernel);
const BackwardKernel& backward_kernel() { return *HWY_DYNAMIC_DISPATCH(kernel)(); }

}  // namespace impls
#endif
