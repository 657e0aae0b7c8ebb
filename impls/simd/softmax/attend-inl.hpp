// What the tile kernels of softmax attention share (attend_f32.cpp, attend_bf16.cpp): blocks of
// queries, the walk over key tiles, masks and biases on scores, outputs, parts. Compiled once a
// Highway target: include it after foreach_target.h.
//
// A block is up to 3 vectors of queries. Scores are [keys][queries], sums over values
// [head_dim_v][queries]: queries stand in the lanes. A kernel is a class `Kernel` with
//   tiling(head_dim, head_dim_v)
//   room_of(head_dim, head_dim_v)  its scratch
//   kOnlyBf16                      whether it takes bf16 tensors alone
//   kTileStep                      of which the keys of a tile are a multiple
//   kWholeTiles                    whether blocks take all keys of a tile, hidden ones too
//   Kernel(slice), with room and tile_keys
//   fetches_lines<T>()             whether it heeds Ahead::next_keys
//   load_queries<T>(block, rows)   fills block.q
//   load_tile<T>(keys, scratch)    K and V of a tile, for all blocks
//   attend_tile(block, tile, seen, scratch, ahead)
#if defined(ATTEST_IMPLS_ATTEND_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEST_IMPLS_ATTEND_INL_HPP
#undef ATTEST_IMPLS_ATTEND_INL_HPP
#else
#define ATTEST_IMPLS_ATTEND_INL_HPP
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "simd/ahead.hpp"
#include "simd/lanes-inl.hpp"
#include "simd/sizes.hpp"
#include "simd/softmax/attend.hpp"

