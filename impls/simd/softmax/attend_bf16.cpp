// The tile kernel of softmax attention with bf16 operands and float32 sums (attend.hpp).
//
// Both products are c = a b with a in rows of bf16 and b in pairs of bf16, [depth / 2][queries][2]:
// scores = K Q and O = V^T P. So Q is transposed in pairs of channels once a block, V is put in
// pairs of keys once a tile and transposed for AMX, K stays as it lies, and P comes out of the
// scores as pairs of keys.
//
// O is summed over all tiles where it lies. The base of the exponents follows the maximum only when
// that is 2^kHeadroom above it: O is seldom rescaled.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/softmax/attend_bf16.cpp"
#include "simd/targets.hpp"

// After targets.hpp, which says what foreach_target.h compiles.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simd/softmax/attend-inl.hpp"
#include "simd/softmax/base-inl.hpp"
#include "simd/softmax/bf16_pairs-inl.hpp"
#include "simd/softmax/products.hpp"

HWY_BEFORE_NAMESPACE();
namespace impls {
namespace HWY_NAMESPACE {

namespace {

// Scores and weights are of so many keys at a time; the scores of a group are one product.
constexpr int64_t kStepKeys = 32, kGroupKeys = 16;

struct Bf16Kernel {
  static constexpr bool kOnlyBf16 = true, kWholeTiles = true;
  static constexpr int64_t kFetchKeys = kStepKeys, kTileStep = kStepKeys;

  static Tiling tiling(int64_t head_dim, int64_t head_dim_v) {
    // A block's Q and O: half a megabyte all together, which is half of a small L2.
    const int64_t blocks = std::clamp<int64_t>(
        (int64_t{1} << 19) / (kBlock * (2 * deep(head_dim) + 4 * tall(head_dim_v))), 1,
        std::max<int64_t>(1, 768 / kBlock));
    return {128, blocks * kBlock, kLanes, false};
  }

  static Room room_of(int64_t head_dim, int64_t head_dim_v) {
    const int64_t keys = tiling(head_dim, head_dim_v).keys;
    Room room;
    room.scores = 2 * kStepKeys * kBlock + keys / 2 * kBlock;  // of two steps; weights
    room.keys = keys * deep(head_dim) / 2;
    room.values = 2 * (keys / 2 * tall(head_dim_v));  // in pairs, transposed
    room.rows = kLanes * std::max(deep(head_dim) / 2, round_up(head_dim_v, 4));
    room.q = deep(head_dim) / 2 * kBlock;
    room.o = tall(head_dim_v) * kBlock;
    return room;
  }

  explicit Bf16Kernel(const Slice& slice) : s(slice) {}

  const Slice& s;
  const Room room = room_of(s.head_dim, s.head_dim_v);
  const int64_t tile_keys = tiling(s.head_dim, s.head_dim_v).keys;
  const ScoreScale scale{s};
  const Products* const products = kLanes == 16 ? choose_products().products : nullptr;
  const ProductsScope scope{products};
  const bool whole_rows = products != nullptr && products->whole_rows;

  /// Whether products fetch the next tile line by line (Left::ahead), if its rows are evenly apart.
  template <class T>
  bool fetches_lines() const {
    return products != nullptr && !whole_rows && s.head_dim == deep(s.head_dim);
  }

  template <class T>
  void load_queries(Block& b, float* rows) const {
    const int64_t pitch = deep(s.head_dim) / 2, wide = b.vectors * kLanes;
    uint32_t* const pairs = reinterpret_cast<uint32_t*>(rows);
    for (int64_t first = 0; first < wide; first += kLanes) {
      for (int64_t l = 0; l < kLanes; ++l) {
        const int64_t place = b.first + std::min(first + l, b.count - 1),
                      row = s.order != nullptr ? s.order[place] : place;
        copy_row(static_cast<const T*>(s.q) + row * s.q_stride, s.head_dim, 2 * pitch,
                 reinterpret_cast<uint16_t*>(pairs + l * pitch));
      }
      if (s.softmax_scale < 0)
        for (int64_t n = 0; n < kLanes * pitch; ++n) pairs[n] ^= 0x80008000u;
      transpose_words(pairs, pitch, pitch, static_cast<uint32_t*>(b.q) + first, wide);
    }
  }

  struct Tile {
    Range keys;
    Left k, v;               // [keys][head_dim], [head_dim_v][keys]
    const uint16_t* values;  // V in pairs: [keys / 2][padded head_dim_v][2]
    int finite;              // whether all of V is; -1: not known yet
  };

  template <class T>
  Tile load_tile(Range keys, const Scratch& scratch) const {
    uint32_t* const values = reinterpret_cast<uint32_t*>(scratch.values);
    return {keys, load_keys<T>(keys, reinterpret_cast<uint16_t*>(scratch.keys)),
            load_values<T>(keys, values), reinterpret_cast<const uint16_t*>(values), -1};
  }

