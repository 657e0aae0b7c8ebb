// The tile kernel of softmax attention with bf16 operands and float32 sums (attend.hpp).
//
// Both products are c = a b with a in rows of bf16 and b in pairs of bf16, [depth / 2][queries][2]:
// scores = K Q and O = V^T P. So Q is transposed in pairs of channels once a block, V is transposed
// once a tile, K stays as it lies, and P comes out of the scores as pairs of keys.
//
// O is summed over all tiles where it lies. The base of the exponents follows the maximum only when
// that is 2^kHeadroom above it: O is seldom rescaled.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/attend_bf16.cpp"
#include "simd/targets.hpp"

// After targets.hpp, which says what foreach_target.h compiles.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <type_traits>

#include "simd/attend-inl.hpp"
#include "simd/products.hpp"

HWY_BEFORE_NAMESPACE();
namespace impls {
namespace HWY_NAMESPACE {

namespace {

using Words = hn::RebindToUnsigned<Floats>;
using WordVector = hn::Vec<Words>;

constexpr float kHeadroom = 8;
constexpr int64_t kStepKeys = 64;  // whose scores and weights stay in the L1 cache

// What a product of AMX reads of depth, and writes of rows.
int64_t deep(int64_t n) { return round_up(n, 32); }
int64_t tall(int64_t n) { return round_up(n, 16); }

// 2^f for 0 <= f < 1: the polynomial of degree 3 with the least relative error, 7.5e-5.
constexpr float kCubic[] = {0.999925256f, 0.695833206f, 0.226067916f, 0.0780240595f};

/// 2^x for x <= 127, relative error kCoarseExp2Error; 0 far below, NaN of NaN.
#if HWY_ARCH_X86 && HWY_CAP_GE512
HWY_INLINE Vector coarse_exp2(Vector x) {
  const Floats d;
  const Vector f{_mm512_reduce_ps(
      x.raw, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};  // x - floor(x); 0 of -inf
  Vector p = hn::MulAdd(hn::Set(d, kCubic[3]), f, hn::Set(d, kCubic[2]));
  p = hn::MulAdd(p, f, hn::Set(d, kCubic[1]));
  p = hn::MulAdd(p, f, hn::Set(d, kCubic[0]));
  return Vector{_mm512_scalef_ps(p.raw, x.raw)};  // p * 2^floor(x)
}
#else
HWY_INLINE Vector coarse_exp2(Vector x) { return exp2_lanes(x); }
#endif

/// Weights of two keys as pairs of bf16, rounded to nearest: half up, which differs from half to
/// even in one of 65,536 numbers.
HWY_INLINE WordVector pair_weights(Vector even, Vector odd) {
  const Words word;
  const auto half = hn::Set(word, 0x8000u);
  const auto low = hn::Add(hn::BitCast(word, even), half);
  const auto high = hn::Add(hn::BitCast(word, odd), half);
  return hn::Or(hn::ShiftRight<16>(low), hn::And(high, hn::Set(word, 0xffff0000u)));
}

/// Products::multiply with Highway. With `guarded`, an element of b of negative sign (a masked
/// weight is -0.0) adds nothing, even to Inf or NaN.
template <int vectors, bool guarded>
void multiply_portably(const uint16_t* a, int64_t a_stride, int64_t rows, const uint32_t* b,
                       int64_t depth, float* c, bool add) {
  const Floats d;
  const Words word;
  constexpr int64_t wide = vectors * kLanes;
  const auto term = [&](Vector scalar, Vector weight, Vector sum) HWY_ATTR {
    if constexpr (!guarded) return hn::MulAdd(scalar, weight, sum);
    const hn::RebindToSigned<Floats> number;
    const auto masked = hn::Lt(hn::BitCast(number, weight), hn::Zero(number));
    return hn::Add(sum, hn::IfThenZeroElse(hn::RebindMask(d, masked), hn::Mul(scalar, weight)));
  };
  const auto upper = [&](WordVector x) HWY_ATTR {
    return hn::BitCast(d, hn::And(x, hn::Set(word, 0xffff0000u)));
  };
  const auto lower = [&](WordVector x) HWY_ATTR { return hn::BitCast(d, hn::ShiftLeft<16>(x)); };
  for (int64_t r = 0; r < rows; r += kRows) {
    float* const out = c + r * wide;
    Vector sum[kRows][vectors];
    for (int i = 0; i < kRows; ++i)
      for (int v = 0; v < vectors; ++v)
        sum[i][v] = add ? hn::Load(d, out + i * wide + v * kLanes) : hn::Zero(d);
    for (int64_t n = 0; n < depth; n += 2) {
      Vector even[vectors], odd[vectors];
      for (int v = 0; v < vectors; ++v) {
        const auto pair = hn::Load(word, b + n / 2 * wide + v * kLanes);
        even[v] = lower(pair);
        odd[v] = upper(pair);
      }
      for (int i = 0; i < kRows; ++i) {
        uint32_t two;
        std::memcpy(&two, a + (r + i) * a_stride + n, 4);
        const auto pair = hn::Set(word, two);
        const Vector left = lower(pair), right = upper(pair);
        for (int v = 0; v < vectors; ++v)
          sum[i][v] = term(right, odd[v], term(left, even[v], sum[i][v]));
      }
    }
    for (int i = 0; i < kRows; ++i)
      for (int v = 0; v < vectors; ++v) hn::Store(sum[i][v], d, out + i * wide + v * kLanes);
  }
}

/// Elements as bf16 in words, and a lone one.
template <class T>
HWY_INLINE WordVector load_words(const T* source) {
  return bf16_words(load_lanes(source));
}
HWY_INLINE WordVector load_words(const Bf16* source) {
  const hn::Rebind<uint16_t, Floats> half;
  return hn::PromoteTo(Words(), hn::LoadU(half, reinterpret_cast<const uint16_t*>(source)));
}
template <class T>
uint16_t bf16_bits(T value) {
  return narrow<Bf16>(widen(value)).bits;
}

/// A row of `depth` elements as bf16, filled up with zeros to `pitch`.
template <class T>
void copy_row(const T* source, int64_t depth, int64_t pitch, uint16_t* target) {
  if constexpr (std::is_same_v<T, Bf16>) {
    std::memcpy(target, source, static_cast<size_t>(depth) * 2);
  } else {
    int64_t c = 0;
    for (; c + kLanes <= depth; c += kLanes)
      store_lanes(load_lanes(source + c), reinterpret_cast<Bf16*>(target + c));
    for (; c < depth; ++c) target[c] = bf16_bits(source[c]);
  }
  std::memset(target + depth, 0, static_cast<size_t>(pitch - depth) * 2);
}

/// Two rows as pairs of bf16, filled up with zeros to `pitch`; there may be no second one.
template <class T>
void pair_up(const T* first, const T* second, int64_t depth, int64_t pitch, uint32_t* target) {
  const Words word;
  int64_t c = 0;
  for (; second != nullptr && c + kLanes <= depth; c += kLanes)
    hn::StoreU(hn::Or(load_words(first + c), hn::ShiftLeft<16>(load_words(second + c))), word,
               target + c);
  for (; c < depth; ++c)
    target[c] = bf16_bits(first[c]) |
                static_cast<uint32_t>(second == nullptr ? 0 : bf16_bits(second[c])) << 16;
  std::memset(target + depth, 0, static_cast<size_t>(pitch - depth) * 4);
}

struct Matrix {
  const uint16_t* data;
  int64_t stride;
};

bool all_finite(Matrix m, int64_t rows, int64_t count) {
  const hn::ScalableTag<uint16_t> d;
  constexpr int64_t lanes = static_cast<int64_t>(HWY_LANES(uint16_t));
  const auto exponent = hn::Set(d, 0x7f80);
  auto odd = hn::Zero(d);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t n = 0; n < count; n += lanes) {
      const auto bits = hn::And(hn::LoadU(d, m.data + r * m.stride + n), exponent);
      odd = hn::Or(odd, hn::VecFromMask(d, hn::Eq(bits, exponent)));
    }
  return hn::AllTrue(d, hn::Eq(odd, hn::Zero(d)));
}

struct Bf16Kernel {
  static constexpr bool kWholeTiles = true;
  static constexpr int64_t kFetchKeys = kStepKeys;

