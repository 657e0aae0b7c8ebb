// One copy of these loops for each instruction set; the first call picks the best that the machine
// has.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/operations/linear/kernels.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again for each target.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "core/operations/linear/kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace attest::core::linear::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using Doubles = hn::CappedTag<double, size_t(kLanes)>;
using Vector = hn::Vec<Doubles>;

// A tile of kRows x 2 vectors (1 at the last columns) stays in registers along k.
template <int kRows>
void tile(const double* HWY_RESTRICT a, int64_t a_row, int64_t a_column,
          const double* HWY_RESTRICT b, double* HWY_RESTRICT c, int64_t n, int64_t k) {
  const Doubles tag;
  const auto lanes = int64_t(hn::Lanes(tag));
  int64_t v = 0;
  for (; v + 2 * lanes <= n; v += 2 * lanes) {
    Vector low[kRows], high[kRows];
    for (int i = 0; i < kRows; ++i)
      low[i] = hn::LoadU(tag, c + i * n + v), high[i] = hn::LoadU(tag, c + i * n + v + lanes);
    for (int64_t l = 0; l < k; ++l) {
      const Vector b_low = hn::LoadU(tag, b + l * n + v),
                   b_high = hn::LoadU(tag, b + l * n + v + lanes);
      for (int i = 0; i < kRows; ++i) {
        const Vector weight = hn::Set(tag, a[i * a_row + l * a_column]);
        low[i] = hn::MulAdd(weight, b_low, low[i]), high[i] = hn::MulAdd(weight, b_high, high[i]);
      }
    }
    for (int i = 0; i < kRows; ++i)
      hn::StoreU(low[i], tag, c + i * n + v), hn::StoreU(high[i], tag, c + i * n + v + lanes);
  }
  for (; v < n; v += lanes) {
    Vector sum[kRows];
    for (int i = 0; i < kRows; ++i) sum[i] = hn::LoadU(tag, c + i * n + v);
    for (int64_t l = 0; l < k; ++l) {
      const Vector b_only = hn::LoadU(tag, b + l * n + v);
      for (int i = 0; i < kRows; ++i)
        sum[i] = hn::MulAdd(hn::Set(tag, a[i * a_row + l * a_column]), b_only, sum[i]);
    }
    for (int i = 0; i < kRows; ++i) hn::StoreU(sum[i], tag, c + i * n + v);
  }
}

void MultiplyAdd(const double* a, int64_t a_row, int64_t a_column, const double* b, double* c,
                 int64_t m, int64_t n, int64_t k) {
  int64_t i = 0;
  for (; i + 4 <= m; i += 4) tile<4>(a + i * a_row, a_row, a_column, b, c + i * n, n, k);
  for (; i < m; ++i) tile<1>(a + i * a_row, a_row, a_column, b, c + i * n, n, k);
}

void FeatureMap(const double* x, int64_t count, double* phi, double* widest) {
  const Doubles tag;
  const Vector one = hn::Set(tag, 1.0);
  for (int64_t i = 0; i < count; i += int64_t(hn::Lanes(tag))) {
    const Vector value = hn::LoadU(tag, x + i);
    const Vector below = hn::Exp(tag, hn::Min(value, hn::Zero(tag)));
    const Vector mapped = hn::IfThenElse(hn::Lt(value, hn::Zero(tag)), below, hn::Add(value, one));
    const Vector top = hn::Max(mapped, one);
    hn::StoreU(mapped, tag, phi + i);
    hn::StoreU(hn::Mul(top, top), tag, widest + i);
  }
}

}  // namespace attest::core::linear::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attest::core::linear {
HWY_EXPORT(MultiplyAdd);
HWY_EXPORT(FeatureMap);

void multiply_add(const double* a, int64_t a_row, int64_t a_column, const double* b, double* c,
                  int64_t m, int64_t n, int64_t k) {
  HWY_DYNAMIC_DISPATCH(MultiplyAdd)(a, a_row, a_column, b, c, m, n, k);
}
void feature_map(const double* x, int64_t count, double* phi, double* widest) {
  HWY_DYNAMIC_DISPATCH(FeatureMap)(x, count, phi, widest);
}
}  // namespace attest::core::linear
#endif
