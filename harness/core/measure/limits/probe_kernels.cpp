#include "core/measure/limits/probe_kernels.hpp"

#include <numeric>

#include "core/tensor/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/measure/limits/probe_kernels.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again for each target.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attest::core::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F = hn::ScalableTag<float>;
using V = hn::Vec<F>;

// Twelve chains hide four cycles of latency on up to three units and fit the sixteen registers of
// AVX2. Each chain runs towards its own fixed point, so that no value becomes subnormal or infinite
// and the compiler cannot merge two.
double MultiplyAdds(int64_t rounds) {
  const F d;
  const V half = hn::Set(d, 0.5f), step = hn::Set(d, 0.25f);
  V a = hn::Set(d, 1.0f), b = hn::Set(d, 2.0f), c = hn::Set(d, 3.0f), e = hn::Set(d, 4.0f),
    f = hn::Set(d, 5.0f), g = hn::Set(d, 6.0f);
  V h = hn::Set(d, 7.0f), i = hn::Set(d, 8.0f), j = hn::Set(d, 9.0f), k = hn::Set(d, 10.0f),
    l = hn::Set(d, 11.0f), m = hn::Set(d, 12.0f);
  constexpr int kRepeats = 8;
  for (int64_t round = 0; round < rounds; ++round) {
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      a = hn::MulAdd(a, half, step);
      b = hn::MulAdd(b, half, step);
      c = hn::MulAdd(c, half, step);
      e = hn::MulAdd(e, half, step);
      f = hn::MulAdd(f, half, step);
      g = hn::MulAdd(g, half, step);
      h = hn::MulAdd(h, half, step);
      i = hn::MulAdd(i, half, step);
      j = hn::MulAdd(j, half, step);
      k = hn::MulAdd(k, half, step);
      l = hn::MulAdd(l, half, step);
      m = hn::MulAdd(m, half, step);
    }
  }
  const V sum =
      hn::Add(hn::Add(hn::Add(hn::Add(a, b), hn::Add(c, e)), hn::Add(hn::Add(f, g), hn::Add(h, i))),
              hn::Add(hn::Add(j, k), hn::Add(l, m)));
  const volatile float kept = hn::GetLane(hn::SumOfLanes(d, sum));
  (void)kept;
  return 2.0 * 12 * kRepeats * double(hn::Lanes(d)) * double(rounds);
}

// x -> exp(-x) runs towards 0.567, so that all values stay normal.
double Exponentials(int64_t rounds) {
  const F d;
  V a = hn::Set(d, 0.1f), b = hn::Set(d, 0.2f), c = hn::Set(d, 0.3f), e = hn::Set(d, 0.4f),
    f = hn::Set(d, 0.5f), g = hn::Set(d, 0.6f), h = hn::Set(d, 0.7f), i = hn::Set(d, 0.8f);
  for (int64_t round = 0; round < rounds; ++round) {
    a = hn::Exp(d, hn::Neg(a));
    b = hn::Exp(d, hn::Neg(b));
    c = hn::Exp(d, hn::Neg(c));
    e = hn::Exp(d, hn::Neg(e));
    f = hn::Exp(d, hn::Neg(f));
    g = hn::Exp(d, hn::Neg(g));
    h = hn::Exp(d, hn::Neg(h));
    i = hn::Exp(d, hn::Neg(i));
  }
  const V sum =
      hn::Add(hn::Add(hn::Add(a, b), hn::Add(c, e)), hn::Add(hn::Add(f, g), hn::Add(h, i)));
  const volatile float kept = hn::GetLane(hn::SumOfLanes(d, sum));
  (void)kept;
  return 8 * double(hn::Lanes(d)) * double(rounds);
}

void Triad(float* HWY_RESTRICT a, const float* HWY_RESTRICT b, const float* HWY_RESTRICT c,
           size_t count, int64_t passes) {
  const F d;
  const V half = hn::Set(d, 0.5f);
  for (int64_t pass = 0; pass < passes; ++pass)
    for (size_t at = 0; at < count; at += hn::Lanes(d))
      hn::Store(hn::MulAdd(hn::Load(d, c + at), half, hn::Load(d, b + at)), d, a + at);
}

uint32_t Reads(const std::byte* data, size_t bytes, int64_t passes) {
  const hn::ScalableTag<uint32_t> d;
  const size_t step = 4 * hn::Lanes(d);
  const auto* words = reinterpret_cast<const uint32_t*>(data);
  auto a = hn::Zero(d), b = a, c = a, e = a;
  const size_t count = bytes / sizeof(uint32_t) / step * step;
  for (int64_t pass = 0; pass < passes; ++pass)
    for (size_t at = 0; at < count; at += step) {
      a = hn::Add(a, hn::Load(d, words + at));
      b = hn::Add(b, hn::Load(d, words + at + step / 4));
      c = hn::Add(c, hn::Load(d, words + at + step / 2));
      e = hn::Add(e, hn::Load(d, words + at + step / 4 * 3));
    }
  // By hand: the intrinsic behind SumOfLanes adds signed integers, whose overflow is undefined.
  HWY_ALIGN uint32_t lanes[hn::MaxLanes(d)];
  hn::Store(hn::Add(hn::Add(a, b), hn::Add(c, e)), d, lanes);
  return std::accumulate(lanes, lanes + hn::Lanes(d), uint32_t{0});
}

const char* Vectors() { return hwy::TargetName(HWY_TARGET); }

}  // namespace attest::core::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attest::core {

HWY_EXPORT(MultiplyAdds);
HWY_EXPORT(Exponentials);
HWY_EXPORT(Reads);
HWY_EXPORT(Triad);
HWY_EXPORT(Vectors);

double run_multiply_adds(int64_t rounds) { return HWY_DYNAMIC_DISPATCH(MultiplyAdds)(rounds); }
double run_exponentials(int64_t rounds) { return HWY_DYNAMIC_DISPATCH(Exponentials)(rounds); }
uint32_t run_reads(const std::byte* data, size_t bytes, int64_t passes) {
  return HWY_DYNAMIC_DISPATCH(Reads)(data, bytes, passes);
}
void run_triad(float* a, const float* b, const float* c, size_t count, int64_t passes) {
  HWY_DYNAMIC_DISPATCH(Triad)(a, b, c, count, passes);
}
const char* vectors_in_use() { return HWY_DYNAMIC_DISPATCH(Vectors)(); }

}  // namespace attest::core
#endif