  static Tiling tiling(int64_t head_dim, int64_t head_dim_v) {
    // A block's Q and O: a quarter of a megabyte all together, which is a quarter of a small L2.
    const int64_t blocks = std::clamp<int64_t>(
        (int64_t{1} << 18) / (kBlock * (2 * deep(head_dim) + 4 * tall(head_dim_v))), 1,
        std::max<int64_t>(1, 384 / kBlock));
    return {128, blocks * kBlock, kLanes, false};
  }

  static Room room_of(int64_t head_dim, int64_t head_dim_v) {
    const int64_t keys = tiling(head_dim, head_dim_v).keys;
    Room room;
    room.scores = kStepKeys * kBlock + kStepKeys / 2 * kBlock;  // scores, weights
    room.keys = keys * deep(head_dim) / 2;
    room.values = 2 * (keys / 2 * tall(head_dim_v));  // in pairs, transposed
    room.rows = kLanes * std::max(deep(head_dim) / 2, round_up(head_dim_v, 4));
    room.q = deep(head_dim) / 2 * kBlock;
    room.o = tall(head_dim_v) * kBlock;
    return room;
  }

  explicit Bf16Kernel(const Slice& slice) : s(slice) {
    if (products != nullptr) products->begin();
  }
  ~Bf16Kernel() {
    if (products != nullptr) products->end();
  }
  Bf16Kernel(const Bf16Kernel&) = delete;
  Bf16Kernel& operator=(const Bf16Kernel&) = delete;

