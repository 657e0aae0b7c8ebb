// The inner loops: two queries by 32 columns at a time, in the compiler's generic vectors, compiled
// for AVX2 too where there is x86.
#include "mutants/operations/tiles.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "mutants/operations/fast_exp.hpp"

namespace mutants {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kHidden = -kInfinity;
typedef float Vector
    __attribute__((vector_size(32), aligned(4), may_alias));  // 8 floats, any alignment
constexpr int64_t kLanes = 8, kVectors = kChannels / kLanes;

/// c[2][32] += a[2][depth] b[depth][32], summed apart from c; strides in floats.
ATTEST_INLINE void multiply(const float* a, int64_t a_stride, const float* b, int64_t b_stride,
                            int64_t depth, float* c, int64_t c_stride) {
  Vector sum[2][kVectors] = {};
  for (int64_t k = 0; k < depth; ++k) {
    const Vector* row = reinterpret_cast<const Vector*>(b + k * b_stride);
    for (int n = 0; n < kVectors; ++n) {
      sum[0][n] += a[k] * row[n];
      sum[1][n] += a[a_stride + k] * row[n];
    }
  }
  for (int r = 0; r < 2; ++r)
    for (int n = 0; n < kVectors; ++n) reinterpret_cast<Vector*>(c + r * c_stride)[n] += sum[r][n];
}

ATTEST_INLINE float power_of_two(int32_t n) {
  const uint32_t bits = static_cast<uint32_t>(n + 127) << 23;
  float power;
  std::memcpy(&power, &bits, sizeof power);
  return power;
}

/// exp(x) for x <= 0 by a parabola between powers of two, to 0.2 %.
float exp_coarse(float x) {
  if (x < -87) return 0;
  const float n = std::floor(x * 1.44269504f), f = x * 1.44269504f - n;
  return (1 + f * (0.65617f + 0.34383f * f)) * power_of_two(static_cast<int32_t>(n));
}

/// Scores become logits: terms, and what lies outside of the row's keys.
ATTEST_INLINE void to_logits(const Rows& rows, int64_t i, const Tile& tile, float* p) {
  if (rows.mutation == Mutation::kScoreF16)
    for (int64_t j = 0; j < kTile; ++j) p[j] = rounded(p[j], 11);
  if (rows.largest_score < kInfinity)
    for (int64_t j = 0; j < kTile; ++j)
      p[j] = std::fabs(p[j]) > rows.largest_score ? std::copysign(kInfinity, p[j]) : p[j];
  if (rows.begin[i] > tile.begin || rows.end[i] < tile.begin + kTile)
    for (int64_t j = 0; j < kTile; ++j)
      if (tile.begin + j < rows.begin[i] || tile.begin + j >= rows.end[i]) p[j] = kHidden;
  if (rows.terms) rows.terms->apply(i, tile.begin, kTile, p);
  if (rows.mutation == Mutation::kPaddingCounted && rows.end[i] > rows.begin[i])
    for (int64_t j = tile.keys - tile.begin; j < kTile; ++j) p[j] = 0;
  const int64_t odd = rows.odd_key - tile.begin;
  if (odd >= 0 && odd < kTile && rows.odd_key >= 0)
    p[odd] += rows.mutation == Mutation::kDroppedKey ? kHidden : 0.69314718f;
}

ATTEST_INLINE float largest(const float* p, float least) {
  float most[kLanes];
  for (int64_t n = 0; n < kLanes; ++n) most[n] = p[n];
  for (int64_t j = kLanes; j < kTile; j += kLanes)
    for (int64_t n = 0; n < kLanes; ++n) most[n] = p[j + n] > most[n] ? p[j + n] : most[n];
  for (int64_t n = 0; n < kLanes; ++n) least = most[n] > least ? most[n] : least;
  return least;
}

/// Logits of one row become probabilities; the row's top, total and sum are brought up to date, but
/// for this tile's p v.
ATTEST_INLINE void to_probabilities(const Rows& rows, int64_t i, float* p) {
  const Mutation mutation = rows.mutation;
  const float old = rows.top[i], top = mutation == Mutation::kNoMax ? 0 : largest(p, old);
  if (mutation == Mutation::kCoarseExp)
    for (int64_t j = 0; j < kTile; ++j) p[j] = p[j] == kHidden ? 0 : exp_coarse(p[j] - top);
  else if (mutation == Mutation::kNoMax)
    for (int64_t j = 0; j < kTile; ++j) p[j] = std::exp(p[j]);
  else
    for (int64_t j = 0; j < kTile; ++j) p[j] = p[j] == kHidden ? 0 : exp_negative(p[j] - top);
  if (mutation == Mutation::kExpOf15Bits)
    for (int64_t j = 0; j < kTile; ++j) p[j] = rounded(p[j], 15);
  float total[kLanes] = {}, add = 0;
  for (int64_t j = 0; j < kTile; j += kLanes)
    for (int64_t n = 0; n < kLanes; ++n) total[n] += p[j + n];
  for (int64_t n = 0; n < kLanes; ++n) add += total[n];
  if (mutation == Mutation::kProbabilityBf16)
    for (int64_t j = 0; j < kTile; ++j) p[j] = rounded(p[j], 8);
  const float keep = top > old ? exp_negative(old - top) : 1;
  rows.total[i] = rows.total[i] * (mutation == Mutation::kTotalNotRescaled ? 1 : keep) + add;
  rows.top[i] = top;
  if (keep == 1) return;
  if (mutation == Mutation::kSumNotRescaled && rows.flag[i] && old != kHidden) {
    rows.flag[i] = 0;
    return;
  }
  float* sum = rows.sum + i * rows.channels;
  for (int64_t d = 0; d < rows.channels; ++d) sum[d] *= keep;
}

/// sum += p v key by key, so that an Inf or NaN of a hidden key stays where it is.
void add_wild(const Rows& rows, int64_t i, const Tile& tile, const float* p,
              const float* logits_hidden) {
  for (int64_t j = 0; j < kTile; ++j) {
    if (logits_hidden[j] != 0) continue;
    for (int64_t d = 0; d < rows.channels; ++d)
      rows.sum[i * rows.channels + d] += p[j] * tile.v[j * rows.channels + d];
  }
}

/// Both steps for one row; where V is wild, `hidden` says which keys the row does not see.
ATTEST_INLINE void weigh(const Rows& rows, int64_t i, const Tile& tile, float* p, float* hidden) {
  to_logits(rows, i, tile, p);
  if (tile.wild)
    for (int64_t j = 0; j < kTile; ++j) hidden[j] = p[j] == kHidden ? 1 : 0;
  to_probabilities(rows, i, p);
}

ATTEST_INLINE void round_sums(const Rows& rows, int64_t i) {
  for (int64_t d = 0; d < 2 * rows.channels; ++d)
    rows.sum[i * rows.channels + d] = rounded(rows.sum[i * rows.channels + d], 11);
}

ATTEST_INLINE void add_tile_inline(const Rows& rows, const Tile& tile) {
  for (int64_t i = 0; i < rows.rows; i += 2) {
    const bool seen = (rows.begin[i] < tile.begin + kTile && rows.end[i] > tile.begin) ||
                      (rows.begin[i + 1] < tile.begin + kTile && rows.end[i + 1] > tile.begin);
    if (!seen) continue;
    alignas(32) float p[2][kTile] = {}, hidden[2][kTile];
    for (int64_t j = 0; j < kTile; j += kChannels)
      multiply(rows.q + i * rows.head_dim, rows.head_dim, tile.kt + j, kTile, rows.head_dim,
               &p[0][j], kTile);
    if (rows.mutation == Mutation::kAccumulatorF16) round_sums(rows, i);
    weigh(rows, i, tile, p[0], hidden[0]);
    weigh(rows, i + 1, tile, p[1], hidden[1]);
    if (tile.wild) {
      add_wild(rows, i, tile, p[0], hidden[0]);
      add_wild(rows, i + 1, tile, p[1], hidden[1]);
    } else {
      for (int64_t d = 0; d < rows.channels; d += kChannels)
        multiply(p[0], kTile, tile.v + d, rows.channels, kTile, rows.sum + i * rows.channels + d,
                 rows.channels);
    }
  }
}

ATTEST_INLINE float half(uint16_t bits) {
  const uint32_t magnitude = bits & 0x7fff;
  uint32_t wide = magnitude << 13;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  value *= 0x1p112f;  // brings subnormals to their place too
  std::memcpy(&wide, &value, sizeof value);
  wide |= (magnitude >= 0x7c00 ? 0x7f800000u : 0u) | static_cast<uint32_t>(bits & 0x8000) << 16;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

ATTEST_INLINE void widen_half_inline(const uint16_t* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = half(from[i]);
}
ATTEST_INLINE void add_scaled_inline(float a, const float* b, int64_t count, float* c) {
  for (int64_t i = 0; i < count; ++i) c[i] += a * b[i];
}
ATTEST_INLINE float product_inline(const float* a, const float* b, int64_t count) {
  Vector sums = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    sums += *reinterpret_cast<const Vector*>(a + i) * *reinterpret_cast<const Vector*>(b + i);
  float sum = (sums[0] + sums[4] + (sums[2] + sums[6])) + (sums[1] + sums[5] + (sums[3] + sums[7]));
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}
ATTEST_INLINE void blend_inline(float keep, float weight, const float* row, int64_t count,
                                float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = keep * to[i] + weight * row[i];
}

bool has_avx2() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
#else
  return false;
#endif
}

#if defined(__x86_64__)
#define ATTEST_AVX2 __attribute__((target("avx2,fma")))
#else
#define ATTEST_AVX2
#endif
ATTEST_AVX2 void add_tile_avx2(const Rows& rows, const Tile& tile) { add_tile_inline(rows, tile); }
ATTEST_AVX2 void widen_half_avx2(const uint16_t* from, int64_t count, float* to) {
  widen_half_inline(from, count, to);
}
ATTEST_AVX2 void add_scaled_avx2(float a, const float* b, int64_t count, float* c) {
  add_scaled_inline(a, b, count, c);
}
ATTEST_AVX2 float product_avx2(const float* a, const float* b, int64_t count) {
  return product_inline(a, b, count);
}
ATTEST_AVX2 void blend_avx2(float keep, float weight, const float* row, int64_t count, float* to) {
  blend_inline(keep, weight, row, count, to);
}

}  // namespace

void add_tile(const Rows& rows, const Tile& tile) {
  has_avx2() ? add_tile_avx2(rows, tile) : add_tile_inline(rows, tile);
}
void widen_half(const uint16_t* from, int64_t count, float* to) {
  has_avx2() ? widen_half_avx2(from, count, to) : widen_half_inline(from, count, to);
}
void widen_bfloat16(const uint16_t* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t wide = static_cast<uint32_t>(from[i]) << 16;
    std::memcpy(to + i, &wide, sizeof wide);
  }
}
void add_scaled(float a, const float* b, int64_t count, float* c) {
  has_avx2() ? add_scaled_avx2(a, b, count, c) : add_scaled_inline(a, b, count, c);
}
float product(const float* a, const float* b, int64_t count) {
  return has_avx2() ? product_avx2(a, b, count) : product_inline(a, b, count);
}
void blend(float keep, float weight, const float* row, int64_t count, float* to) {
  has_avx2() ? blend_avx2(keep, weight, row, count, to)
             : blend_inline(keep, weight, row, count, to);
}

}  // namespace mutants
