// The inner loops: two queries by 32 columns at a time, in the compiler's generic vectors, compiled for AVX2 too where there is
// x86.
#include "online_softmax.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#define ATTEST_INLINE inline __attribute__((always_inline))

namespace mutants {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();
typedef float Vector __attribute__((vector_size(32), aligned(4), may_alias));  // 8 floats, any alignment
constexpr int64_t kLanes = 8, kVectors = kChannels / kLanes;

/// c[2][32] += a[2][depth] b[depth][32]; strides in floats.
ATTEST_INLINE void multiply(const float* a, int64_t a_stride, const float* b, int64_t b_stride, int64_t depth, float* c,
                            int64_t c_stride) {
  Vector sum[2][kVectors];
  for (int r = 0; r < 2; ++r)
    for (int n = 0; n < kVectors; ++n) sum[r][n] = reinterpret_cast<const Vector*>(c + r * c_stride)[n];
  for (int64_t k = 0; k < depth; ++k) {
    const Vector* row = reinterpret_cast<const Vector*>(b + k * b_stride);
    for (int n = 0; n < kVectors; ++n) {
      sum[0][n] += a[k] * row[n];
      sum[1][n] += a[a_stride + k] * row[n];
    }
  }
  for (int r = 0; r < 2; ++r)
    for (int n = 0; n < kVectors; ++n) reinterpret_cast<Vector*>(c + r * c_stride)[n] = sum[r][n];
}

/// exp(x) for x <= 0 to 2^-23 or so; 0 below -87, where it leaves float32's normal numbers. The polynomial is Cephes' expf.
ATTEST_INLINE float exp_negative(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: the sum's last bits are the nearest integer
  const float shifted = x * 1.44269504088896341f + kRound, n = shifted - kRound;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float y = 1.9875691500e-4f;
  y = y * r + 1.3981999507e-3f;
  y = y * r + 8.3334519073e-3f;
  y = y * r + 4.1665795894e-2f;
  y = y * r + 1.6666665459e-1f;
  y = y * r + 5.0000001201e-1f;
  y = y * r * r + r + 1;
  uint32_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 127) << 23;  // 2^n: kRound's own bits are shifted out
  float power;
  std::memcpy(&power, &bits, sizeof power);
  return x < -87 ? 0 : y * power;
}

/// Logits of one row become probabilities; the row's top, total and sum are brought up to date, but for this tile's p v.
ATTEST_INLINE void rescale(const Rows& rows, int64_t i, const Tile& tile, float* p) {
  if (rows.begin[i] > tile.begin || rows.end[i] < tile.begin + kTile)
    for (int64_t j = 0; j < kTile; ++j)
      if (tile.begin + j < rows.begin[i] || tile.begin + j >= rows.end[i]) p[j] = kHidden;
  float most[kLanes];
  for (int64_t n = 0; n < kLanes; ++n) most[n] = p[n];
  for (int64_t j = kLanes; j < kTile; j += kLanes)
    for (int64_t n = 0; n < kLanes; ++n) most[n] = p[j + n] > most[n] ? p[j + n] : most[n];
  const float old = rows.top[i];
  float top = old;
  for (int64_t n = 0; n < kLanes; ++n) top = most[n] > top ? most[n] : top;
  for (int64_t j = 0; j < kTile; ++j) p[j] = p[j] == kHidden ? 0 : exp_negative(p[j] - top);
  float total[kLanes] = {};
  for (int64_t j = 0; j < kTile; j += kLanes)
    for (int64_t n = 0; n < kLanes; ++n) total[n] += p[j + n];
  const float keep = top > old ? exp_negative(old - top) : 1;
  float add = 0;
  for (int64_t n = 0; n < kLanes; ++n) add += total[n];
  rows.total[i] = rows.total[i] * keep + add;
  rows.top[i] = top;
  if (keep == 1) return;
  if (rows.keep_once && rows.keep_once[i] && old != kHidden) {
    rows.keep_once[i] = 0;
    return;
  }
  float* sum = rows.sum + i * rows.channels;
  for (int64_t d = 0; d < rows.channels; ++d) sum[d] *= keep;
}

/// sum += p v key by key, so that an Inf or NaN of a hidden key stays where it is.
void add_wild(const Rows& rows, int64_t i, const Tile& tile, const float* p) {
  for (int64_t j = 0; j < kTile; ++j) {
    if (tile.begin + j < rows.begin[i] || tile.begin + j >= rows.end[i]) continue;
    for (int64_t d = 0; d < rows.channels; ++d) rows.sum[i * rows.channels + d] += p[j] * tile.v[j * rows.channels + d];
  }
}

ATTEST_INLINE void add_tile_inline(const Rows& rows, const Tile& tile) {
  for (int64_t i = 0; i < rows.rows; i += 2) {
    const bool seen = (rows.begin[i] < tile.begin + kTile && rows.end[i] > tile.begin) ||
                      (rows.begin[i + 1] < tile.begin + kTile && rows.end[i + 1] > tile.begin);
    if (!seen) continue;
    alignas(32) float p[2][kTile] = {};
    for (int64_t j = 0; j < kTile; j += kChannels)
      multiply(rows.q + i * rows.head_dim, rows.head_dim, tile.kt + j, kTile, rows.head_dim, &p[0][j], kTile);
    rescale(rows, i, tile, p[0]);
    rescale(rows, i + 1, tile, p[1]);
    if (tile.wild) {
      add_wild(rows, i, tile, p[0]);
      add_wild(rows, i + 1, tile, p[1]);
      continue;
    }
    for (int64_t d = 0; d < rows.channels; d += kChannels)
      multiply(p[0], kTile, tile.v + d, rows.channels, kTile, rows.sum + i * rows.channels + d, rows.channels);
  }
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void add_tile_avx2(const Rows& rows, const Tile& tile) { add_tile_inline(rows, tile); }
#endif
void add_tile_baseline(const Rows& rows, const Tile& tile) { add_tile_inline(rows, tile); }

}  // namespace

void add_tile(const Rows& rows, const Tile& tile) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return add_tile_avx2(rows, tile);
#endif
  add_tile_baseline(rows, tile);
}

}  // namespace mutants