  const Slice& s;
  const Room room = room_of(s.head_dim, s.head_dim_v);
  const int64_t tile_keys = tiling(s.head_dim, s.head_dim_v).keys;
  const bool always = always_edited(s);
  const Products* const products = kLanes == 16 ? choose_products().products : nullptr;
  // What a score is multiplied by. Q has its sign: the largest product is the largest score.
  const float unit =
      static_cast<float>(std::fabs(s.softmax_scale) * (s.softcap > 0 ? 1.0 / s.softcap : kLog2E));

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
    Matrix k, v;  // [keys][head_dim], [head_dim_v][keys]
    int finite;   // whether all of V is; -1: not known yet
  };

  template <class T>
  Tile load_tile(Range keys, const Scratch& scratch) const {
    return {keys, load_keys<T>(keys, reinterpret_cast<uint16_t*>(scratch.keys)),
            load_values<T>(keys, reinterpret_cast<uint32_t*>(scratch.values)), -1};
  }

  template <class T>
  Matrix load_keys(Range keys, uint16_t* copy) const {
    const int64_t count = keys.end - keys.begin, pitch = deep(s.head_dim);
    const T* const k = static_cast<const T*>(s.k);
    if constexpr (std::is_same_v<T, Bf16>) {
      if (s.order == nullptr && s.pages == nullptr && s.head_dim == pitch && count == tall(count))
        return {&k->bits + keys.begin * s.k_stride, s.k_stride};
    }
    for (int64_t n = 0; n < count; ++n)
      copy_row(row_at(s, k, s.k_stride, s.k_page_stride, keys.begin + n), s.head_dim, pitch,
               copy + n * pitch);
    std::memset(copy + count * pitch, 0, static_cast<size_t>((tall(count) - count) * pitch) * 2);
    return {copy, pitch};
  }

