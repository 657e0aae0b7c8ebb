// Vector pieces that the CPU kernels share, compiled once a Highway target: register tiles, exp2,
// storage types, transposes. Include it after foreach_target.h. Source of the tile sizes: measured
// on Zen 4, Zen 5 and Granite Rapids.
#if defined(ATTEST_IMPLS_LANES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEST_IMPLS_LANES_INL_HPP
#undef ATTEST_IMPLS_LANES_INL_HPP
#else
#define ATTEST_IMPLS_LANES_INL_HPP
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "attest.h"
#include "simd/sizes.hpp"
#include "simd/storage.hpp"

HWY_BEFORE_NAMESPACE();
namespace impls {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;
constexpr int kLanes = static_cast<int>(HWY_LANES(float));
/// Half of a vector of 16, else a whole vector. Zen 4 carries out instructions of 512 bits in two
/// halves: of these it does twice as many in the same time.
#if HWY_TARGET == HWY_SCALAR  // where Highway 0.16 makes two lanes of it, and has but one
using HalfFloats = Floats;
#else
using HalfFloats = hn::CappedTag<float, 8>;
#endif
constexpr int kHalfLanes = static_cast<int>(hn::MaxLanes(HalfFloats()));
constexpr int kVectors = 3;  // vectors of a full register tile: 3 * kLanes columns
// Rows of a register tile: 8 x 3 accumulators of 32 registers, 4 x 3 of 16.
constexpr int kRows = (HWY_LANES(float) == 16 || HWY_ARCH_ARM_A64) ? 8 : 4;

/// Rows of floats are padded to whole vectors and register tiles of every target.
constexpr int64_t pitch(int64_t depth) { return round_up(depth, 16); }
/// To whole vectors of this target.
constexpr int64_t columns(int64_t depth) { return round_up(depth, kLanes); }

/// Calls step(first column, vectors of it) for each chunk of up to kVectors vectors of `depth`
/// columns.
template <class Step>
void for_chunks(int64_t depth, const Step& step) {
  const int64_t all = columns(depth) / kLanes;
  const int64_t chunks = ceil_div(all, kVectors);
  for (int64_t n = 0; n < chunks; ++n) {
    const int64_t begin = all * n / chunks, vectors = all * (n + 1) / chunks - begin;
    if (vectors == 3) step(begin * kLanes, std::integral_constant<int, 3>());
    if (vectors == 2) step(begin * kLanes, std::integral_constant<int, 2>());
    if (vectors == 1) step(begin * kLanes, std::integral_constant<int, 1>());
  }
}

/// Calls step(first row, rows of it) for register tiles of `rows` of `count` rows. The last tile
/// has half as many rows if no more are left.
template <int rows, class Step>
HWY_INLINE void for_row_tiles(int64_t count, const Step& step) {
  int64_t first = 0;
  for (; count - first > rows / 2; first += rows) step(first, std::integral_constant<int, rows>());
  if (first < count) step(first, std::integral_constant<int, rows / 2>());
}

struct Nothing {
  HWY_INLINE void operator()(int64_t) const {}
};

/// acc[r][0 .. vectors * kLanes) = sum_c row[r][c] * columns[c * stride + ...], c < depth,
/// r < rows; columns and stride are of whole vectors. Of V = half vectors the lower halves
/// of columns and acc take part. Calls beside(c) in each step.
template <int vectors, class V, int rows, class Beside = Nothing>
HWY_INLINE void dot_tile(const float* const* row, const float* HWY_RESTRICT columns, int64_t stride,
                         int64_t depth, V (&acc)[rows][vectors], const Beside& beside = Beside()) {
  const hn::DFromV<V> d;
  const float* base[rows];
  for (int r = 0; r < rows; ++r) base[r] = row[r];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) acc[r][v] = hn::Zero(d);
  for (int64_t c = 0; c < depth; ++c, columns += stride) {
    beside(c);
    V column[vectors];
    for (int v = 0; v < vectors; ++v) column[v] = hn::Load(d, columns + v * kLanes);
    for (int r = 0; r < rows; ++r) {
      const V scalar = hn::Set(d, base[r][c]);
      for (int v = 0; v < vectors; ++v) acc[r][v] = hn::MulAdd(scalar, column[v], acc[r][v]);
    }
  }
}
/// The same of packed columns.
template <int vectors, class V, int rows, class Beside = Nothing>
HWY_INLINE void dot_tile(const float* const* row, const float* HWY_RESTRICT columns, int64_t depth,
                         V (&acc)[rows][vectors], const Beside& beside = Beside()) {
  dot_tile<vectors>(row, columns, vectors * kLanes, depth, acc, beside);
}

