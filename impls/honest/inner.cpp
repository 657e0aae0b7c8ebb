// The inner loops, compiled for each instruction set that Highway knows here; the first call picks
// the best that the machine has. They are plain loops: the compiler vectorises them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "honest/inner.cpp"
#include "simd/targets.hpp"

// After targets.hpp, which says what foreach_target.h compiles.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "attest.h"
#include "honest/inner.hpp"

HWY_BEFORE_NAMESPACE();
namespace honest::HWY_NAMESPACE {

#include "honest/rounding-inl.hpp"

constexpr float kHidden = -std::numeric_limits<float>::infinity();
typedef float Vector
    __attribute__((vector_size(32), aligned(4), may_alias));  // 8 floats, any alignment
constexpr int64_t kLanes = 8, kVectors = kChannels / kLanes;

void Multiply(const float* a, int64_t a_stride, const float* b, int64_t b_stride, int64_t depth,
              float* c, int64_t c_stride) {
  Vector sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (int n = 0; n < kVectors; ++n)
      sum[r][n] = reinterpret_cast<const Vector*>(c + r * c_stride)[n];
  for (int64_t k = 0; k < depth; ++k) {
    const Vector* row = reinterpret_cast<const Vector*>(b + k * b_stride);
    for (int n = 0; n < kVectors; ++n) {
      sum[0][n] += a[k] * row[n];
      sum[1][n] += a[a_stride + k] * row[n];
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int n = 0; n < kVectors; ++n) reinterpret_cast<Vector*>(c + r * c_stride)[n] = sum[r][n];
}

void RoundRow(float* x, int64_t count, int32_t dtype) {
  with_rounding(dtype, [=](auto round) {
    for (int64_t i = 0; i < count; ++i) x[i] = round(x[i]);
  });
}

void CutRow(float* x, int64_t count, int32_t dtype) {
  with_cutting(dtype, [=](auto cut) {
    for (int64_t i = 0; i < count; ++i) x[i] = cut(x[i]);
  });
}

void ToLogits(float* x, int64_t count, float factor, const float* addend, int32_t dtype) {
  with_rounding(dtype, [=](auto round) {
    for (int64_t i = 0; i < count; ++i) x[i] = round(factor * x[i]);
    for (int64_t i = 0; addend && i < count; ++i)
      x[i] = addend[i] == kHidden ? kHidden : round(x[i] + addend[i]);
  });
}

// A NaN is above everything, so that it is not lost.
inline bool above(float x, float y) { return x > y || x != x; }

float Largest(const float* x, int64_t count) {
  float most[kLanes], top = kHidden;
  for (float& lane : most) lane = kHidden;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t n = 0; n < kLanes; ++n) most[n] = above(x[i + n], most[n]) ? x[i + n] : most[n];
  for (; i < count; ++i) top = above(x[i], top) ? x[i] : top;
  for (const float lane : most) top = above(lane, top) ? lane : top;
  return top;
}

// exp(x) for x < 88 to a unit in the last place or so, 0 below -87.33, where it is subnormal. 2^n
// times a Taylor polynomial of degree 7 on +-ln(2) / 2, where its remainder is 2^-28.
inline float exp_negative(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to whole numbers
  const float shifted = x * 1.44269504f + kRound, n = shifted - kRound;
  const float r =
      (x - n * 0.693359375f) + n * 2.12194440e-4f;  // ln(2) in two parts, the first with few bits
  float y = 1.0f / 5040;
  y = y * r + 1.0f / 720;
  y = y * r + 1.0f / 120;
  y = y * r + 1.0f / 24;
  y = y * r + 1.0f / 6;
  y = y * r + 0.5f;
  y = y * r * r + r + 1;
  const float power = float_of((bits_of(shifted) + 127) << 23);
  return x < -87.33f ? 0 : y * power;
}

// tanh(x) to two units in the last place: x times a polynomial in x^2 near 0, as Cephes has it, and
// (1 - exp(-2 x)) / (1 + exp(-2 x)) from there on.
inline float tanh_of(float x) {
  const float square = x * x, power = exp_negative(-2 * std::fabs(x));
  float y = -5.70498872745e-3f;
  y = y * square + 2.06390887954e-2f;
  y = y * square - 5.37397155531e-2f;
  y = y * square + 1.33314422036e-1f;
  y = y * square - 3.33332819422e-1f;
  const float near = x + x * square * y, far = std::copysign((1 - power) / (1 + power), x);
  return std::fabs(x) < 0.625f ? near : far;
}

void Softcap(float* x, int64_t count, float cap) {
  for (int64_t i = 0; i < count; ++i) x[i] = cap * tanh_of(x[i] / cap);
}

void Exponentials(float* x, int64_t count, float top, const Arithmetic& a) {
  for (int64_t i = 0; i < count; ++i) x[i] = x[i] == kHidden ? 0 : exp_negative(x[i] - top);
  if (a.exp_error <= 0) return;
  // An error that wanders between both bounds with the fraction of the logit, as that of a short
  // polynomial does.
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t hash = bits_of(x[i]) * 2654435761u;
    x[i] *= a.exp_leans ? 1 - a.exp_error
                        : 1 + a.exp_error * (static_cast<float>(hash >> 8) * 0x1p-23f - 1);
  }
}