  template <class T>
  Matrix load_values(Range keys, uint32_t* memory) const {
    const int64_t count = keys.end - keys.begin, depth = tall(s.head_dim_v);
    uint32_t* const transposed = memory + tile_keys / 2 * depth;  // [depth][tile_keys / 2]
    const auto row = [&](int64_t n) {
      return row_at(s, static_cast<const T*>(s.v), s.v_stride, s.v_page_stride, keys.begin + n);
    };
    for (int64_t n = 0; n < deep(count); n += 2) {
      uint32_t* const pairs = memory + n / 2 * depth;
      if (n < count)
        pair_up(row(n), n + 1 < count ? row(n + 1) : nullptr, s.head_dim_v, depth, pairs);
      else
        std::memset(pairs, 0, static_cast<size_t>(depth) * 4);
    }
    for (int64_t pair = 0; pair < deep(count) / 2; pair += kLanes)
      transpose_words(memory + pair * depth, depth, depth, transposed + pair, tile_keys / 2);
    return {reinterpret_cast<const uint16_t*>(transposed), tile_keys};
  }

  void attend_tile(const Block& b, Tile& tile, Range keys, const Scratch& scratch,
                   Ahead& ahead) const {
    const bool edited = always || crosses_edge(s, b, keys);
    if (edited && tile.finite < 0)
      tile.finite = all_finite(tile.v, s.head_dim_v, deep(keys.end - keys.begin));
    for (int64_t at = 0; at < keys.end - keys.begin; at += kStepKeys) {
      const Range step{keys.begin + at, std::min(keys.begin + at + kStepKeys, keys.end)};
      const Matrix k{tile.k.data + at * tile.k.stride, tile.k.stride},
          v{tile.v.data + at, tile.v.stride};
      const Scores scores{step, scratch.scores, scratch.pair_terms};
      ahead.fetch();
      if (b.vectors == 3)
        attend_step<3>(b, k, v, scores, edited, tile.finite != 0);
      else if (b.vectors == 2)
        attend_step<2>(b, k, v, scores, edited, tile.finite != 0);
      else
        attend_step<1>(b, k, v, scores, edited, tile.finite != 0);
    }
  }

  template <int vectors>
  void attend_step(const Block& b, Matrix k, Matrix v, const Scores& t, bool edited,
                   bool finite) const {
    const int64_t count = t.keys.end - t.keys.begin;
    uint32_t* const weights = reinterpret_cast<uint32_t*>(t.scores + kStepKeys * vectors * kLanes);
    multiply<vectors>(k, count, static_cast<const uint32_t*>(b.q), s.head_dim, t.scores, false);
    if (!edited) {
      weigh<vectors, false>(b, t, weights);
      multiply<vectors>(v, s.head_dim_v, weights, count, b.o, true);
      return;
    }
    weigh<vectors, true>(b, t, weights);
    if (finite) return multiply<vectors>(v, s.head_dim_v, weights, count, b.o, true);
    multiply_portably<vectors, true>(v.data, v.stride, s.head_dim_v, weights, count, b.o, true);
  }

  template <int vectors>
  void multiply(Matrix a, int64_t rows, const uint32_t* b, int64_t depth, float* c,
                bool add) const {
    if (products != nullptr)
      products->multiply(a.data, a.stride, rows, b, vectors, depth, c, add);
    else
      multiply_portably<vectors, false>(a.data, a.stride, rows, b, depth, c, add);
  }