/// acc[r][...] = sum_j left[j * stride + r] * right[j * right_stride + ...], j < count, r < rows.
/// With `guarded` a right element of negative sign (a masked weight is -0.0) adds nothing, even to
/// Inf or NaN. V as in dot_tile. Calls beside(j) in each step.
template <int vectors, bool guarded, class V, int rows, class Beside = Nothing>
HWY_INLINE void outer_tile(const float* HWY_RESTRICT left, int64_t stride,
                           const float* HWY_RESTRICT right, int64_t right_stride, int64_t count,
                           V (&acc)[rows][vectors], const Beside& beside = Beside()) {
  const hn::DFromV<V> d;
  [[maybe_unused]] const hn::RebindToSigned<hn::DFromV<V>> number;
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) acc[r][v] = hn::Zero(d);
  for (int64_t j = 0; j < count; ++j, left += stride, right += right_stride) {
    beside(j);
    V weight[vectors];
    for (int v = 0; v < vectors; ++v) weight[v] = hn::LoadU(d, right + v * kLanes);
    for (int r = 0; r < rows; ++r) {
      const V scalar = hn::Set(d, left[r]);
      for (int v = 0; v < vectors; ++v) {
        if constexpr (guarded) {
          const V term = hn::Mul(scalar, weight[v]);
          const auto masked = hn::Lt(hn::BitCast(number, weight[v]), hn::Zero(number));
          acc[r][v] = hn::Add(acc[r][v], hn::IfThenZeroElse(hn::RebindMask(d, masked), term));
        } else {
          acc[r][v] = hn::MulAdd(scalar, weight[v], acc[r][v]);
        }
      }
    }
  }
}

/// x and y of pairs that lie in turn in memory, from `pairs` on.
HWY_INLINE void load_pairs(const float* pairs, Vector& x, Vector& y) {
  const Floats d;
#if HWY_MAJOR >= 1
  hn::LoadInterleaved2(d, pairs, x, y);
#else  // Ubuntu 22.04 has 0.16
  HWY_ALIGN float parts[2][kLanes];
  for (int n = 0; n < 2 * kLanes; ++n) parts[n % 2][n / 2] = pairs[n];
  x = hn::Load(d, parts[0]);
  y = hn::Load(d, parts[1]);
#endif
}
/// The reverse. `pairs` is aligned.
HWY_INLINE void store_pairs(Vector x, Vector y, float* pairs) {
  const Floats d;
#if HWY_MAJOR >= 1
  hn::StoreInterleaved2(x, y, d, pairs);
#else
  HWY_ALIGN float parts[2][kLanes];
  hn::Store(x, d, parts[0]);
  hn::Store(y, d, parts[1]);
  for (int n = 0; n < 2 * kLanes; ++n) pairs[n] = parts[n % 2][n / 2];
#endif
}

/// max(floor, x) and min(ceiling, x), NaN where x is. Only vectors of x86 return the second operand
/// where either is NaN; those of Arm return the number.
template <class V>
HWY_INLINE V at_least(V floor, V x) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
  return hn::Max(floor, x);
#else
  return hn::IfThenElse(hn::Lt(x, floor), floor, x);
#endif
}
template <class V>
HWY_INLINE V at_most(V ceiling, V x) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
  return hn::Min(ceiling, x);
#else
  return hn::IfThenElse(hn::Gt(x, ceiling), ceiling, x);
#endif
}

/// 2^f for |f| <= 0.5. Degree 5; largest relative error kExp2Error (storage.hpp); exactly 1 at 0:
/// what rescales a row must not drift.
template <class V>
HWY_INLINE V exp2_fraction(V f) {
  const hn::DFromV<V> d;
  V p = hn::MulAdd(hn::Set(d, 0.0013264727f), f, hn::Set(d, 0.0096715130f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.0555073358f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.2402224243f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.6931470037f));
  return hn::MulAdd(p, f, hn::Set(d, 1.0f));
}

