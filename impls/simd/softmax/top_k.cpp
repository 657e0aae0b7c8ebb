// Softmax attention over the top_k keys of each row (top_k.hpp), up to 3 vectors of queries at a
// time. Queries are not scaled before they are multiplied, so that products that float32 holds
// exactly are equal where they are.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/softmax/top_k.cpp"
#include "simd/targets.hpp"

// After targets.hpp, which says what foreach_target.h compiles.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <functional>

#include "simd/softmax/attend-inl.hpp"
#include "simd/softmax/rows-inl.hpp"
#include "simd/softmax/top_k.hpp"
#include "simd/softmax/top_k_bugs.hpp"

HWY_BEFORE_NAMESPACE();
namespace impls {
namespace HWY_NAMESPACE {
namespace {

#ifndef ATTEST_TOP_K_SMALL
constexpr int64_t kTopKTile = 128;   // keys
constexpr int64_t kSpareKeys = 256;  // that a list has room for beyond twice top_k
#else                                // for tests: lists are cut in problems of few keys
constexpr int64_t kTopKTile = 16, kSpareKeys = 8;
#endif

/// The keys of one row that may count, in the order of their places.
struct List {
  float* logits;  // times log2(e)
  int32_t* places;
  int64_t count, limit;  // at `limit` keys the list is cut
  bool has_nan;          // a visible logit is NaN, which is the largest: so is the row
};

/// One thread's memory.
struct TopKScratch {
  Scratch tile;
  List* lists;     // [kBlock]
  float* least;    // [kBlock]: what is below, or without `all_ties` equal, is not kept
  float* weights;  // [capacity]
  size_t bytes;
};

int64_t capacity_of(const TopK& top) {
  const int64_t most = 2 * top.keys + kSpareKeys;
  return round_up(top.all_ties ? top.seq_len_kv : std::min(top.seq_len_kv, most), 16) + kLanes;
}

Room top_k_room(int64_t head_dim, int64_t head_dim_v) {
  Room room{};
  room.scores = round_up(kTopKTile, kRows) * kBlock;
  room.keys = kTopKTile * padded(head_dim);
  room.rows = kLanes * round_up(std::max(head_dim, head_dim_v), 16);
  room.q = padded(head_dim) * kBlock;
  return room;
}

TopKScratch cut_top_k(char* base, const TopK& top, int64_t head_dim, int64_t head_dim_v) {
  TopKScratch s;
  s.tile = cut(base, top_k_room(head_dim, head_dim_v), 1);
  size_t used = s.tile.bytes;
  const auto take = [&](int64_t bytes) {
    char* const at = base == nullptr ? nullptr : base + used;
    used += static_cast<size_t>(round_up(bytes, 256));
    return at;
  };
  const int64_t capacity = capacity_of(top);
  s.lists = reinterpret_cast<List*>(take(kBlock * static_cast<int64_t>(sizeof(List))));
  s.least = reinterpret_cast<float*>(take(kBlock * 4));
  s.weights = reinterpret_cast<float*>(take(capacity * 4));
  for (int64_t i = 0; i < kBlock; ++i) {
    const List list{reinterpret_cast<float*>(take(capacity * 4)),
                    reinterpret_cast<int32_t*>(take(capacity * 4)), 0, 0, false};
    if (base != nullptr) s.lists[i] = list;
  }
  s.bytes = used;
  return s;
}

/// What start_block() asks of a kernel.
struct UnscaledQueries {
  const Slice& s;
  Room room;
  template <class T>
  void load_queries(Block& b, float* rows) const {
    const int64_t depth = round_up(s.head_dim, 4), wide = b.vectors * kLanes;
    const auto* const q = static_cast<const T*>(s.q);
    for (int64_t first = 0; first < wide; first += kLanes) {
      std::memset(rows, 0, static_cast<size_t>(kLanes * depth) * 4);
      for (int64_t i = first; i < std::min<int64_t>(first + kLanes, b.count); ++i)
        widen_row(q + (b.first + i) * s.q_stride, s.head_dim, 1.0f, rows + (i - first) * depth);
      transpose_in(rows, depth, depth, 1.0f, static_cast<float*>(b.q) + first, wide);
    }
  }
};

/// Cuts the list to the keys that count of those seen so far. Returns the least logit that does.
float shorten(const TopK& top, List& list, float* copy) {
  if (list.count <= top.keys) return -kInfinity;
  std::copy_n(list.logits, list.count, copy);
  const int64_t among =
      planted(TopKBug::kLeastOfPart) ? std::max(top.keys, list.count / 2) : list.count;
  std::nth_element(copy, copy + top.keys - 1, copy + among, std::greater<float>());
  const float least = copy[top.keys - 1];
  int64_t ties = list.count;
  if (!top.all_ties)
    ties = top.keys - std::count_if(copy, copy + top.keys, [=](float x) { return x > least; });
  int64_t kept = 0;
  for (int64_t n = 0; n < list.count; ++n) {
    if (list.logits[n] < least || (list.logits[n] == least && ties-- <= 0)) continue;
    if (planted(TopKBug::kLeastOfPart) && !top.all_ties && kept == top.keys) break;
    list.logits[kept] = list.logits[n];
    if (!planted(TopKBug::kPlacesStay)) list.places[kept] = list.places[n];
    ++kept;
  }
  list.count = kept;
  return least;
}

void add_key(const TopK& top, int64_t lane, float logit, int64_t place, const TopKScratch& m) {
  List& list = m.lists[lane];
  if (logit != logit) {
    if (planted(TopKBug::kNanDropped)) return;
    list.has_nan = true;
    m.least[lane] = kInfinity;
    return;
  }
  if (list.count == list.limit) {
    if (planted(TopKBug::kFullListDrops)) return;
    const int64_t less = planted(TopKBug::kCutToLess) ? 1 : 0;
    m.least[lane] = shorten({top.keys - less, top.seq_len_kv, top.all_ties}, list, m.weights);
    if (planted(TopKBug::kLargestForLeast))
      m.least[lane] = *std::max_element(list.logits, list.logits + list.count);
    list.limit = list.count + top.keys + kSpareKeys;
    if (logit < m.least[lane] || (logit == m.least[lane] && !top.all_ties)) return;
  }
  list.logits[list.count] = logit;
  list.places[list.count++] = static_cast<int32_t>(place);
}

/// The scores of a block and some keys of a tile, and what of them may count.
template <int vectors, bool all_ties>
void add_keys(const Slice& s, const TopK& top, const Block& b, Rows k, const Scores& t,
              const TopKScratch& m) {
  const Floats d;
  constexpr int64_t wide = vectors * kLanes;
  int64_t count = t.keys.end - t.keys.begin;
  if (planted(TopKBug::kTailDropped)) count = count / kRows * kRows;
  for (int64_t j = 0; j < count; j += kRows) {
    const float* row[kRows];  // rows beyond the last repeat it; their scores are not used
    for (int r = 0; r < kRows; ++r) row[r] = k.data + std::min(j + r, count - 1) * k.stride;
    Vector acc[kRows][vectors];
    dot_tile<vectors>(row, static_cast<const float*>(b.q), s.head_dim, acc);
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < vectors; ++v)
        hn::Store(acc[r][v], d, t.scores + (j + r) * wide + v * kLanes);
  }
  const double unit = s.softcap > 0 ? 1.0 / s.softcap : kLog2E;
  Vector largest[vectors];
  for (Vector& x : largest) x = hn::Set(d, -kInfinity);
  edit_scores<vectors, false>(s, b, t, static_cast<float>(s.softmax_scale * unit), largest);
  for (int64_t j = 0; j < count; ++j)
    for (int v = 0; v < vectors; ++v) {
      const float* const logits = t.scores + j * wide + v * kLanes;
      const Vector x = hn::Load(d, logits);
      const Vector least = planted(TopKBug::kOneThreshold) ? hn::Set(d, m.least[v * kLanes])
                                                           : hn::Load(d, m.least + v * kLanes);
      const bool ties_pass = all_ties && !planted(TopKBug::kTiesAfterCut);
      const auto passes = hn::Not(ties_pass ? hn::Lt(x, least) : hn::Le(x, least));
      if (hn::AllFalse(d, passes)) continue;
      uint8_t bytes[8] = {};
      hn::StoreMaskBits(d, passes, bytes);
      uint64_t lanes;
      std::memcpy(&lanes, bytes, sizeof lanes);
      for (; lanes != 0; lanes &= lanes - 1) {
        const int64_t lane = __builtin_ctzll(lanes);
        if (v * kLanes + lane >= b.count) break;
        const int64_t first = planted(TopKBug::kPlaceInTile) ? 0 : t.keys.begin;
        add_key(top, v * kLanes + lane, logits[lane], first + j, m);
      }
    }
}

void add_keys(const Slice& s, const TopK& top, const Block& b, Rows k, const Scores& t,
              const TopKScratch& m) {
  const auto add = [&](auto vectors) {
    if (top.all_ties) return add_keys<decltype(vectors)::value, true>(s, top, b, k, t, m);
    add_keys<decltype(vectors)::value, false>(s, top, b, k, t, m);
  };
  if (b.vectors == 3) return add(std::integral_constant<int, 3>());
  if (b.vectors == 2) return add(std::integral_constant<int, 2>());
  add(std::integral_constant<int, 1>());
}

/// sums[c] = sum over the list of weight * v[place][c], for the channels from `first` on.
template <class T, int vectors>
void sum_values(const Slice& s, const List& list, const float* weights, int64_t first,
                float* sums) {
  const Floats d;
  Vector sum[vectors];
  for (Vector& x : sum) x = hn::Zero(d);
  for (int64_t n = 0; n < list.count; ++n) {
    const T* const row =
        row_at(s, static_cast<const T*>(s.v), s.v_stride, s.v_page_stride, list.places[n]) + first;
    const Vector weight = hn::Set(d, weights[n]);
    for (int v = 0; v < vectors; ++v)
      sum[v] = hn::MulAdd(weight, load_lanes(row + v * kLanes), sum[v]);
  }
  for (int v = 0; v < vectors; ++v) hn::StoreU(sum[v], d, sums + first + v * kLanes);
}

template <class T>
void sum_values(const Slice& s, const List& list, const float* weights, float* sums) {
  int64_t c = 0;
  for (; c + 4 * kLanes <= s.head_dim_v; c += 4 * kLanes)
    sum_values<T, 4>(s, list, weights, c, sums);
  for (; c + kLanes <= s.head_dim_v; c += kLanes) sum_values<T, 1>(s, list, weights, c, sums);
  if (c == s.head_dim_v) return;
  // The last vector overlaps the one before it.
  if (s.head_dim_v >= kLanes)
    return sum_values<T, 1>(s, list, weights, s.head_dim_v - kLanes, sums);
  for (; c < s.head_dim_v; ++c) {
    sums[c] = 0;
    for (int64_t n = 0; n < list.count; ++n)
      sums[c] += weights[n] * element(s.dtype,
                                      row_at(s, static_cast<const T*>(s.v), s.v_stride,
                                             s.v_page_stride, list.places[n]),
                                      c);
  }
}

/// The weights of a list, 2^(logit - top), and their sum.
float weigh(const List& list, float top, float* weights) {
  const Floats d;
  Vector sum = hn::Zero(d);
  if (!planted(TopKBug::kStaleTail)) std::fill_n(list.logits + list.count, kLanes, -kInfinity);
  for (int64_t n = 0; n < list.count; n += kLanes) {
    const Vector p = exp2_lanes(hn::Sub(hn::LoadU(d, list.logits + n), hn::Set(d, top)));
    sum = hn::Add(sum, p);
    hn::StoreU(p, d, weights + n);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

/// An infinity of V stays one however small its weight (mend_row in attend-inl.hpp).
template <class T>
void mend(const Slice& s, const List& list, float* row) {
  for (int64_t c = 0; c < s.head_dim_v; ++c) {
    if (row[c] == row[c]) continue;
    float odd = 0;
    for (int64_t n = 0; n < list.count; ++n) {
      const float value = element(
          s.dtype,
          row_at(s, static_cast<const T*>(s.v), s.v_stride, s.v_page_stride, list.places[n]), c);
      if (!(std::fabs(value) < kInfinity)) odd += value;
    }
    if (odd != 0) row[c] = odd;
  }
}

template <class T>
void write_row(const Slice& s, const TopK& top, int64_t i, List& list, const TopKScratch& m) {
  float* const row = m.tile.rows;
  float lse = -kInfinity;
  const bool all_ties = top.all_ties || planted(TopKBug::kAllTiesStay);
  if (!planted(TopKBug::kNoLastCut)) shorten({top.keys, top.seq_len_kv, all_ties}, list, m.weights);
  if (list.has_nan) {
    lse = std::numeric_limits<float>::quiet_NaN();
    std::fill_n(row, s.head_dim_v, lse);
  } else if (list.count == 0) {
    std::fill_n(row, s.head_dim_v, 0.0f);
  } else {
    const auto sink = static_cast<float>(s.sink * kLog2E);
    const float largest = std::max(*std::max_element(list.logits, list.logits + list.count), sink);
    const float sum = weigh(list, largest, m.weights) + std::exp2(sink - largest);
    sum_values<T>(s, list, m.weights, row);
    for (int64_t c = 0; c < s.head_dim_v; ++c) row[c] /= sum;
    if (sum > 0) mend<T>(s, list, row);
    lse = static_cast<float>(largest * kLn2 + std::log(static_cast<double>(sum)));
  }
  narrow_row(row, s.head_dim_v, static_cast<T*>(s.o) + i * s.o_stride);
  if (s.lse != nullptr) s.lse[i * s.lse_stride] = lse;
}

template <class T>
void attend_block(const Slice& s, const TopK& top, const Block& b, const TopKScratch& m) {
  for (int64_t i = 0; i < kBlock; ++i) {
    List& list = m.lists[i];
    list.count = 0;
    list.limit = 2 * top.keys + kSpareKeys;
    list.has_nan = false;
    if (planted(TopKBug::kStaleThresholds)) continue;
    m.least[i] = top.all_ties ? std::numeric_limits<float>::lowest() : -kInfinity;
  }
  for (int64_t at = b.keys.begin; at < b.keys.end; at += kTopKTile) {
    const Range tile{at, std::min(at + kTopKTile, b.keys.end)};
    if (!any_sees(s, &b, 1, tile)) continue;
    const Rows k = tile_rows(s, static_cast<const T*>(s.k), s.k_stride, s.k_page_stride, at,
                             tile.end - at, s.head_dim, 1, m.tile.keys);
    each_piece(s, b, tile, [&](Range piece) {
      add_keys(s, top, b, {k.data + (piece.begin - at) * k.stride, k.stride},
               {piece, m.tile.scores, m.tile.pair_terms}, m);
    });
  }
  for (int64_t i = 0; i < b.count; ++i) write_row<T>(s, top, b.first + i, m.lists[i], m);
}

template <class T>
void attend_top_k(const Slice& s, const TopK& top, Range queries, Range all, void* memory) {
  const TopKScratch m = cut_top_k(static_cast<char*>(memory), top, s.head_dim, s.head_dim_v);
  const UnscaledQueries kernel{s, top_k_room(s.head_dim, s.head_dim_v)};
  Block& b = m.tile.blocks[0];
  // Beside a block mask a block may have fewer queries.
  for (; queries.begin < queries.end; queries.begin += b.count) {
    start_block<T>(kernel, s, queries, all, m.tile, b);
    attend_block<T>(s, top, b, m);
  }
}

void attend_by_dtype(const Slice& s, const TopK& top, Range queries, Range keys, void* scratch) {
  if (s.dtype == ATTEST_F32) return attend_top_k<float>(s, top, queries, keys, scratch);
  if (s.dtype == ATTEST_F16) return attend_top_k<F16>(s, top, queries, keys, scratch);
  attend_top_k<Bf16>(s, top, queries, keys, scratch);
}

size_t top_k_scratch_bytes(const TopK& top, int64_t head_dim, int64_t head_dim_v) {
  return cut_top_k(nullptr, top, head_dim, head_dim_v).bytes;
}

constexpr TopKKernel kKernel{kBlock, top_k_scratch_bytes, attend_by_dtype};
const TopKKernel* kernel() { return &kKernel; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace impls
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace impls {

HWY_EXPORT(kernel);
const TopKKernel& top_k_kernel() { return *HWY_DYNAMIC_DISPATCH(kernel)(); }

}  // namespace impls
#endif
