// The tile kernel of softmax attention that multiplies float32 as sums of bf16 numbers, its terms
// (attend.hpp). AMX multiplies bf16 so much faster than vectors multiply float32 that all products
// of terms that matter take less time: float32 has three terms of 8 bits, f16 two, bf16 one, and a
// weight exp(logit - max) three. Products of the terms i and j of two numbers are left out where
// i + j > 4: they are below 2^-26 of the whole. So errors are those of float32.
//
// The layouts are those of attend_bf16.cpp, once a term: Q in pairs of channels, V in pairs of keys
// and transposed, 32 keys at a time. Each tile's sum over keys starts from zero.
//
// An operand that is not finite cannot be a sum of terms whose products are right: 0 times
// infinity is NaN. Such tiles are multiplied by vectors, which add the terms up first; so is
// everything on a processor without AMX, where only tests ask for this kernel.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/softmax/attend_terms.cpp"
#include "simd/targets.hpp"

// After targets.hpp, which says what foreach_target.h compiles.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simd/softmax/amx_tiles.hpp"
#include "simd/softmax/attend-inl.hpp"
#include "simd/softmax/base-inl.hpp"
#include "simd/softmax/products.hpp"
#include "simd/softmax/softmax.hpp"

HWY_BEFORE_NAMESPACE();
namespace impls {
namespace HWY_NAMESPACE {
namespace {

using Words = hn::RebindToUnsigned<Floats>;
using WordVector = hn::Vec<Words>;

// Scores and weights are of so many keys at a time, sums over values of so many.
constexpr int64_t kStepKeys = 32, kChunkKeys = 64, kTileKeys = 256;
constexpr int kMostTerms = 3, kWeightTerms = 3;
constexpr int64_t kPairs = 16;  // of keys, in a step of V

/// The product of terms i of a and j of b, from 0, is left out where i + j is above this.
constexpr int kLastOrder = 2;

int terms_of(int32_t dtype) { return dtype == ATTEST_F32 ? 3 : dtype == ATTEST_F16 ? 2 : 1; }

/// The upper halves of the words of two vectors in one: those of `low` below those of `high`.
HWY_INLINE WordVector pair_up(Vector low, Vector high) {
  const Words word;
#if HWY_ARCH_X86 && HWY_CAP_GE512
  const __m512i shifted = _mm512_srli_epi32(_mm512_castps_si512(low.raw), 16);
  return WordVector{_mm512_mask_blend_epi16(0xaaaaaaaau, shifted, _mm512_castps_si512(high.raw))};
#else
  return hn::Or(hn::ShiftRight<16>(hn::BitCast(word, low)),
                hn::And(hn::BitCast(word, high), hn::Set(word, 0xffff0000u)));
#endif
}

/// 2^x as exp2_lanes() has it, without its bounds.
HWY_INLINE Vector weight_exp2(Vector x) {
#if HWY_ARCH_X86 && HWY_CAP_GE512
  const Vector f{_mm512_reduce_ps(x.raw, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  return Vector{_mm512_scalef_ps(exp2_fraction(f).raw, hn::Sub(x, f).raw)};
#else
  return exp2_lanes(x);
#endif
}

/// x rounded to bf16: towards zero, or half away from zero.
template <bool nearest>
HWY_INLINE Vector bf16_part(Vector x) {
  const Words word;
  auto bits = hn::BitCast(word, x);
  if constexpr (nearest) bits = hn::Add(bits, hn::Set(word, 0x8000u));
  return hn::BitCast(Floats(), hn::And(bits, hn::Set(word, 0xffff0000u)));
}

/// Pairs of the terms of two vectors, at `term` words from one another. Terms of operands are
/// rounded to nearest: then the products that are left out have either sign. Weights are cut, which
/// is faster; what they are multiplied by has either sign.
template <int terms, bool nearest>
HWY_INLINE void store_terms(Vector low, Vector high, uint32_t* at, int64_t term) {
  for (int t = 0; t < terms; ++t) {
    const Vector l = bf16_part<nearest>(low), h = bf16_part<nearest>(high);
    hn::Store(pair_up(l, h), Words(), at + t * term);
    low = hn::Sub(low, l);
    high = hn::Sub(high, h);
  }
}

/// Whether rounding to bf16 makes no infinity of any of these, which are numbers.
HWY_INLINE bool splits(Vector x) {
  const Floats d;
  return hn::AllTrue(d, hn::Le(hn::Abs(x), hn::Set(d, 3.38e38f)));
}

/// The same of what store_terms() cannot split: NaN and infinity are their own first term, and
/// terms of large numbers are cut.
inline void store_odd_terms(const float* low, const float* high, int terms, uint32_t* at,
                            int64_t term) {
  const auto cut = [](float& x) {
    const uint32_t bits = x == x ? float_bits(x) & 0xffff0000u : 0x7fc00000u;
    x = std::fabs(x) < kInfinity ? x - bits_float(bits) : 0.0f;
    return bits;
  };
  for (int l = 0; l < kLanes; ++l) {
    float a = low[l], b = high[l];
    for (int t = 0; t < terms; ++t) {
      const uint32_t first = cut(a) >> 16;
      at[t * term + l] = first | cut(b);
    }
  }
}

/// Pairs of terms of operands; whether all were finite.
template <int terms>
HWY_INLINE bool store_operands(Vector low, Vector high, uint32_t* at, int64_t term) {
  if (HWY_LIKELY(splits(low) && splits(high))) {
    store_terms<terms, true>(low, high, at, term);
    return true;
  }
  const Floats d;
  HWY_ALIGN float a[kLanes], b[kLanes];
  hn::Store(low, d, a);
  hn::Store(high, d, b);
  store_odd_terms(a, b, terms, at, term);
  return false;
}

/// Elements [at, at + kLanes) of a row of `count`; zeros beyond it.
template <class T>
HWY_INLINE Vector row_lanes(const T* row, int64_t at, int64_t count) {
  if (HWY_LIKELY(at + kLanes <= count)) return load_lanes(row + at);
  HWY_ALIGN float rest[kLanes] = {};
  for (int64_t n = at; n < count; ++n) rest[n - at] = widen(row[n]);
  return hn::Load(Floats(), rest);
}

/// A product c = a b in units, between which vectors work. a: [rows] of pairs; b: [pairs][columns].
/// A step of depth is 32; of a group of 16 rows, a unit is a step times one vector of columns.
template <int vectors, int terms_a, int terms_b>
struct Stream {
  const uint16_t* a;
  int64_t a_row, a_step, a_term;  // elements from row to row, step to step, term to term
  const uint32_t* b;
  int64_t b_term;
  float* c;
  int64_t groups = 0, steps = 0;
  bool add = false;       // whether c has something already
  bool portable = false;  // by vectors, all of it in drain()
  bool guarded = false;   // b of negative sign (a masked weight is -0.0) adds nothing
  int64_t step = 0;
  int vector = 0;

  static constexpr int64_t kWide = vectors * kLanes;

  int64_t units() const { return portable ? 0 : groups * steps * vectors; }

  /// The next unit.
  HWY_INLINE void advance() {
#if ATTEST_IMPLS_AMX
    if constexpr (kLanes == 16) {
      if (groups == 0 || portable) return;
      if (vector == 0) {
        if (step == 0) begin_sums();
        multiply<0>();
      } else if (vector == 1) {
        if constexpr (vectors > 1) multiply<1>();
      } else {
        if constexpr (vectors > 2) multiply<2>();
      }
      if (++vector < vectors) return;
      vector = 0;
      if (++step < steps) return;
      step = 0;
      store_sums();
      next_group();
    }
#endif
  }
  void drain() {
    for (; groups > 0 && portable; next_group()) {
      if (guarded)
        multiply_portably<true>();
      else
        multiply_portably<false>();
    }
    while (groups > 0) advance();
  }

 private:
  void next_group() {
    c += 16 * kWide;
    a += 16 * a_row;
    --groups;
  }

#if ATTEST_IMPLS_AMX
  // Tile registers 0 to 2 are sums, 3 to 5 terms of a, 6 and 7 terms of b.
  static constexpr int kA = 3, kB = 6;
  static constexpr int64_t kRowBytes = kWide * 4;
  // A sum that starts from zero is loaded too: it is slower to clear a tile before a product.
  alignas(64) static constexpr char kZeros[64] = {};

  template <int at>
  HWY_INLINE void begin_sum() {
    if (add)
      amx_tiles::load<at>(c + 16 * at, kRowBytes);
    else
      amx_tiles::load<at>(kZeros, 0);
  }
  HWY_INLINE void begin_sums() {
    begin_sum<0>();
    if constexpr (vectors > 1) begin_sum<1>();
    if constexpr (vectors > 2) begin_sum<2>();
  }
  HWY_INLINE void store_sums() {
    amx_tiles::store<0>(c, kRowBytes);
    if constexpr (vectors > 1) amx_tiles::store<1>(c + 16, kRowBytes);
    if constexpr (vectors > 2) amx_tiles::store<2>(c + 32, kRowBytes);
  }
  template <int term>
  HWY_INLINE void load_a() {
    if constexpr (term < terms_a)
      amx_tiles::load<kA + term>(a + step * a_step + term * a_term, 2 * a_row);
  }
  /// Adds the products of term j of b; the smallest first.
  template <int at, int j>
  HWY_INLINE void add_products() {
    if constexpr (j < terms_b) {
      constexpr int right = kB + j % 2;
      amx_tiles::load<right>(b + j * b_term + step * 16 * kWide + 16 * at, kRowBytes);
      if constexpr (terms_a > 2 && 2 + j <= kLastOrder) amx_tiles::multiply<at, kA + 2, right>();
      if constexpr (terms_a > 1 && 1 + j <= kLastOrder) amx_tiles::multiply<at, kA + 1, right>();
      amx_tiles::multiply<at, kA, right>();
    }
  }
  template <int at>
  HWY_INLINE void multiply() {
    if constexpr (at == 0) {
      load_a<0>();
      load_a<1>();
      load_a<2>();
    }
    add_products<at, 2>();
    add_products<at, 1>();
    add_products<at, 0>();
  }
#endif

  /// The next group by vectors, from sums of terms.
  template <bool guard>
  void multiply_portably() {
    const Floats d;
    const Words word;
    const auto lower = [&](WordVector x) HWY_ATTR { return hn::BitCast(d, hn::ShiftLeft<16>(x)); };
    const auto upper = [&](WordVector x) HWY_ATTR {
      return hn::BitCast(d, hn::And(x, hn::Set(word, 0xffff0000u)));
    };
    const auto term = [&](float left, Vector right, Vector first, Vector sum) HWY_ATTR {
      const Vector product = hn::Mul(hn::Set(d, left), right);
      if constexpr (!guard) return hn::Add(sum, product);
      const hn::RebindToSigned<Floats> number;
      const auto masked = hn::Lt(hn::BitCast(number, first), hn::Zero(number));
      return hn::Add(sum, hn::IfThenZeroElse(hn::RebindMask(d, masked), product));
    };
    for (int64_t r = 0; r < 16; ++r) {
      Vector sum[vectors];
      for (int v = 0; v < vectors; ++v)
        sum[v] = add ? hn::Load(d, c + r * kWide + v * kLanes) : hn::Zero(d);
      for (int64_t n = 0; n < 16 * steps; ++n) {
        float left[2] = {};
        for (int t = terms_a - 1; t >= 0; --t)
          for (int k = 0; k < 2; ++k)
            left[k] += widen(Bf16{a[t * a_term + n / 16 * a_step + r * a_row + n % 16 * 2 + k]});
        for (int v = 0; v < vectors; ++v) {
          Vector even = hn::Zero(d), odd = hn::Zero(d);
          WordVector pair = hn::Zero(word);
          for (int t = terms_b - 1; t >= 0; --t) {
            pair = hn::Load(word, b + t * b_term + n * kWide + v * kLanes);
            even = hn::Add(even, lower(pair));
            odd = hn::Add(odd, upper(pair));
          }
          sum[v] = term(left[0], even, lower(pair), sum[v]);
          sum[v] = term(left[1], odd, upper(pair), sum[v]);
        }
      }
      for (int v = 0; v < vectors; ++v) hn::Store(sum[v], d, c + r * kWide + v * kLanes);
    }
  }
};

struct TermsKernel {
  static constexpr bool kOnlyBf16 = false, kWholeTiles = true;
  static constexpr int64_t kFetchKeys = kStepKeys, kTileStep = kStepKeys;

  static Tiling tiling(int64_t head_dim, int64_t head_dim_v) {
    // A block's Q and O: a megabyte all together, which is half of the L2 of processors with AMX.
    const int64_t block = kBlock * (2 * kMostTerms * deep(head_dim) + 4 * tall(head_dim_v)),
                  blocks = std::clamp<int64_t>((int64_t{1} << 20) / block, 1, 1536 / kBlock);
    constexpr int64_t kProducts = 6;
    return {kTileKeys, blocks * kBlock, kLanes, true, kProducts};
  }

  static Room room_of(int64_t head_dim, int64_t head_dim_v) {
    const int64_t d = deep(head_dim), dv = tall(head_dim_v), step_floats = kStepKeys * kBlock,
                  chunk_floats = kWeightTerms * kChunkKeys / 2 * kBlock;
    Room room;
    room.scores = 2 * step_floats + dv * kBlock + 2 * chunk_floats;
    room.keys = kMostTerms * kTileKeys * d / 2;
    room.values = kMostTerms * dv * (kLanes + kTileKeys / 2);
    room.rows = kLanes * std::max(kMostTerms * d / 2, round_up(head_dim_v, 4));
    room.q = kMostTerms * d / 2 * kBlock + kLanes;
    room.o = dv * kBlock;
    return room;
  }

  explicit TermsKernel(const Slice& slice) : s(slice) {}

  const Slice& s;
  const Room room = room_of(s.head_dim, s.head_dim_v);
  const int64_t tile_keys = kTileKeys;
  const int64_t d = deep(s.head_dim), dv = tall(s.head_dim_v);
  const int terms = terms_of(s.dtype);
  const ScoreScale scale{s};
  const Products* const tiles =
      kLanes == 16 && demanded_float32() != Float32By::kPortableTerms ? amx() : nullptr;
  const ProductsScope scope{tiles};

  template <class T>
  bool fetches_lines() const {
    return false;
  }

  /// Whether all of a block's Q is finite: the word behind its terms.
  uint32_t& queries_finite(const Block& b) const {
    return *(static_cast<uint32_t*>(b.q) + kMostTerms * d / 2 * kBlock);
  }

  template <class T>
  void load_queries(Block& b, float* rows) const {
    const int64_t pitch = d / 2, wide = b.vectors * kLanes;
    uint32_t* const pairs = reinterpret_cast<uint32_t*>(rows);  // [terms][kLanes][pitch]
    bool finite = true;
    for (int64_t first = 0; first < wide; first += kLanes) {
      for (int64_t l = 0; l < kLanes; ++l) {
        const int64_t place = b.first + std::min(first + l, b.count - 1);
        const T* const q = static_cast<const T*>(s.q) + row_of(s, place) * s.q_stride;
        finite &= split_row(q, s.head_dim, kLanes * pitch, pairs + l * pitch);
      }
      if (s.softmax_scale < 0)
        for (int64_t n = 0; n < terms * kLanes * pitch; ++n) pairs[n] ^= 0x80008000u;
      for (int t = 0; t < terms; ++t)
        transpose_words(pairs + t * kLanes * pitch, pitch, pitch,
                        static_cast<uint32_t*>(b.q) + t * pitch * wide + first, wide);
    }
    queries_finite(b) = finite;
  }

  /// A row as pairs, [terms] at `term` words. Elements that are kLanes apart make a pair, which
  /// costs no shuffle; Q and K have the same pairs.
  template <class T>
  bool split_row(const T* row, int64_t depth, int64_t term, uint32_t* target) const {
    if (terms == 3) return split_row<3>(row, depth, term, target);
    if (terms == 2) return split_row<2>(row, depth, term, target);
    return split_row<1>(row, depth, term, target);
  }
  template <int of_row, class T>
  bool split_row(const T* row, int64_t depth, int64_t term, uint32_t* target) const {
    bool finite = true;
    for (int64_t c = 0; c < deep(depth); c += 2 * kLanes) {
      const Vector first = row_lanes(row, c, depth), second = row_lanes(row, c + kLanes, depth);
      finite &= store_operands<of_row>(first, second, target + c / 2, term);
    }
    return finite;
  }

  struct Tile {
    Range keys;
    const uint16_t* k;  // [terms][kTileKeys][d]
    const uint16_t* v;  // [terms][kTileKeys / 32][dv][32]
    bool keys_finite, values_finite;
  };

  template <class T>
  Tile load_tile(Range keys, const Scratch& scratch) const {
    Tile tile{keys, reinterpret_cast<const uint16_t*>(scratch.keys), nullptr, true, true};
    const int64_t count = keys.end - keys.begin, term = kTileKeys * d / 2;
    uint32_t* const k = reinterpret_cast<uint32_t*>(scratch.keys);
    for (int64_t n = 0; n < count; ++n)
      tile.keys_finite &= split_row(
          row_at(s, static_cast<const T*>(s.k), s.k_stride, s.k_page_stride, keys.begin + n),
          s.head_dim, term, k + n * d / 2);
    for (int t = 0; t < terms; ++t)
      std::memset(k + t * term + count * d / 2, 0,
                  static_cast<size_t>((tall(count) - count) * d / 2) * 4);
    uint32_t* const v = reinterpret_cast<uint32_t*>(scratch.values);
    tile.v = reinterpret_cast<const uint16_t*>(v);
    // A step's V in pairs of keys, behind the tile: [terms][pairs][dv]
    uint32_t* const pairs = v + kMostTerms * kTileKeys / 2 * dv;
    for (int64_t first = 0; first < deep(count); first += 2 * kLanes) {
      for (int64_t l = 0; l < kLanes; ++l)
        tile.values_finite &= split_values<T>(keys, first + 2 * l, pairs + l * dv);
      const int64_t step = first / 32, pair = first / 2 % kPairs;
      for (int t = 0; t < terms; ++t)
        transpose(pairs + t * kLanes * dv, v + (t * kTileKeys / 32 + step) * dv * kPairs + pair);
    }
    return tile;
  }

  /// [kLanes pairs][dv] into [dv][kPairs].
  void transpose(const uint32_t* pairs, uint32_t* target) const {
    HWY_ALIGN uint32_t columns[4 * kLanes];
    for (int64_t c = 0; c < dv; c += 4) {
      if constexpr (kLanes == kPairs) {
        transpose_words(pairs + c, dv, 4, target + c * kPairs, kPairs);
        continue;
      }
      transpose_words(pairs + c, dv, 4, columns, kLanes);
      for (int64_t n = 0; n < 4; ++n)
        std::memcpy(target + (c + n) * kPairs, columns + n * kLanes, kLanes * 4);
    }
  }

  /// Keys n and n + 1 of a tile as pairs; zeros beyond the tile.
  template <class T>
  bool split_values(Range keys, int64_t n, uint32_t* target) const {
    const T* row[2];
    int64_t depth[2];
    for (int64_t k = 0; k < 2; ++k) {
      const bool there = keys.begin + n + k < keys.end;
      row[k] = row_at(s, static_cast<const T*>(s.v), s.v_stride, s.v_page_stride,
                      there ? keys.begin + n + k : keys.begin);
      depth[k] = there ? s.head_dim_v : 0;
    }
    bool finite = true;
    for (int64_t c = 0; c < dv; c += kLanes) {
      const Vector even = row_lanes(row[0], c, depth[0]), odd = row_lanes(row[1], c, depth[1]);
      uint32_t* const at = target + c;
      const int64_t term = kLanes * dv;
      finite &= terms == 3   ? store_operands<3>(even, odd, at, term)
                : terms == 2 ? store_operands<2>(even, odd, at, term)
                             : store_operands<1>(even, odd, at, term);
    }
    return finite;
  }

  void attend_tile(const Block& b, Tile& tile, Range keys, const Scratch& scratch,
                   Ahead& ahead) const {
    if (scale.always || crosses_edge(s, b, keys))
      attend_tile<true>(b, tile, scratch, ahead);
    else
      attend_tile<false>(b, tile, scratch, ahead);
  }
  template <bool edited>
  void attend_tile(const Block& b, const Tile& tile, const Scratch& scratch, Ahead& ahead) const {
    if (terms == 3) return attend_tile<edited, 3>(b, tile, scratch, ahead);
    if (terms == 2) return attend_tile<edited, 2>(b, tile, scratch, ahead);
    attend_tile<edited, 1>(b, tile, scratch, ahead);
  }
  template <bool edited, int of_operands>
  void attend_tile(const Block& b, const Tile& tile, const Scratch& scratch, Ahead& ahead) const {
    if (b.vectors == 3) return attend_tile<edited, of_operands, 3>(b, tile, scratch, ahead);
    if (b.vectors == 2) return attend_tile<edited, of_operands, 2>(b, tile, scratch, ahead);
    attend_tile<edited, of_operands, 1>(b, tile, scratch, ahead);
  }

  /// The keys of a tile, counted in it, that a block attends to: whole chunks, of which it sees
  /// some. A row's bits do not depend on them: weights of hidden keys are 0.
  Range chunks_seen(const Block& b, Range keys) const {
    const int64_t begin = std::max(b.keys.begin, keys.begin) - keys.begin,
                  end = std::min(b.keys.end, keys.end) - keys.begin;
    return {begin / kChunkKeys * kChunkKeys,
            std::min(round_up(end, kChunkKeys), keys.end - keys.begin)};
  }

  /// The scores of the next step and the sums over the last chunk of values are multiplied between
  /// the weights of this step: tiles and vectors work at the same time.
  template <bool edited, int of_operands, int vectors>
  void attend_tile(const Block& b, const Tile& tile, const Scratch& scratch, Ahead& ahead) const {
    const Floats f;
    constexpr int64_t wide = vectors * kLanes, term = kChunkKeys / 2 * wide;
    const Range part = chunks_seen(b, tile.keys);
    float* scores = scratch.scores;
    float* next = scores + kStepKeys * kBlock;
    float* const sums = next + kStepKeys * kBlock;  // [dv][wide], of this tile
    uint32_t* weights = reinterpret_cast<uint32_t*>(sums + dv * kBlock);
    uint32_t* other = weights + kWeightTerms * kChunkKeys / 2 * kBlock;
    HWY_ALIGN float total[kBlock] = {};  // of the weights of this tile

    Stream<vectors, of_operands, of_operands> of_keys;
    Stream<vectors, of_operands, kWeightTerms> of_values;
    of_keys.portable =
        tiles == nullptr || (of_operands > 1 && !(tile.keys_finite && queries_finite(b)));
    of_values.portable = tiles == nullptr || !tile.values_finite;
    of_values.guarded = edited && !tile.values_finite;
    const auto start_keys = [&](int64_t at, float* target) {
      of_keys.a = tile.k + at * d;
      of_keys.a_row = d;
      of_keys.a_step = 32;
      of_keys.a_term = kTileKeys * d;
      of_keys.b = static_cast<const uint32_t*>(b.q);
      of_keys.b_term = d / 2 * wide;
      of_keys.c = target;
      of_keys.groups = std::min(kStepKeys, tall(part.end - at)) / 16;
      of_keys.steps = d / 32;
    };
    int64_t summed = part.begin;  // keys whose values are in the sums, or will be by of_values
    const auto start_values = [&](int64_t end) {
      of_values.drain();
      of_values.a = tile.v + summed * dv;
      of_values.a_row = 32;
      of_values.a_step = 32 * dv;
      of_values.a_term = kTileKeys * dv;
      of_values.b = weights + (summed - part.begin) % kChunkKeys / 2 * wide;
      of_values.b_term = term;
      of_values.c = sums;
      of_values.groups = dv / 16;
      of_values.steps = ceil_div(end - summed, 32);
      of_values.add = summed > part.begin;
      summed = end;
    };

    if constexpr (edited) pairs_ahead<Bf16>(s, b, tile.keys, 1).fetch();
    start_keys(part.begin, scores);
    of_keys.drain();
    for (int64_t at = part.begin; at < part.end; at += kStepKeys, std::swap(scores, next)) {
      const int64_t here = std::min(kStepKeys, part.end - at), in_chunk = at % kChunkKeys;
      const Range keys{tile.keys.begin + at, tile.keys.begin + at + here};
      ahead.fetch();
      Vector top[vectors];
      find_top<Floats, vectors, edited>(s, b, {keys, scores, scratch.pair_terms}, scale, top);
      if (exceeds_base(b, top)) {
        // Sums have the old base, and so have the weights that are not in them yet.
        if (summed < at) start_values(at);
        of_values.drain();
        raise_base(b, s.head_dim_v, top, [&](int v, Vector keep) HWY_ATTR {
          scale_rows(keep, 1, wide, v, total);
          if (summed > part.begin) scale_rows(keep, s.head_dim_v, wide, v, sums);
        });
      }
      if (at + kStepKeys < part.end) start_keys(at + kStepKeys, next);
      weigh<edited, vectors>(
          b, scores, here, weights + in_chunk / 2 * wide, term, total,
          [&]() HWY_ATTR {
            if (of_keys.groups > 0)
              of_keys.advance();
            else
              of_values.advance();
          },
          of_keys.units() + of_values.units());
      of_keys.drain();
      const bool last = at + kStepKeys >= part.end;
      if (!last && in_chunk + kStepKeys < kChunkKeys) continue;
      start_values(at + here);
      std::swap(weights, other);
    }
    of_values.drain();
    const auto add_to = [&](float* target, const float* source) HWY_ATTR {
      hn::Store(hn::Add(hn::Load(f, target), hn::Load(f, source)), f, target);
    };
    for (int64_t n = 0; n < wide; n += kLanes) add_to(b.sum + n, total + n);
    for (int64_t n = 0; n < s.head_dim_v * wide; n += kLanes) add_to(b.o + n, sums + n);
  }

  /// From the scores of `count` keys to terms of weights, [terms][pairs of keys][wide] at `term`
  /// words, zeros beyond `count`. Does `units` of other work on the way by calls of work().
  template <bool edited, int vectors, class Work>
  void weigh(const Block& b, const float* scores, int64_t count, uint32_t* weights, int64_t term,
             float* total, const Work& work, int64_t units) const {
    const Floats f;
    constexpr int64_t wide = vectors * kLanes;
    const Vector factor = hn::Set(f, scale.after());
    Vector base[vectors], sum[vectors];
    for (int v = 0; v < vectors; ++v) {
      base[v] = finite_base(f, b, v);
      sum[v] = hn::Load(f, total + v * kLanes);
    }
    const auto weight = [&](int64_t j, int v) HWY_ATTR {
      const Vector x = hn::Load(f, scores + j * wide + v * kLanes);
      Vector p = weight_exp2(hn::MulSub(x, factor, base[v]));
      sum[v] = hn::Add(sum[v], p);
      if constexpr (edited)
        p = hn::IfThenElse(hn::Eq(x, hn::Set(f, -kInfinity)), hn::Set(f, -0.0f), p);
      return p;
    };
    const auto store = [&](int64_t j, int v, Vector even, Vector odd) HWY_ATTR {
      store_terms<kWeightTerms, false>(even, odd, weights + j / 2 * wide + v * kLanes, term);
    };
    const int64_t each = ceil_div(units, std::max<int64_t>(1, count / 2 * vectors));
    int64_t j = 0;
    for (; j + 2 <= count; j += 2)
      for (int v = 0; v < vectors; ++v) {
        store(j, v, weight(j, v), weight(j + 1, v));
        for (int64_t n = 0; n < each; ++n) work();
      }
    for (; j < kStepKeys; j += 2)
      for (int v = 0; v < vectors; ++v)
        store(j, v, j < count ? weight(j, v) : hn::Zero(f), hn::Zero(f));
    for (int v = 0; v < vectors; ++v) hn::Store(sum[v], f, total + v * kLanes);
  }
};

const TileKernel* kernel() { return tile_kernel<TermsKernel>(); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace impls
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace impls {

HWY_EXPORT(kernel);

namespace {

/// Whether blocks of queries see whole tiles of keys, but for an edge.
bool sees_tiles(const attest_problem& problem) {
  constexpr int64_t kNarrow = 2 * 256;
  const attest_softmax_params& p = softmax_params(problem);
  if ((problem.features & (ATTEST_WITH_BLOCK_MASK | ATTEST_WITH_GLOBAL)) != 0) return false;
  return p.window_left < 0 || p.window_right < 0 || p.window_left + p.window_right >= kNarrow;
}

/// Whether so many queries are worth splitting the keys that they attend to. Source: measured on
/// Sapphire Rapids, at 16 to 512 queries and head sizes of 16 to 256.
bool pays(const attest_problem& problem, int64_t queries) {
  const int32_t dtype = problem.tensor[ATTEST_Q].dtype;
  const int64_t least = dtype == ATTEST_F32 ? 256 : 64;
  return queries >= least && softmax_params(problem).head_dim >= 32;
}

}  // namespace

bool Float32Tiles::by_terms(const attest_problem& problem, int64_t queries) {
  const Float32By demand = demanded_float32();
  if (demand == Float32By::kFma || !sees_tiles(problem)) return false;
  if (demand == Float32By::kPortableTerms) return true;
  if (amx() == nullptr || fma_kernel().tiling(1, 1).lanes != 16) return false;
  return demand == Float32By::kAmx || pays(problem, queries);
}

const TileKernel& Float32Tiles::kernel(const attest_problem& problem, int64_t queries) {
  return by_terms(problem, queries) ? *HWY_DYNAMIC_DISPATCH(kernel)() : fma_kernel();
}

void Float32Tiles::declare(attest_support& support, const attest_problem& problem,
                           int64_t queries) {
  support.stage[ATTEST_SOFTMAX_PROBABILITY].rel_error = kExp2Error;
  if (by_terms(problem, queries)) support.arithmetic = ATTEST_FLUSHES_SUBNORMALS;
}

const char* Float32Tiles::refusal() {
  const Float32By demand = demanded_float32();
  if (demand == Float32By::kUnknown) return "ATTEST_CPU_F32 is none of fma, amx, portable_terms";
  if (demand == Float32By::kAmx && amx() == nullptr)
    return "ATTEST_CPU_F32=amx: no AMX with bf16 here";
  return nullptr;
}

}  // namespace impls
#endif