/// 2^(n + f) for |f| <= 0.5 and shifted = n + 127 + 1.5 * 2^23, whose low bits are the biased
/// exponent.
template <class V>
HWY_INLINE V exp2_parts(V f, V shifted) {
  const hn::DFromV<V> d;
  const hn::RebindToUnsigned<hn::DFromV<V>> bits;
  return hn::Mul(exp2_fraction(f), hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(bits, shifted))));
}
// 1.5 * 2^23, where a float's last bit is 1, and the exponent's bias
constexpr float kExponentShift = 12583039.0f;

/// 2^x for x <= 127, 0 below -126.5, NaN of NaN, and exactly 1 at 0.
template <class V>
HWY_INLINE V exp2_lanes(V x) {
  const hn::DFromV<V> d;
  const V shift = hn::Set(d, kExponentShift);
  x = at_least(hn::Set(d, -127.0f), x);
  const V shifted = hn::Add(x, shift);
  return exp2_parts(hn::Sub(x, hn::Sub(shifted, shift)), shifted);
}

/// e^x for x <= 0, anything finite above; 0 below -87.7, NaN of NaN. log2(e) in two parts keeps the
/// error at that of exp2.
template <class V>
HWY_INLINE V exp_lanes(V x) {
  const hn::DFromV<V> d;
  const V shift = hn::Set(d, kExponentShift), log2e = hn::Set(d, 1.44269502f);
  x = at_most(hn::Zero(d), at_least(hn::Set(d, -88.0f), x));
  const V shifted = hn::MulAdd(x, log2e, shift);
  const V whole = hn::Sub(shifted, shift);
  return exp2_parts(hn::MulAdd(x, hn::Set(d, 1.92596299e-8f), hn::MulSub(x, log2e, whole)),
                    shifted);
}

/// tanh x, relative error about 2e-7: an odd polynomial near 0 (Cephes tanhf), 1 - 2 / (exp(2 |x|)
/// + 1) beyond.
template <class V>
HWY_INLINE V tanh_lanes(V x) {
  const hn::DFromV<V> d;
  const V size = hn::Abs(x), square = hn::Mul(x, x);
  V p = hn::MulAdd(hn::Set(d, -5.70498872745e-3f), square, hn::Set(d, 2.06390887954e-2f));
  p = hn::MulAdd(p, square, hn::Set(d, -5.37397155531e-2f));
  p = hn::MulAdd(p, square, hn::Set(d, 1.33314422036e-1f));
  p = hn::MulAdd(p, square, hn::Set(d, -3.33332819422e-1f));
  const V near = hn::MulAdd(hn::Mul(p, square), x, x);
  const V power = exp2_lanes(at_most(hn::Set(d, 60.0f), hn::Mul(size, hn::Set(d, 2.885390082f))));
  const V far =
      hn::Sub(hn::Set(d, 1.0f), hn::Div(hn::Set(d, 2.0f), hn::Add(power, hn::Set(d, 1.0f))));
  return hn::IfThenElse(hn::Lt(size, hn::Set(d, 0.625f)), near, hn::CopySign(far, x));
}

// Vector conversions of f16 where the target has instructions for it; by bits elsewhere.
#undef ATTEST_IMPLS_F16_LANES
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || (HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64)
#define ATTEST_IMPLS_F16_LANES 1
#else
#define ATTEST_IMPLS_F16_LANES 0
#endif

/// A vector of elements in storage, as floats in lanes as D has them. `source` needs the alignment
/// of its element only.
template <class D>
HWY_INLINE hn::Vec<D> load_as(D d, const float* source) {
  return hn::LoadU(d, source);
}
template <class D>
HWY_INLINE hn::Vec<D> load_as(D d, const Bf16* source) {
  const hn::Rebind<uint16_t, D> half;
  const hn::RebindToUnsigned<D> word;
  const auto raw = hn::LoadU(half, reinterpret_cast<const uint16_t*>(source));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(word, raw)));
}
template <class D>
HWY_INLINE hn::Vec<D> load_as(D d, const F16* source) {
#if ATTEST_IMPLS_F16_LANES
  const hn::Rebind<hwy::float16_t, D> half;
  return hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(source)));
#else
  HWY_ALIGN float wide[hn::MaxLanes(D())];
  for (size_t l = 0; l < hn::MaxLanes(D()); ++l) wide[l] = widen(source[l]);
  return hn::Load(d, wide);