  template <class T>
  Left load_keys(Range keys, uint16_t* copy) const {
    const int64_t count = keys.end - keys.begin, pitch = deep(s.head_dim);
    const T* const k = static_cast<const T*>(s.k);
    if (s.order == nullptr && s.pages == nullptr && s.head_dim == pitch && count == tall(count))
      return {&k->bits + keys.begin * s.k_stride, s.k_stride, 2};
    for (int64_t n = 0; n < count; ++n)
      copy_row(row_at(s, k, s.k_stride, s.k_page_stride, keys.begin + n), s.head_dim, pitch,
               copy + n * pitch);
    std::memset(copy + count * pitch, 0, static_cast<size_t>((tall(count) - count) * pitch) * 2);
    return {copy, pitch, 2};
  }

  template <class T>
  Left load_values(Range keys, uint32_t* memory) const {
    const int64_t count = keys.end - keys.begin, depth = tall(s.head_dim_v);
    const T* const v = static_cast<const T*>(s.v);
    const bool evenly = s.order == nullptr && s.pages == nullptr;
    const auto row = [&](int64_t n) {
      return evenly ? v + (keys.begin + n) * s.v_stride
                    : row_at(s, v, s.v_stride, s.v_page_stride, keys.begin + n);
    };
    for (int64_t n = 0; n < deep(count); n += 2) {
      uint32_t* const pairs = memory + n / 2 * depth;
      if (n < count)
        pair_up(row(n), n + 1 < count ? row(n + 1) : nullptr, s.head_dim_v, depth, pairs);
      else
        std::memset(pairs, 0, static_cast<size_t>(depth) * 4);
    }
    if (!whole_rows) return {reinterpret_cast<const uint16_t*>(memory), 2, 2 * depth};
    uint32_t* const transposed = memory + tile_keys / 2 * depth;  // [depth][tile_keys / 2]
    for (int64_t pair = 0; pair < deep(count) / 2; pair += kLanes)
      transpose_words(memory + pair * depth, depth, depth, transposed + pair, tile_keys / 2);
    return {reinterpret_cast<const uint16_t*>(transposed), tile_keys, 2};
  }

  void attend_tile(const Block& b, Tile& tile, Range keys, const Scratch& scratch,
                   Ahead& ahead) const {
    const bool edited = scale.always || crosses_edge(s, b, keys);
    if (edited && tile.finite < 0)
      tile.finite = all_finite(tile.values, deep(keys.end - keys.begin) * tall(s.head_dim_v));
    if (edited)
      attend_tile<true>(b, tile, scratch, ahead);
    else
      attend_tile<false>(b, tile, scratch, ahead);
  }
  template <bool edited>
  void attend_tile(const Block& b, const Tile& tile, const Scratch& scratch, Ahead& ahead) const {
    if (b.vectors == 3) return attend_tile<Floats, 3, edited>(b, tile, scratch, ahead);
    if (b.vectors == 2) return attend_tile<Floats, 2, edited>(b, tile, scratch, ahead);
    if (!b.half || whole_rows) return attend_tile<Floats, 1, edited>(b, tile, scratch, ahead);
    if constexpr (kHalfLanes < kLanes) attend_tile<HalfFloats, 1, edited>(b, tile, scratch, ahead);
  }