HWY_BEFORE_NAMESPACE();
namespace impls {
namespace HWY_NAMESPACE {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kLog2E = 1.4426950408889634, kLn2 = 0.6931471805599453;
constexpr int64_t kBlock = kVectors * kLanes;  // the most queries of a block

/// The queries of a full block. Beside a block mask, whole blocks of queries are in one row of it
/// if two vectors or more divide its block_q: no query then waits for keys that only others see.
inline int64_t block_queries(const Slice& s) {
  for (int64_t queries = kBlock; s.block_mask != nullptr && queries >= 2 * kLanes;
       queries -= kLanes)
    if (s.block_q % queries == 0) return queries;
  return kBlock;
}

/// How many of the `left` queries the next block takes. If half a vector or fewer would fill up the
/// last vector of a block, they get a block of their own, which takes half the time of a vector.
inline int64_t queries_of_block(const Slice& s, int64_t left) {
  const int64_t most = block_queries(s), tail = left % kLanes;
  if (left >= most || left < kLanes || kHalfLanes == kLanes) return std::min(left, most);
  return tail > 0 && tail <= kHalfLanes ? left - tail : left;
}

/// Blocks of so many queries.
inline int64_t blocks_of(const Slice& s, int64_t queries) {
  const int64_t most = block_queries(s), left = queries % most, whole = queries / most;
  if (left == 0) return whole;
  return whole + (queries_of_block(s, left) < left ? 2 : 1);
}

struct Block {
  int64_t first = 0, count = 0;  // places first .. first + count - 1
  int vectors = 0;
  bool half = false;   // one vector of which only the lower half is in use
  Range keys{0, 0};    // that any of its queries sees
  void* q = nullptr;   // the kernel's own: [head_dim][vectors * kLanes]
  float* o = nullptr;  // [padded head_dim_v][vectors * kLanes]
  float *top = nullptr,
        *sum = nullptr;  // [vectors * kLanes]: running maximum (of log2) and normaliser
  int32_t *rel = nullptr, *region = nullptr;
};

/// Floats of scratch: of a tile, of a thread, of a block.
struct Room {
  int64_t scores, keys, values, rows, q, o;
};

/// One thread's memory, cut from the host's workspace; counts when there is no base. `used_before`:
/// its blocks are kept as they are.
struct Scratch {
  Block* blocks;
  float *scores, *keys, *values, *rows, *pair_terms;
  size_t bytes;
};

inline Scratch cut(char* base, const Room& room, int64_t blocks, bool used_before = false) {
  size_t used = 0;
  const auto take = [&](int64_t bytes) {
    char* const at = base == nullptr ? nullptr : base + used;
    used += static_cast<size_t>(round_up(bytes, 64));
    return at;
  };
  const auto floats = [&](int64_t count) { return reinterpret_cast<float*>(take(4 * count)); };
  Scratch s;
  s.blocks = reinterpret_cast<Block*>(take(blocks * static_cast<int64_t>(sizeof(Block))));
  s.scores = floats(room.scores);
  s.keys = floats(room.keys);
  s.values = floats(room.values);
  s.rows = floats(room.rows);
  s.pair_terms = floats(kPairKeys * kBlock);
  for (int64_t b = 0; b < blocks; ++b) {
    Block block;
    block.q = floats(room.q);
    block.o = floats(room.o);
    block.top = floats(kBlock);
    block.sum = floats(kBlock);
    block.rel = reinterpret_cast<int32_t*>(floats(kBlock));
    block.region = reinterpret_cast<int32_t*>(floats(kBlock));
    if (base != nullptr && !used_before) s.blocks[b] = block;
  }
  s.bytes = static_cast<size_t>(round_up(static_cast<int64_t>(used), 256));
  return s;
}

/// Keys of `all` among which are those that a query of places [first, last] may see.
inline Range visible_keys(const Slice& s, int64_t first, int64_t last, Range all) {
  if (first < s.global_tokens) return all;
  const Range window = window_keys(s, first, last, all);
  if (all.begin >= s.global_tokens) return window;
  const int64_t global_end = std::min(all.end, s.global_tokens);
  return {all.begin, window.begin < window.end ? std::max(window.end, global_end) : global_end};
}

/// Whether the block mask lets some query of places [first, last] see some key of `keys`, or with
/// `every` all of them all.
template <bool every>
bool blocks_show(const Slice& s, int64_t first, int64_t last, Range keys) {
  for (int64_t row = first / s.block_q; row <= last / s.block_q; ++row)
    for (int64_t column = keys.begin / s.block_kv; column <= (keys.end - 1) / s.block_kv; ++column)
      if ((s.block_mask[row * s.block_mask_stride_q + column * s.block_mask_stride_kv] != 0) !=
          every)
        return !every;
  return every;
}

/// Whether rows of T can be transposed where they are: 16-byte pieces of float, evenly apart.
template <class T>
bool in_place(const Slice& s, int64_t head_dim, int64_t lanes) {
  return sizeof(T) == 4 && s.order == nullptr && head_dim % 4 == 0 && lanes == kLanes;
}

/// The sink joins rows that see a key: their maximum, and what they are divided by.
inline void add_sink(const Slice& s, const Block& b) {
  const float sink = static_cast<float>(s.sink * kLog2E);
  const int64_t wide = b.vectors * kLanes;
  for (int64_t i = 0; i < wide; ++i) {
    if (b.top[i] == -kInfinity) continue;
    const float top = std::max(b.top[i], sink), keep = std::exp2(b.top[i] - top);
    b.sum[i] = b.sum[i] * keep + std::exp2(sink - top);
    b.top[i] = top;
    for (int64_t c = 0; c < s.head_dim_v; ++c) b.o[c * wide + i] *= keep;
  }
}

/// The row of K or V that stands at a place.
template <class T>
const T* row_at(const Slice& s, const T* data, int64_t stride, int64_t page_stride, int64_t place) {
  if (s.pages != nullptr)
    return data + s.pages[place / s.page_size * s.pages_stride] * page_stride +
           place % s.page_size * stride;
  return data + row_of(s, place) * stride;
}

/// What bias, mask and block mask add to the logit of places i and j; -inf: not attended.
inline float pair_term(const Slice& s, int64_t i, int64_t j) {
  if (s.pairs_of_rows) {
    i = s.order[i];
    j = s.order[j];
  }
  if (s.mask != nullptr && s.mask[i * s.mask_stride_q + j * s.mask_stride_kv] == 0)
    return -kInfinity;
  if (s.block_mask != nullptr && !blocks_show<true>(s, i, i, {j, j + 1})) return -kInfinity;
  if (s.bias == nullptr) return 0;
  return element(s.dtype, s.bias, i * s.bias_stride_q + j * s.bias_stride_kv);
}

inline bool sees(const Slice& s, int64_t i, int64_t j) {
  const Range window = window_keys(s, i, i, {j, j + 1});
  const bool global = i < s.global_tokens || j < s.global_tokens;
  if (!global && window.begin >= window.end) return false;
  return pair_term(s, i, j) != -kInfinity;
}

/// An infinity of V that place i sees stays one however small its weight; as a float that weight
/// may be 0, and 0 times infinity NaN.
template <class T>
void mend_row(const Slice& s, const Block& b, int64_t i, float* row) {
  for (int64_t c = 0; c < s.head_dim_v; ++c) {
    if (row[c] == row[c]) continue;
    float odd = 0;  // the sum of what is not finite: of infinities of both signs NaN
    for (int64_t j = b.keys.begin; j < b.keys.end && odd == odd; ++j) {
      const float value = element(
          s.dtype, row_at(s, static_cast<const T*>(s.v), s.v_stride, s.v_page_stride, j), c);
      if (!(std::fabs(value) < kInfinity) && sees(s, i, j)) odd += value;
    }
    if (odd != 0) row[c] = odd;
  }
}

inline void store_lse(const Slice& s, const Block& b, int64_t i, int64_t row) {
  if (s.lse == nullptr) return;
  s.lse[row * s.lse_stride] =
      b.sum[i] == 0 ? -kInfinity
                    : static_cast<float>(b.top[i] * kLn2 + std::log(static_cast<double>(b.sum[i])));
}

/// row[c] = o[c] * factor of a block of one query. Whether one of them is infinite or NaN.
inline bool gather_row(const Slice& s, const Block& b, float factor, float* row) {
  bool odd = false;
  for (int64_t c = 0; c < s.head_dim_v; ++c) {
    row[c] = b.o[c * kLanes] * factor;
    odd |= !(std::fabs(row[c]) < kInfinity);
  }
  return odd;
}

template <class T>
void store_rows(const Slice& s, const Block& b, float* rows) {
  const Floats d;
  if (s.sink != -kInfinity) add_sink(s, b);
  const int64_t depth = round_up(s.head_dim_v, 4), wide = b.vectors * kLanes;
  auto* const o = static_cast<T*>(s.o);
  for (int64_t first = 0; first < wide; first += kLanes) {
    const Vector sum = hn::Load(d, b.sum + first);
    const Vector inverse =
        hn::IfThenZeroElse(hn::Eq(sum, hn::Zero(d)), hn::Div(hn::Set(d, 1.0f), sum));
    const int64_t lanes = std::min<int64_t>(kLanes, b.count - first);
    const bool direct = in_place<T>(s, s.head_dim_v, lanes);
    float* const target =
        direct ? reinterpret_cast<float*>(o + (b.first + first) * s.o_stride) : rows;
    const int64_t stride = direct ? s.o_stride : depth;
    const bool odd = b.count == 1
                         ? gather_row(s, b, hn::GetLane(inverse), target)
                         : transpose_out(b.o + first, wide, depth, inverse, target, stride);
    for (int64_t i = 0; i < lanes; ++i) {
      const int64_t place = b.first + first + i, row = row_of(s, place);
      // A sum that is NaN says that scores are.
      if (odd && b.sum[first + i] > 0) mend_row<T>(s, b, place, target + i * stride);
      if (!direct) narrow_row(target + i * stride, s.head_dim_v, o + row * s.o_stride);
      store_lse(s, b, first + i, row);
    }
  }
}

/// Whether the pair terms of a query are one row of elements in memory.
inline bool pair_rows(const Slice& s) {
  return !s.pairs_of_rows && (s.bias == nullptr || s.bias_stride_kv == 1) &&
         (s.mask == nullptr || s.mask_stride_kv == 1);
}

/// Puts -inf where the mask has 0; kPairKeys terms, of which `count` have a mask.
inline void hide_pairs(const uint8_t* mask, int64_t count, float* terms) {
  const Floats d;
  const hn::Rebind<uint8_t, Floats> byte;
  const hn::RebindToSigned<Floats> number;
  uint8_t seen[kPairKeys] = {};
  std::memcpy(seen, mask, static_cast<size_t>(count));
  for (int64_t n = 0; n < kPairKeys; n += kLanes) {
    const auto word = hn::PromoteTo(number, hn::LoadU(byte, seen + n));
    const auto hidden = hn::RebindMask(d, hn::Eq(word, hn::Zero(number)));
    hn::StoreU(hn::IfThenElse(hidden, hn::Set(d, -kInfinity), hn::LoadU(d, terms + n)), d,
               terms + n);
  }
}

/// The pair terms of place i with keys from j on.
template <class T>
void load_pair_row(const Slice& s, int64_t i, int64_t j, int64_t count, float* terms) {
  std::memset(terms, 0, kPairKeys * 4);
  if (s.bias != nullptr)
    widen_row(static_cast<const T*>(s.bias) + i * s.bias_stride_q + j, count, 1.0f, terms);
  if (s.mask != nullptr) hide_pairs(s.mask + i * s.mask_stride_q + j, count, terms);
  if (s.block_mask == nullptr) return;
  for (int64_t n = 0, end; n < count; n = end) {
    end = std::min(count, ((j + n) / s.block_kv + 1) * s.block_kv - j);
    if (!blocks_show<true>(s, i, i, {j + n, j + n + 1}))
      std::fill(terms + n, terms + end, -kInfinity);
  }
}

/// The pair terms of a block with keys from j on, at most kPairKeys: [kPairKeys][pitch].
template <class T>
void load_pair_terms(const Slice& s, const Block& b, int64_t j, int64_t count, float* terms,
                     int64_t pitch) {
  HWY_ALIGN float rows[kLanes * kPairKeys] = {};
  const int64_t wide = b.vectors * kLanes;
  const bool whole = pair_rows(s);
  const bool direct = whole && s.mask == nullptr && s.block_mask == nullptr && count == kPairKeys;
  for (int64_t first = 0; first < wide; first += kLanes) {
    if (direct && first + kLanes <= b.count) {
      const T* const bias = static_cast<const T*>(s.bias) + (b.first + first) * s.bias_stride_q + j;
      if constexpr (sizeof(T) == 4) {
        transpose_words(reinterpret_cast<const uint32_t*>(bias), s.bias_stride_q, kPairKeys,
                        reinterpret_cast<uint32_t*>(terms + first), pitch);
      } else {
        for (int64_t l = 0; l < kLanes; ++l)
          for (int64_t n = 0; n < kPairKeys; n += kLanes)
            hn::Store(load_lanes(bias + l * s.bias_stride_q + n), Floats(),
                      rows + l * kPairKeys + n);
        transpose_in(rows, kPairKeys, kPairKeys, 1.0f, terms + first, pitch);
      }
      continue;
    }
    const int64_t lanes = std::min<int64_t>(kLanes, b.count - first);
    for (int64_t l = 0; l < lanes; ++l) {
      const int64_t i = b.first + first + l;
      float* const row = rows + l * kPairKeys;
      if (whole)
        load_pair_row<T>(s, i, j, count, row);
      else
        for (int64_t n = 0; n < count; ++n) row[n] = pair_term(s, i, j + n);
    }
    transpose_in(rows, kPairKeys, kPairKeys, 1.0f, terms + first, pitch);
  }
}
inline void load_pair_terms(const Slice& s, const Block& b, int64_t j, int64_t count, float* terms,
                            int64_t pitch) {
  if (s.dtype == ATTEST_F32) return load_pair_terms<float>(s, b, j, count, terms, pitch);
  if (s.dtype == ATTEST_F16) return load_pair_terms<F16>(s, b, j, count, terms, pitch);
  load_pair_terms<Bf16>(s, b, j, count, terms, pitch);
}

inline void fill_table(const Slice& s, int64_t queries, int64_t keys, float* table,
                       int64_t stride) {
  Block b;
  for (; b.first < queries; b.first += kBlock) {
    b.count = std::min(kBlock, queries - b.first);
    b.vectors = static_cast<int>(ceil_div(b.count, kLanes));
    for (int64_t j = 0; j < keys; j += kPairKeys)
      load_pair_terms(s, b, j, std::min(kPairKeys, keys - j), table + j * stride + b.first, stride);
  }
}

/// The scores of a block and some keys.
struct Scores {
  Range keys;         // places
  float* scores;      // [keys][vectors * kLanes]
  float* pair_terms;  // [kPairKeys][vectors * kLanes]
};

/// How many lanes of a block are global tokens.
inline float global_lanes_of(const Slice& s, const Block& b) {
  return static_cast<float>(std::clamp<int64_t>(s.global_tokens - b.first, 0, kBlock));
}

/// Whether scores are edited by a bias, a mask or a table of pairs alone.
inline bool only_pairs(const Slice& s) {
  return s.softcap == 0 && s.window_left < 0 && s.window_right < 0 && s.rel_bias == nullptr &&
         s.region == nullptr && s.alibi_slope == 0;
}

/// A scaled score with a bias. -inf hides the key, whatever its score is.
template <class V>
HWY_INLINE V biased(V score, V bias) {
  const hn::DFromV<V> d;
  const V nothing = hn::Set(d, -kInfinity), log2e = hn::Set(d, static_cast<float>(kLog2E));
  return hn::IfThenElse(hn::Eq(bias, nothing), nothing, hn::MulAdd(bias, log2e, score));
}

/// edit_scores() below. `simple`: only_pairs(s).
template <int vectors, bool scaled, bool simple, class V>
void edit_scores_of(const Slice& s, const Block& b, const Scores& t, float unit,
                    V (&top)[vectors]) {
  using D = hn::DFromV<V>;
  const D d;
  const hn::RebindToSigned<D> number;
  const V log2e = hn::Set(d, static_cast<float>(kLog2E)), nothing = hn::Set(d, -kInfinity);
  const V cap = hn::Set(d, static_cast<float>(s.softcap * kLog2E));
  const V slope = hn::Set(d, static_cast<float>(-s.alibi_slope * kLog2E));
  constexpr int64_t wide = vectors * kLanes;
  const bool paired =
      !s.bias_in_table && (s.bias != nullptr || s.mask != nullptr || s.block_mask != nullptr);
  const bool shared =  // the pair terms of a key are the same for every query
      paired && s.block_mask == nullptr && s.bias_stride_q == 0 && s.mask_stride_q == 0 &&
      !s.pairs_of_rows;
  // Lanes below this are global tokens.
  const V global_lanes = hn::Set(d, global_lanes_of(s, b));
  for (int64_t j = t.keys.begin; j < t.keys.end; ++j) {
    float* const row = t.scores + (j - t.keys.begin) * wide;
    // Lanes low .. high of the block see key j; the clamp keeps them small enough for a float.
    const auto lane = [&](int64_t place) {
      return static_cast<float>(std::clamp<int64_t>(place - b.first, -1, wide));
    };
    const bool global = j < s.global_tokens;
    const V low =
        hn::Set(d, s.window_right < 0 || global ? -1.0f : lane(j - s.window_right - s.offset));
    const V high = hn::Set(d, s.window_left < 0 || global ? static_cast<float>(wide)
                                                          : lane(j + s.window_left - s.offset));
    const int64_t n = (j - t.keys.begin) % kPairKeys;
    if (paired && !shared && n == 0)
      load_pair_terms(s, b, j, std::min(kPairKeys, t.keys.end - j), t.pair_terms, wide);
    const V shared_term = hn::Set(d, shared ? pair_term(s, b.first, j) : 0.0f);
    for (int v = 0; v < vectors; ++v) {
      V x = hn::Load(d, row + v * kLanes);
      if constexpr (!scaled) x = hn::Mul(x, hn::Set(d, unit));
      if (!simple && s.softcap > 0) x = hn::Mul(tanh_lanes(x), cap);
      if (!simple && s.rel_bias != nullptr) {
        const auto at = hn::Add(hn::Load(number, b.rel + v * kLanes),
                                hn::Set(number, s.rel_centre - s.rel_place[j]));
        x = hn::MulAdd(hn::GatherIndex(d, s.rel_bias, at), log2e, x);
      }
      if (s.pair_table != nullptr) {
        const float* const terms = s.pair_table + j * s.pair_table_stride + b.first;
        const V more = hn::LoadU(d, terms + v * kLanes);
        x = s.bias_in_table ? biased(x, more) : hn::MulAdd(more, log2e, x);
      }
      if (!simple && s.region != nullptr) {
        const auto same =
            hn::Eq(hn::Load(number, b.region + v * kLanes), hn::Set(number, s.region[j]));
        x = hn::Add(x, hn::IfThenZeroElse(hn::RebindMask(d, same),
                                          hn::Set(d, s.shift_bias * static_cast<float>(kLog2E))));
      }
      if (paired) {
        const V more = shared ? shared_term : hn::Load(d, t.pair_terms + n * wide + v * kLanes);
        x = biased(x, more);
      }
      const V place = hn::Iota(d, static_cast<float>(v * kLanes));
      if (!simple && s.alibi_slope != 0) {
        const V away =
            hn::Abs(hn::Add(place, hn::Set(d, static_cast<float>(b.first + s.offset - j))));
        x = hn::MulAdd(away, slope, x);
      }
      if constexpr (!simple) {
        const auto in_window = hn::And(hn::Ge(place, low), hn::Le(place, high));
        x = hn::IfThenElse(hn::Or(in_window, hn::Lt(place, global_lanes)), x, nothing);
      }
      top[v] = hn::Max(top[v], x);
      hn::Store(x, d, row + v * kLanes);
    }
  }
}

/// Everything that is not q.k, on scores: softcap, bias, mask, windows. Raises `top`. Scores that
/// are not `scaled` yet are multiplied by `unit` first.
template <int vectors, bool scaled, class V>
void edit_scores(const Slice& s, const Block& b, const Scores& t, float unit, V (&top)[vectors]) {
  if (only_pairs(s)) return edit_scores_of<vectors, scaled, true>(s, b, t, unit, top);
  edit_scores_of<vectors, scaled, false>(s, b, t, unit, top);
}

template <class T, class Kernel>
void start_block(const Kernel& kernel, const Slice& s, Range queries, Range keys,
                 const Scratch& scratch, Block& b) {
  b.first = queries.begin;
  b.count = queries_of_block(s, queries.end - queries.begin);
  b.vectors = static_cast<int>(ceil_div(b.count, kLanes));
  b.half = kHalfLanes < kLanes && b.count <= kHalfLanes;
  b.keys = visible_keys(s, b.first, b.first + b.count - 1, keys);
  kernel.template load_queries<T>(b, scratch.rows);
  const int64_t wide = b.vectors * kLanes;
  std::memset(b.o, 0, static_cast<size_t>(kernel.room.o / kBlock * wide) * 4);
  for (int64_t i = 0; i < wide; ++i) {
    const int64_t place = b.first + std::min(i, b.count - 1);
    b.top[i] = -kInfinity;
    b.sum[i] = 0;
    b.rel[i] = s.rel_place != nullptr ? s.rel_place[place] : 0;
    b.region[i] = s.region != nullptr ? s.region[place] : 0;
  }
}

/// Whether some query of the block must not see some key of `keys`.
inline bool crosses_edge(const Slice& s, const Block& b, Range keys) {
  const int64_t first = b.first + s.offset, last = first + b.count - 1;
  if (s.block_mask != nullptr && !blocks_show<true>(s, b.first, b.first + b.count - 1, keys))
    return true;
  if (keys.end <= s.global_tokens || b.first + b.count <= s.global_tokens) return false;
  return (s.window_left >= 0 && keys.begin < last - s.window_left) ||
         (s.window_right >= 0 && keys.end - 1 > first + s.window_right);
}

/// What to fetch in `calls` calls before scores of the block and `keys` are edited: rows of the
/// bias and of the mask.
template <class T>
Ahead pairs_ahead(const Slice& s, const Block& b, Range keys, int64_t calls) {
  Ahead ahead;
  if (s.bias_in_table || !pair_rows(s)) return ahead;
  const Range rows{b.first, b.first + b.count};
  const int64_t count = keys.end - keys.begin;
  if (s.bias != nullptr)
    ahead.add<T>(static_cast<const T*>(s.bias) + keys.begin, s.bias_stride_q, nullptr, rows, count,
                 calls);
  if (s.mask != nullptr)
    ahead.add<uint8_t>(s.mask + keys.begin, s.mask_stride_q, nullptr, rows, count, calls);
  return ahead;
}

/// What to fetch in `calls` calls while blocks attend to the keys before `rest`: the tile after
/// them, else rows of O and, of the slice that comes next, the queries and the first tile. `few`:
/// for one block of one vector, by a kernel that fetches lines.
template <class T>
Ahead look_ahead(const Slice& s, Range queries, Range rest, int64_t tile_keys, int64_t calls,
                 bool few) {
  const bool last = rest.begin >= rest.end;
  const Slice* const from = last ? s.next : &s;
  Ahead ahead;
  if (last) ahead.add<T>(s.o, s.o_stride, s.order, queries, s.head_dim_v, calls);
  if (from == nullptr || from->pages != nullptr) return ahead;
  const bool lines = few && !last && s.order == nullptr && s.head_dim == s.head_dim_v &&
                     s.k_stride == s.head_dim && s.v_stride == s.head_dim;
  if (lines) {
    ahead.next_keys =
        reinterpret_cast<const char*>(static_cast<const T*>(s.k) + rest.begin * s.head_dim);
    ahead.next_values =
        reinterpret_cast<const char*>(static_cast<const T*>(s.v) + rest.begin * s.head_dim);
    return ahead;
  }
  if (last) rest = s.next_keys;
  rest.end = std::min(rest.end, rest.begin + tile_keys);
  ahead.add<T>(from->k, from->k_stride, from->order, rest, s.head_dim, calls);
  ahead.add<T>(from->v, from->v_stride, from->order, rest, s.head_dim_v, calls);
  if (last) ahead.add<T>(from->q, from->q_stride, from->order, s.next_queries, s.head_dim, calls);
  return ahead;
}

/// Calls attend(piece) for the pieces of `keys` that some query of the block may see. Where pieces
/// are cut depends on the keys alone: a row's bits do not depend on the queries it runs with.
template <class Attend>
void each_piece(const Slice& s, const Block& b, Range keys, const Attend& attend) {
  const int64_t last = b.first + b.count - 1;
  const auto cut_blocks = [&](Range part) {
    if (s.block_mask == nullptr) {
      if (part.begin < part.end) attend(part);
      return;
    }
    const int64_t size = piece_keys(s.block_kv);
    for (int64_t at = part.begin, end; at < part.end; at = end) {
      end = std::min((at / size + 1) * size, part.end);
      if (blocks_show<false>(s, b.first, last, {at, end})) attend(Range{at, end});
    }
  };
  if (s.global_tokens == 0) return cut_blocks(keys);
  const int64_t cut = std::clamp(s.global_tokens, keys.begin, std::max(keys.begin, keys.end));
  cut_blocks({keys.begin, cut});
  const Range rest{cut, keys.end};
  cut_blocks(b.first < s.global_tokens ? rest : window_keys(s, b.first, last, rest));
}

/// Whether a query of these blocks may see any of the keys.
inline bool any_sees(const Slice& s, const Block* blocks, int64_t count, Range keys) {
  bool any = false;
  for (int64_t n = 0; n < count && !any; ++n) {
    const Range seen{std::max(keys.begin, blocks[n].keys.begin),
                     std::min(keys.end, blocks[n].keys.end)};
    if (seen.begin < seen.end) each_piece(s, blocks[n], seen, [&](Range) { any = true; });
  }
  return any;
}

/// How many keys each tile gets: `most` at most, a multiple of `step`, and about as many as every
/// other tile. While blocks attend to the last tile, the kernel fetches what comes next. A short
/// last tile would leave no time for that.
inline int64_t even_tile(Range all, int64_t most, int64_t step) {
  const int64_t count = std::max<int64_t>(1, all.end - all.begin), tiles = ceil_div(count, most);
  return std::min(most, round_up(ceil_div(count, tiles), step));
}

/// Attends to `all` keys, as far as the queries see them. What comes out is left in the blocks.
template <class Kernel, class T>
void attend_tiles(const Slice& s, Range queries, Range all, void* memory) {
  Kernel kernel(s);
  const Scratch scratch =
      cut(static_cast<char*>(memory), kernel.room, blocks_of(s, queries.end - queries.begin));
  int64_t blocks = 0;
  Range keys{all.end, all.begin};  // of all blocks together
  for (int64_t i = queries.begin; i < queries.end; i += scratch.blocks[blocks++].count) {
    Block& b = scratch.blocks[blocks];
    start_block<T>(kernel, s, {i, queries.end}, all, scratch, b);
    if (b.keys.begin == b.keys.end) continue;
    keys = {std::min(keys.begin, b.keys.begin), std::max(keys.end, b.keys.end)};
  }
  const int64_t step = even_tile(all, kernel.tile_keys, Kernel::kTileStep);
  const bool skips = s.block_mask != nullptr || s.global_tokens > 0;
  // Tiles count from all.begin, wherever these queries' keys begin: a row's bits do not depend on
  // the queries it runs with.
  for (int64_t at = all.begin + (keys.begin - all.begin) / step * step; at < keys.end; at += step) {
    const Range whole{at, std::min(at + step, all.end)};
    const Range part{std::max(at, keys.begin), std::min(at + step, keys.end)};
    if (skips && !any_sees(s, scratch.blocks, blocks, part)) continue;
    auto tile = kernel.template load_tile<T>(Kernel::kWholeTiles ? whole : part, scratch);
    const int64_t calls = blocks * (tile.keys.end - tile.keys.begin) / Kernel::kFetchKeys;
    Ahead ahead = look_ahead<T>(
        s, queries, {at + step, keys.end}, step, std::max<int64_t>(1, calls),
        kernel.template fetches_lines<T>() && blocks == 1 && scratch.blocks[0].vectors == 1);
    for (int64_t n = 0; n < blocks; ++n) {
      const Block& b = scratch.blocks[n];
      const Range seen{std::max(tile.keys.begin, b.keys.begin),
                       std::min(tile.keys.end, b.keys.end)};
      if (seen.begin >= seen.end) continue;
      if (!skips)
        kernel.attend_tile(b, tile, Kernel::kWholeTiles ? tile.keys : seen, scratch, ahead);
      else if (!Kernel::kWholeTiles)
        each_piece(s, b, seen,
                   [&](Range piece) { kernel.attend_tile(b, tile, piece, scratch, ahead); });
      else if (any_sees(s, &b, 1, seen))
        kernel.attend_tile(b, tile, tile.keys, scratch, ahead);
    }
  }
}

/// Whether scores are more than q.k for every block and tile.
inline bool always_edited(const Slice& s) {
  return s.softcap > 0 || s.bias != nullptr || s.mask != nullptr || s.rel_bias != nullptr ||
         s.pair_table != nullptr || s.region != nullptr || s.alibi_slope != 0;
}

/// Adds to a block what the same queries have of other keys.
inline void add_block(const Slice& s, Block& to, const Block& from) {
  const Floats d;
  const int64_t wide = to.vectors * kLanes;
  to.keys = {std::min(to.keys.begin, from.keys.begin), std::max(to.keys.end, from.keys.end)};
  for (int64_t i = 0; i < wide; i += kLanes) {
    const Vector top = hn::Load(d, to.top + i), other = hn::Load(d, from.top + i);
    const Vector highest = hn::Max(top, other);
    const Vector base = hn::IfThenZeroElse(hn::Eq(highest, hn::Set(d, -kInfinity)), highest);
    const Vector keep = exp2_lanes(hn::Sub(top, base)), take = exp2_lanes(hn::Sub(other, base));
    const auto add = [&](float* target, const float* source) HWY_ATTR {
      const Vector kept = hn::Mul(hn::Load(d, target), keep);
      hn::Store(hn::MulAdd(hn::Load(d, source), take, kept), d, target);
    };
    hn::Store(highest, d, to.top + i);
    add(to.sum + i, from.sum + i);
    for (int64_t c = 0; c < s.head_dim_v; ++c) add(to.o + c * wide + i, from.o + c * wide + i);
  }
}

template <class T>
void merge(const Slice& s, const Room& room, Range queries, int64_t parts, char* memory,
           size_t bytes) {
  const int64_t count = blocks_of(s, queries.end - queries.begin);
  const Scratch first = cut(memory, room, count, true);
  for (int64_t n = 0; n < count; ++n) {
    Block& b = first.blocks[n];
    for (int64_t part = 1; part < parts; ++part)
      add_block(s, b, cut(memory + static_cast<size_t>(part) * bytes, room, count, true).blocks[n]);
    store_rows<T>(s, b, first.rows);
  }
}

template <class Kernel>
void merge_parts(const Slice& s, Range queries, int64_t parts, void* scratch, size_t bytes) {
  const Room room = Kernel::room_of(s.head_dim, s.head_dim_v);
  char* const memory = static_cast<char*>(scratch);
  if (s.dtype == ATTEST_F32) return merge<float>(s, room, queries, parts, memory, bytes);
  if (s.dtype == ATTEST_F16) return merge<F16>(s, room, queries, parts, memory, bytes);
  merge<Bf16>(s, room, queries, parts, memory, bytes);
}

template <class Kernel>
void attend_part(const Slice& s, Range queries, Range keys, void* memory) {
  if constexpr (!Kernel::kOnlyBf16) {
    if (s.dtype == ATTEST_F32) return attend_tiles<Kernel, float>(s, queries, keys, memory);
    if (s.dtype == ATTEST_F16) return attend_tiles<Kernel, F16>(s, queries, keys, memory);
  }
  attend_tiles<Kernel, Bf16>(s, queries, keys, memory);
}

template <class Kernel>
size_t scratch_bytes(int64_t head_dim, int64_t head_dim_v, int64_t queries) {
  const int64_t blocks = ceil_div(queries, kBlock) + (kHalfLanes < kLanes ? 1 : 0);
  return cut(nullptr, Kernel::room_of(head_dim, head_dim_v), blocks).bytes;
}

template <class Kernel>
const TileKernel* tile_kernel() {
  static constexpr TileKernel functions{Kernel::tiling, scratch_bytes<Kernel>, attend_part<Kernel>,
                                        fill_table, merge_parts<Kernel>};
  return &functions;
}

}  // namespace HWY_NAMESPACE
}  // namespace impls
HWY_AFTER_NAMESPACE();
#endif