#endif
}
/// The same in whole vectors.
template <class T>
HWY_INLINE Vector load_lanes(const T* source) {
  return load_as(Floats(), source);
}

/// One vector, rounded to nearest even, into storage.
HWY_INLINE void store_lanes(Vector value, float* target) { hn::StoreU(value, Floats(), target); }
HWY_INLINE void store_lanes(Vector value, F16* target) {
#if ATTEST_IMPLS_F16_LANES
  const hn::Rebind<hwy::float16_t, Floats> half;
  hn::StoreU(hn::DemoteTo(half, value), half, reinterpret_cast<hwy::float16_t*>(target));
#else
  HWY_ALIGN float wide[kLanes];
  hn::Store(value, Floats(), wide);
  for (int l = 0; l < kLanes; ++l) target[l] = narrow<F16>(wide[l]);
#endif
}
/// Rounded to bf16, in the low half of each word.
HWY_INLINE hn::Vec<hn::RebindToUnsigned<Floats>> bf16_words(Vector value) {
  const hn::RebindToUnsigned<Floats> word;
  const auto bits = hn::BitCast(word, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(word, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(word, 0x7fff)));
  const auto quiet = hn::Or(bits, hn::Set(word, 0x400000));
  return hn::ShiftRight<16>(
      hn::IfThenElse(hn::RebindMask(word, hn::Ne(value, value)), quiet, rounded));
}
HWY_INLINE void store_lanes(Vector value, Bf16* target) {
  const hn::RebindToSigned<Floats> number;
  const hn::Rebind<uint16_t, Floats> half;
  hn::StoreU(hn::DemoteTo(half, hn::BitCast(number, bf16_words(value))), half,
             reinterpret_cast<uint16_t*>(target));
}

/// target[i] = factor * source[i], i < count. The last vector overlaps the one before it.
template <class T>
HWY_INLINE void widen_row(const T* source, int64_t count, float factor, float* target) {
  const Floats d;
  const Vector scale = hn::Set(d, factor);
  if (count < kLanes) {
    for (int64_t i = 0; i < count; ++i) target[i] = factor * widen(source[i]);
    return;
  }
  for (int64_t i = 0;; i += kLanes) {
    if (i + kLanes > count) {
      if (i == count) break;
      i = count - kLanes;
    }
    hn::StoreU(hn::Mul(scale, load_lanes(source + i)), d, target + i);
  }
}

template <class T>
HWY_INLINE void narrow_row(const float* source, int64_t count, T* target) {
  const Floats d;
  if (count < kLanes) {
    for (int64_t i = 0; i < count; ++i) target[i] = narrow<T>(source[i]);
    return;
  }
  for (int64_t i = 0;; i += kLanes) {
    if (i + kLanes > count) {
      if (i == count) break;
      i = count - kLanes;
    }
    store_lanes(hn::LoadU(d, source + i), target + i);
  }
}

#if HWY_TARGET == HWY_SCALAR
/// Four columns of kLanes rows: column[c][l] = rows[l * stride + c].
HWY_INLINE void load_columns(const float* rows, int64_t /*stride*/, Vector (&column)[4]) {
  for (int c = 0; c < 4; ++c) column[c] = hn::Set(Floats(), rows[c]);
}
/// columns[c][l] = factor * rows[l * stride + c] for l < kLanes, c < count (a multiple of 4);
/// columns has `pitch` floats a row.
HWY_INLINE void transpose_in(const float* rows, int64_t stride, int64_t count, float factor,
                             float* columns, int64_t pitch) {
  for (int64_t c = 0; c < count; ++c)
    for (int l = 0; l < kLanes; ++l) columns[c * pitch + l] = factor * rows[l * stride + c];
}
/// The same for words of any kind.
HWY_INLINE void transpose_words(const uint32_t* rows, int64_t stride, int64_t count,
                                uint32_t* columns, int64_t pitch) {
  for (int64_t c = 0; c < count; ++c)
    for (int l = 0; l < kLanes; ++l) columns[c * pitch + l] = rows[l * stride + c];
}
/// The way back: rows[l * stride + c] = factor[l] * columns[c][l]. Whether one of them is infinite
/// or NaN.
HWY_INLINE bool transpose_out(const float* columns, int64_t pitch, int64_t count, Vector factor,
                              float* rows, int64_t stride) {
  float poison = 0;
  for (int64_t c = 0; c < count; ++c) {
    for (int l = 0; l < kLanes; ++l) {
      rows[l * stride + c] = hn::GetLane(factor) * columns[c * pitch + l];
      poison += 0.0f * rows[l * stride + c];
    }
  }
  return poison != 0;
}
#else
/// A vector whose 128-bit block b is the four floats at base + 4 * b * stride, and back.
template <class D>
HWY_INLINE hn::Vec<D> load_blocks(D d, const float* base, int64_t stride) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return hn::LoadU(d, base);
  } else {
    const hn::Half<D> half;
    constexpr int64_t lanes = hn::MaxLanes(D()) / 2;
    return hn::Combine(d, load_blocks(half, base + lanes * stride, stride),
                       load_blocks(half, base, stride));
  }
}
template <class D>
HWY_INLINE void store_blocks(D d, hn::Vec<D> value, float* base, int64_t stride) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    hn::StoreU(value, d, base);
  } else {
    const hn::Half<D> half;
    constexpr int64_t lanes = hn::MaxLanes(D()) / 2;
    store_blocks(half, hn::LowerHalf(half, value), base, stride);
    store_blocks(half, hn::UpperHalf(half, value), base + lanes * stride, stride);
  }
}