  /// The scores of the next step are multiplied between the weights of this one: tiles and vectors
  /// work at the same time.
  template <class D, int vectors, bool edited>
  void attend_tile(const Block& b, const Tile& tile, const Scratch& scratch, Ahead& ahead) const {
    constexpr int64_t wide = vectors * kLanes;
    const int64_t count = tile.keys.end - tile.keys.begin;
    float* scores = scratch.scores;
    float* next = scores + kStepKeys * kBlock;
    uint32_t* const weights = reinterpret_cast<uint32_t*>(next + kStepKeys * kBlock);
    const auto multiply_keys = [&](int64_t first, float* target) {
      Left rows = tile.k;
      rows.data += first * rows.row_stride;
      if (ahead.next_keys != nullptr) {
        rows.ahead = ahead.next_keys + first * s.head_dim * 2;
        rows.also_ahead = ahead.next_values + first * s.head_dim * 2;
      }
      multiply<D, vectors>(rows, kGroupKeys, static_cast<const uint32_t*>(b.q), s.head_dim, target,
                           false);
    };
    int64_t done = 0;  // keys whose values are in O
    const auto add_values = [&](int64_t end) {
      Left v = tile.v;
      v.data += done / 2 * v.pair_stride;
      const uint32_t* const of_keys = weights + done / 2 * wide;
      if (edited && tile.finite == 0)
        multiply_portably<D, vectors, true>(v, s.head_dim_v, of_keys, end - done, b.o, true);
      else
        multiply<D, vectors>(v, s.head_dim_v, of_keys, end - done, b.o, true);
      done = end;
    };

    if constexpr (edited) pairs_ahead<Bf16>(s, b, tile.keys, 1).fetch();
    for (int64_t j = 0; j < std::min(count, kStepKeys); j += kGroupKeys)
      multiply_keys(j, scores + j * wide);
    for (int64_t at = 0; at < count; at += kStepKeys, std::swap(scores, next)) {
      const int64_t here = std::min(kStepKeys, count - at);
      const Range keys{tile.keys.begin + at, tile.keys.begin + at + here};
      ahead.fetch();
      hn::Vec<D> top[vectors];
      find_top<D, vectors, edited>(s, b, {keys, scores, scratch.pair_terms}, scale, top);
      if (exceeds_base(b, top)) {
        // O has the old base, and so have the weights that are not in it yet.
        if (done < at) add_values(at);
        raise_base(b, s.head_dim_v, top, [](int, hn::Vec<D>) {});
      }
      for (int64_t j = 0; j < kStepKeys; j += kGroupKeys) {
        if (at + kStepKeys + j < count) multiply_keys(at + kStepKeys + j, next + j * wide);
        if (j < here)
          weigh<D, vectors, edited>(b, scores + j * wide, std::min(kGroupKeys, here - j),
                                    weights + (at + j) / 2 * wide);
      }
    }
    const int64_t pairs = (count + 1) / 2;
    std::memset(weights + pairs * wide, 0,
                static_cast<size_t>((deep(count) / 2 - pairs) * wide) * 4);
    add_values(count);
  }

  template <class D, int vectors>
  void multiply(const Left& a, int64_t rows, const uint32_t* b, int64_t depth, float* c,
                bool add) const {
    constexpr Width width{vectors, hn::MaxLanes(D()) < kLanes};
    if (products != nullptr)
      products->multiply(a, rows, b, width, depth, c, add);
    else
      multiply_portably<D, vectors, false>(a, rows, b, depth, c, add);
  }

  /// From the scores of `count` keys to weights, [keys / 2][vectors * kLanes] pairs.
  template <class D, int vectors, bool edited>
  void weigh(const Block& b, const float* scores, int64_t count, uint32_t* weights) const {
    using V = hn::Vec<D>;
    const D d;
    const hn::RebindToUnsigned<D> word;
    constexpr int64_t wide = vectors * kLanes;
    const V factor = hn::Set(d, scale.after());
    V base[vectors], sum[vectors];
    for (int v = 0; v < vectors; ++v) {
      base[v] = finite_base(d, b, v);
      sum[v] = hn::Load(d, b.sum + v * kLanes);
    }
    const auto weight = [&](int64_t j, int v) HWY_ATTR {
      const V x = hn::Load(d, scores + j * wide + v * kLanes);
      V p = coarse_exp2(hn::MulSub(x, factor, base[v]));
      sum[v] = hn::Add(sum[v], p);
      if constexpr (edited)
        p = hn::IfThenElse(hn::Eq(x, hn::Set(d, -kInfinity)), hn::Set(d, -0.0f), p);
      return p;
    };
    int64_t j = 0;
    for (; j + 2 <= count; j += 2)
      for (int v = 0; v < vectors; ++v)
        hn::Store(pair_weights(weight(j, v), weight(j + 1, v)), word,
                  weights + j / 2 * wide + v * kLanes);
    for (int v = 0; v < vectors && j < count; ++v)
      hn::Store(pair_weights(weight(j, v), hn::Zero(d)), word, weights + j / 2 * wide + v * kLanes);
    for (int v = 0; v < vectors; ++v) hn::Store(sum[v], d, b.sum + v * kLanes);
  }
};

const TileKernel* kernel() { return tile_kernel<Bf16Kernel>(); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace impls
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace impls {

HWY_EXPORT(kernel);
const TileKernel& Bf16Tiles::kernel(const attest_problem&, int64_t) {
  return *HWY_DYNAMIC_DISPATCH(kernel)();
}

void Bf16Tiles::declare(attest_support& support, const attest_problem&, int64_t) {
  for (const int stage : {ATTEST_SOFTMAX_QK, ATTEST_SOFTMAX_PV, ATTEST_SOFTMAX_PROBABILITY})
    support.stage[stage].dtype = ATTEST_BF16;
  support.stage[ATTEST_SOFTMAX_PROBABILITY].rel_error = kCoarseExp2Error;
  support.arithmetic = ATTEST_FLUSHES_SUBNORMALS;
}

const char* Bf16Tiles::refusal() { return choose_products().refusal; }

}  // namespace impls
#endif