inline float flushed(float x, float least) { return std::fabs(x) < least ? 0 : x; }

float Sum(const float* p, int64_t count, int32_t accumulator, float total, float least) {
  if (accumulator != ATTEST_F32) {
    with_rounding(accumulator, [&](auto round) {
      for (int64_t i = 0; i < count; ++i) total = flushed(round(total + p[i]), least);
    });
    return total;
  }
  float lanes[kLanes] = {}, rest = 0;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t n = 0; n < kLanes; ++n) lanes[n] += p[i + n];
  for (; i < count; ++i) rest += p[i];
  for (const float lane : lanes) rest += lane;
  return total + rest;
}

float Probabilities(float* p, int64_t count, float divisor, const Arithmetic& a, float total) {
  if (divisor != 1)
    for (int64_t i = 0; i < count; ++i) p[i] /= divisor;
  const bool sums_rounded = (a.ways & ATTEST_SUMS_ROUNDED_P) != 0;
  const float least = least_sum(a);
  const auto add = [&] {
    for (int64_t i = 0; a.one_sum && i < count; ++i)
      total = Sum(p + i, 1, a.accumulator, total, least);
    if (!a.one_sum) total = Sum(p, count, a.accumulator, total, least);
  };
  if (!sums_rounded) add();
  const auto kept = [=](auto round) {
    for (int64_t i = 0; i < count; ++i) p[i] = round(p[i]);
  };
  if (a.ways & ATTEST_P_TRUNCATED)
    with_cutting(a.probability, kept);
  else
    with_rounding(a.probability, kept);
  if (sums_rounded) add();
  RoundRow(p, count, a.pv);
  if (a.ways & ATTEST_FLUSHES_SUBNORMALS) {
    const float normal = std::fmax(smallest_normal(a.probability), smallest_normal(a.pv));
    for (int64_t i = 0; i < count; ++i) p[i] = flushed(p[i], normal);
  }
  return total;
}

void AddRounded(const float* p, const float* v, int64_t keys, int64_t channels, int32_t accumulator,
                float* sum, float least) {
  with_rounding(accumulator, [=](auto round) {
    for (int64_t j = 0; j < keys; ++j) {
      if (p[j] == 0) continue;
      for (int64_t d = 0; d < channels; ++d)
        sum[d] = flushed(round(sum[d] + p[j] * v[j * channels + d]), least);
    }
  });
}

}  // namespace honest::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace honest {

float smallest_normal(int32_t dtype) {
  return dtype == ATTEST_F8E4M3                          ? 0x1p-6f
         : dtype == ATTEST_F16 || dtype == ATTEST_F8E5M2 ? 0x1p-14f
                                                         : 0x1p-126f;
}

float least_sum(const Arithmetic& arithmetic) {
  return (arithmetic.ways & ATTEST_FLUSHES_SUBNORMALS) != 0
             ? smallest_normal(arithmetic.accumulator)
             : 0;
}

HWY_EXPORT(Multiply);
HWY_EXPORT(RoundRow);
HWY_EXPORT(CutRow);
HWY_EXPORT(ToLogits);
HWY_EXPORT(Largest);
HWY_EXPORT(Softcap);
HWY_EXPORT(Exponentials);
HWY_EXPORT(Sum);
HWY_EXPORT(Probabilities);
HWY_EXPORT(AddRounded);

void multiply(const float* a, int64_t a_stride, const float* b, int64_t b_stride, int64_t depth,
              float* c, int64_t c_stride) {
  HWY_DYNAMIC_DISPATCH(Multiply)(a, a_stride, b, b_stride, depth, c, c_stride);
}
void round_row(float* x, int64_t count, int32_t dtype) {
  HWY_DYNAMIC_DISPATCH(RoundRow)(x, count, dtype);
}
void cut_row(float* x, int64_t count, int32_t dtype) {
  HWY_DYNAMIC_DISPATCH(CutRow)(x, count, dtype);
}
void to_logits(float* x, int64_t count, float factor, const float* addend, int32_t dtype) {
  HWY_DYNAMIC_DISPATCH(ToLogits)(x, count, factor, addend, dtype);
}
float largest(const float* x, int64_t count) { return HWY_DYNAMIC_DISPATCH(Largest)(x, count); }
void softcap(float* x, int64_t count, float cap) { HWY_DYNAMIC_DISPATCH(Softcap)(x, count, cap); }
void exponentials(float* x, int64_t count, float top, const Arithmetic& arithmetic) {
  HWY_DYNAMIC_DISPATCH(Exponentials)(x, count, top, arithmetic);
}
float sum(const float* p, int64_t count, int32_t accumulator, float total, float least) {
  return HWY_DYNAMIC_DISPATCH(Sum)(p, count, accumulator, total, least);
}
float probabilities(float* p, int64_t count, float divisor, const Arithmetic& arithmetic,
                    float total) {
  return HWY_DYNAMIC_DISPATCH(Probabilities)(p, count, divisor, arithmetic, total);
}
void add_rounded(const float* p, const float* v, int64_t keys, int64_t channels,
                 int32_t accumulator, float* sum, float least) {
  HWY_DYNAMIC_DISPATCH(AddRounded)(p, v, keys, channels, accumulator, sum, least);
}

}  // namespace honest
#endif