/// Transposes the 4 x 4 matrix that the same 128-bit block of four vectors makes, for every block.
HWY_INLINE void transpose_blocks(Vector (&x)[4]) {
  const Floats d;
  const hn::Repartition<uint64_t, Floats> pairs;
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, x[0], x[1]));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, x[2], x[3]));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, x[0], x[1]));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, x[2], x[3]));
  x[0] = hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23));
  x[1] = hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23));
  x[2] = hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23));
  x[3] = hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23));
}

/// Four columns of kLanes rows: column[c][l] = rows[l * stride + c].
HWY_INLINE void load_columns(const float* rows, int64_t stride, Vector (&column)[4]) {
  for (int r = 0; r < 4; ++r) column[r] = load_blocks(Floats(), rows + r * stride, stride);
  transpose_blocks(column);
}

/// columns[c][l] = factor * rows[l * stride + c] for l < kLanes, c < count (a multiple of 4);
/// columns has `pitch` floats a row.
HWY_INLINE void transpose_in(const float* rows, int64_t stride, int64_t count, float factor,
                             float* columns, int64_t pitch) {
  const Floats d;
  const Vector scale = hn::Set(d, factor);
  for (int64_t c = 0; c < count; c += 4) {
    Vector x[4];
    load_columns(rows + c, stride, x);
    for (int r = 0; r < 4; ++r) hn::Store(hn::Mul(x[r], scale), d, columns + (c + r) * pitch);
  }
}
/// The same for words of any kind.
HWY_INLINE void transpose_words(const uint32_t* rows, int64_t stride, int64_t count,
                                uint32_t* columns, int64_t pitch) {
  const Floats d;
  const float* const source = reinterpret_cast<const float*>(rows);
  for (int64_t c = 0; c < count; c += 4) {
    Vector x[4];
    load_columns(source + c, stride, x);
    for (int r = 0; r < 4; ++r)
      hn::Store(x[r], d, reinterpret_cast<float*>(columns) + (c + r) * pitch);
  }
}
/// The way back: rows[l * stride + c] = factor[l] * columns[c][l]. Whether one of them is infinite
/// or NaN.
HWY_INLINE bool transpose_out(const float* columns, int64_t pitch, int64_t count, Vector factor,
                              float* rows, int64_t stride) {
  const Floats d;
  Vector poison = hn::Zero(d);
  for (int64_t c = 0; c < count; c += 4) {
    Vector x[4];
    for (int r = 0; r < 4; ++r) {
      x[r] = hn::Mul(hn::Load(d, columns + (c + r) * pitch), factor);
      poison = hn::MulAdd(x[r], hn::Zero(d), poison);
    }
    transpose_blocks(x);
    for (int r = 0; r < 4; ++r) store_blocks(d, x[r], rows + r * stride + c, stride);
  }
  return !hn::AllTrue(d, hn::Eq(poison, hn::Zero(d)));
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace impls
HWY_AFTER_NAMESPACE();
#endif
