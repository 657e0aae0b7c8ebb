// Pairs of bf16 numbers, two to a word, as attend_bf16.cpp multiplies them: rows of V as pairs, the
// weights exp2(x) as pairs, and products of pairs on processors without instructions for them.
// Compiled once a Highway target: include it after foreach_target.h.
#if defined(ATTEST_IMPLS_BF16_PAIRS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEST_IMPLS_BF16_PAIRS_INL_HPP
#undef ATTEST_IMPLS_BF16_PAIRS_INL_HPP
#else
#define ATTEST_IMPLS_BF16_PAIRS_INL_HPP
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "simd/lanes-inl.hpp"
#include "simd/softmax/products.hpp"
#include "simd/storage.hpp"

HWY_BEFORE_NAMESPACE();
namespace impls {
namespace HWY_NAMESPACE {

using Words = hn::RebindToUnsigned<Floats>;
using WordVector = hn::Vec<Words>;
using Half = hn::Vec<HalfFloats>;
using HalfWords = hn::Vec<hn::RebindToUnsigned<HalfFloats>>;

// 2^f for 0 <= f < 1: the polynomial of degree 3 with the least relative error, 7.5e-5.
constexpr float kCubic[] = {0.999925256f, 0.695833206f, 0.226067916f, 0.0780240595f};

#if HWY_ARCH_X86 && HWY_CAP_GE512
constexpr int kDown = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;

/// x - floor(x); 0 of -inf.
HWY_INLINE Vector fraction(Vector x) { return Vector{_mm512_reduce_ps(x.raw, kDown)}; }
HWY_INLINE Half fraction(Half x) { return Half{_mm256_reduce_ps(x.raw, kDown)}; }

/// p * 2^floor(x).
HWY_INLINE Vector scaled(Vector p, Vector x) { return Vector{_mm512_scalef_ps(p.raw, x.raw)}; }
HWY_INLINE Half scaled(Half p, Half x) { return Half{_mm256_scalef_ps(p.raw, x.raw)}; }

/// 2^x for x <= 127, relative error kCoarseExp2Error; 0 far below, NaN of NaN.
template <class V>
HWY_INLINE V coarse_exp2(V x) {
  const hn::DFromV<V> d;
  const V f = fraction(x);
  V p = hn::MulAdd(hn::Set(d, kCubic[3]), f, hn::Set(d, kCubic[2]));
  p = hn::MulAdd(p, f, hn::Set(d, kCubic[1]));
  p = hn::MulAdd(p, f, hn::Set(d, kCubic[0]));
  return scaled(p, x);
}

// Elements of two rows in turn, of the first and of the second sixteen; 32 and up: of the second
// row. Then the upper halves of the words of two vectors in turn, and of two halves of vectors.
alignas(64) constexpr uint16_t kFirstPairs[32] = {0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,
                                                  37, 6,  38, 7,  39, 8,  40, 9,  41, 10, 42,
                                                  11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
alignas(64) constexpr uint16_t kLastPairs[32] = {16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21,
                                                 53, 22, 54, 23, 55, 24, 56, 25, 57, 26, 58,
                                                 27, 59, 28, 60, 29, 61, 30, 62, 31, 63};
alignas(64) constexpr uint16_t kUpperHalves[32] = {1,  33, 3,  35, 5,  37, 7,  39, 9,  41, 11,
                                                   43, 13, 45, 15, 47, 17, 49, 19, 51, 21, 53,
                                                   23, 55, 25, 57, 27, 59, 29, 61, 31, 63};
alignas(32) constexpr uint16_t kUpperHalvesOfHalf[16] = {1, 17, 3,  19, 5,  21, 7,  23,
                                                         9, 25, 11, 27, 13, 29, 15, 31};

HWY_INLINE WordVector upper_halves(WordVector low, WordVector high) {
  return WordVector{_mm512_permutex2var_epi16(low.raw, _mm512_load_si512(kUpperHalves), high.raw)};
}
HWY_INLINE HalfWords upper_halves(HalfWords low, HalfWords high) {
  const __m256i places = _mm256_load_si256(reinterpret_cast<const __m256i*>(kUpperHalvesOfHalf));
  return HalfWords{_mm256_permutex2var_epi16(low.raw, places, high.raw)};
}
#else
template <class V>
HWY_INLINE V coarse_exp2(V x) {
  return exp2_lanes(x);
}
template <class W>
HWY_INLINE W upper_halves(W low, W high) {
  const hn::DFromV<W> word;
  return hn::Or(hn::ShiftRight<16>(low), hn::And(high, hn::Set(word, 0xffff0000u)));
}
#endif

/// Weights of two keys as pairs of bf16, rounded to nearest: half up, which differs from half to
/// even in one of 65,536 numbers.
template <class V>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<hn::DFromV<V>>> pair_weights(V even, V odd) {
  const hn::RebindToUnsigned<hn::DFromV<V>> word;
  const auto half = hn::Set(word, 0x8000u);
  return upper_halves(hn::Add(hn::BitCast(word, even), half),
                      hn::Add(hn::BitCast(word, odd), half));
}

/// Products::multiply with Highway, in vectors of D. With `guarded`, an element of b of negative
/// sign (a masked weight is -0.0) adds nothing, even to Inf or NaN.
template <class D, int vectors, bool guarded>
void multiply_portably(const Left& a, int64_t rows, const uint32_t* b, int64_t depth, float* c,
                       bool add) {
  using V = hn::Vec<D>;
  const D d;
  const hn::RebindToUnsigned<D> word;
  constexpr int64_t wide = vectors * kLanes;
  const auto term = [&](V scalar, V weight, V sum) HWY_ATTR {
    if constexpr (!guarded) return hn::MulAdd(scalar, weight, sum);
    const hn::RebindToSigned<D> number;
    const auto masked = hn::Lt(hn::BitCast(number, weight), hn::Zero(number));
    return hn::Add(sum, hn::IfThenZeroElse(hn::RebindMask(d, masked), hn::Mul(scalar, weight)));
  };
  const auto upper = [&](auto x) HWY_ATTR {
    return hn::BitCast(d, hn::And(x, hn::Set(word, 0xffff0000u)));
  };
  const auto lower = [&](auto x) HWY_ATTR { return hn::BitCast(d, hn::ShiftLeft<16>(x)); };
  for (int64_t r = 0; r < rows; r += kRows) {
    float* const out = c + r * wide;
    V sum[kRows][vectors];
    for (int i = 0; i < kRows; ++i)
      for (int v = 0; v < vectors; ++v)
        sum[i][v] = add ? hn::Load(d, out + i * wide + v * kLanes) : hn::Zero(d);
    for (int64_t n = 0; 2 * n < depth; ++n) {
      V even[vectors], odd[vectors];
      for (int v = 0; v < vectors; ++v) {
        const auto pair = hn::Load(word, b + n * wide + v * kLanes);
        even[v] = lower(pair);
        odd[v] = upper(pair);
      }
      for (int i = 0; i < kRows; ++i) {
        uint32_t two;
        std::memcpy(&two, a.data + (r + i) * a.row_stride + n * a.pair_stride, 4);
        const auto pair = hn::Set(word, two);
        const V left = lower(pair), right = upper(pair);
        for (int v = 0; v < vectors; ++v)
          sum[i][v] = term(right, odd[v], term(left, even[v], sum[i][v]));
      }
    }
    for (int i = 0; i < kRows; ++i)
      for (int v = 0; v < vectors; ++v) hn::Store(sum[i][v], d, out + i * wide + v * kLanes);
  }
}

/// A row of `depth` elements, filled up with zeros to `pitch`.
inline void copy_row(const Bf16* source, int64_t depth, int64_t pitch, uint16_t* target) {
  std::memcpy(target, source, static_cast<size_t>(depth) * 2);
  std::memset(target + depth, 0, static_cast<size_t>(pitch - depth) * 2);
}

/// Two rows as pairs, filled up with zeros to `pitch`; there may be no second one.
inline void pair_up(const Bf16* first, const Bf16* second, int64_t depth, int64_t pitch,
                    uint32_t* target) {
  const Words word;
  const hn::Rebind<uint16_t, Floats> half;
  const auto load = [&](const Bf16* source)
                        HWY_ATTR { return hn::PromoteTo(word, hn::LoadU(half, &source->bits)); };
  int64_t c = 0;
#if HWY_ARCH_X86 && HWY_CAP_GE512
  for (; second != nullptr && c + 2 * kLanes <= depth; c += 2 * kLanes) {
    const __m512i low = _mm512_loadu_si512(first + c), high = _mm512_loadu_si512(second + c);
    _mm512_storeu_si512(target + c,
                        _mm512_permutex2var_epi16(low, _mm512_load_si512(kFirstPairs), high));
    _mm512_storeu_si512(target + c + kLanes,
                        _mm512_permutex2var_epi16(low, _mm512_load_si512(kLastPairs), high));
  }
#endif
  for (; second != nullptr && c + kLanes <= depth; c += kLanes)
    hn::StoreU(hn::Or(load(first + c), hn::ShiftLeft<16>(load(second + c))), word, target + c);
  for (; c < depth; ++c)
    target[c] = first[c].bits | static_cast<uint32_t>(second == nullptr ? 0 : second[c].bits) << 16;
  if (depth < pitch) std::memset(target + depth, 0, static_cast<size_t>(pitch - depth) * 4);
}

/// Whether none of `count` elements, a multiple of 32, is Inf or NaN.
inline bool all_finite(const uint16_t* data, int64_t count) {
  const hn::ScalableTag<uint16_t> d;
  constexpr int64_t lanes = static_cast<int64_t>(HWY_LANES(uint16_t));
  const auto exponent = hn::Set(d, 0x7f80);
  auto odd = hn::Zero(d);
  for (int64_t n = 0; n < count; n += lanes) {
    const auto bits = hn::And(hn::LoadU(d, data + n), exponent);
    odd = hn::Or(odd, hn::VecFromMask(d, hn::Eq(bits, exponent)));
  }
  return hn::AllTrue(d, hn::Eq(odd, hn::Zero(d)));
}

}  // namespace HWY_NAMESPACE
}  // namespace impls
HWY_AFTER_NAMESPACE();
#endif