  /// From scores to weights, [keys / 2][vectors * kLanes] pairs; those beyond the last key are 0.
  template <int vectors, bool edited>
  void weigh(const Block& b, const Scores& t, uint32_t* weights) const {
    const Floats d;
    const Words word;
    constexpr int64_t wide = vectors * kLanes;
    const int64_t count = t.keys.end - t.keys.begin;
    // Edited scores are scaled if every tile's are: then all rows compute alike wherever an edge
    // is.
    const Vector scale = hn::Set(d, always ? 1.0f : unit);
    Vector top[vectors];
    for (int v = 0; v < vectors; ++v) top[v] = hn::Set(d, -kInfinity);
    if constexpr (edited) {
      edit_scores<vectors, false>(s, b, t, always ? unit : 1.0f, top);
    } else {
      for (int64_t j = 0; j < count; ++j)
        for (int v = 0; v < vectors; ++v)
          top[v] = hn::Max(top[v], hn::Load(d, t.scores + j * wide + v * kLanes));
    }
    for (int v = 0; v < vectors; ++v) top[v] = hn::Mul(top[v], scale);
    raise_base<vectors>(b, top);

    Vector base[vectors], sum[vectors];
    for (int v = 0; v < vectors; ++v) {
      // Any finite base gives a row without keys weights of 0 instead of NaN.
      const Vector stored = hn::Load(d, b.top + v * kLanes);
      base[v] = hn::IfThenZeroElse(hn::Eq(stored, hn::Set(d, -kInfinity)), stored);
      sum[v] = hn::Zero(d);
    }
    const auto weight = [&](int64_t j, int v) HWY_ATTR {
      const Vector x = hn::Load(d, t.scores + j * wide + v * kLanes);
      Vector p = coarse_exp2(hn::MulSub(x, scale, base[v]));
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
    if (j < count) {
      for (int v = 0; v < vectors; ++v)
        hn::Store(pair_weights(weight(j, v), hn::Zero(d)), word,
                  weights + j / 2 * wide + v * kLanes);
      j += 2;
    }
    std::memset(weights + j / 2 * wide, 0, static_cast<size_t>((deep(count) - j) / 2 * wide) * 4);
    for (int v = 0; v < vectors; ++v)
      hn::Store(hn::Add(hn::Load(d, b.sum + v * kLanes), sum[v]), d, b.sum + v * kLanes);
  }

  /// Raises the base of rows whose weights would exceed 2^kHeadroom, and of those without one.
  template <int vectors>
  void raise_base(const Block& b, const Vector (&top)[vectors]) const {
    const Floats d;
    constexpr int64_t wide = vectors * kLanes;
    bool any = false;
    Vector base[vectors];
    for (int v = 0; v < vectors; ++v) {
      base[v] = hn::Load(d, b.top + v * kLanes);
      any |= !hn::AllFalse(d, hn::Gt(top[v], hn::Add(base[v], hn::Set(d, kHeadroom))));
    }
    if (!any) return;
    for (int v = 0; v < vectors; ++v) {
      const auto above = hn::Gt(top[v], hn::Add(base[v], hn::Set(d, kHeadroom)));
      const Vector raised = hn::IfThenElse(above, top[v], base[v]);
      const Vector none = hn::Set(d, -kInfinity);
      const Vector keep =
          exp2_lanes(hn::Sub(base[v], hn::IfThenZeroElse(hn::Eq(raised, none), raised)));
      hn::Store(raised, d, b.top + v * kLanes);
      float* const sum = b.sum + v * kLanes;
      hn::Store(hn::Mul(hn::Load(d, sum), keep), d, sum);
      for (int64_t c = 0; c < s.head_dim_v; ++c) {
        float* const at = b.o + c * wide + v * kLanes;
        hn::Store(hn::Mul(hn::Load(d, at), keep), d, at);
      }
    }
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
const TileKernel& Bf16Tiles::kernel() { return *HWY_DYNAMIC_DISPATCH(kernel)(); }

void Bf16Tiles::declare(attest_support& support) {
  for (const int stage : {ATTEST_SOFTMAX_QK, ATTEST_SOFTMAX_PV, ATTEST_SOFTMAX_PROBABILITY})
    support.stage[stage].dtype = ATTEST_BF16;
  support.stage[ATTEST_SOFTMAX_PROBABILITY].rel_error = kCoarseExp2Error;
  support.arithmetic = ATTEST_FLUSHES_SUBNORMALS;
}

const char* Bf16Tiles::refusal() { return choose_products().refusal; }

}  // namespace impls
#endif
