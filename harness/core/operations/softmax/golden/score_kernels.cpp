#include "core/operations/softmax/golden/score_kernels.hpp"

#include <cmath>
#include <limits>

#include "core/tensor/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/operations/softmax/golden/score_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attest::core::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<double, 8>;
using V = hn::Vec<D>;

constexpr double kHidden = -std::numeric_limits<double>::infinity();

// 2^n for the integer n in the low bits of `shifted` = n + 1.5 * 2^52.
HWY_INLINE V PowerOfTwo(D d, V shifted) {
  const hn::RebindToUnsigned<D> du;
  return hn::BitCast(d, hn::ShiftLeft<52>(hn::Add(hn::BitCast(du, shifted), hn::Set(du, 1023))));
}

// exp by x = n ln 2 + r, |r| <= ln 2 / 2, and the Taylor polynomial of degree 13 (remainder 4e-18).
// 2^n is applied in two halves, so that subnormal results are rounded once.
HWY_INLINE V Exp(D d, V x) {
  const V magic = hn::Set(d, 0x1.8p52);
  const V clamped = hn::Min(hn::Max(x, hn::Set(d, -1000.0)), hn::Set(d, 1000.0));
  const V n = hn::Sub(hn::MulAdd(clamped, hn::Set(d, 1.4426950408889634), magic), magic);
  // ln 2 in two parts; the upper has 11 zero bits at its end, so n times it is exact.
  V r = hn::NegMulAdd(n, hn::Set(d, 0x1.62e42fefa3800p-1), clamped);
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.ef35793c76730p-45), r);
  const V r2 = hn::Mul(r, r);
  auto pair = [&](double even, double odd)
                  HWY_ATTR { return hn::MulAdd(r, hn::Set(d, odd), hn::Set(d, even)); };
  const V r4 = hn::Mul(r2, r2);
  const V high =
      hn::MulAdd(r2, pair(1.0 / 479001600, 1.0 / 6227020800), pair(1.0 / 3628800, 1.0 / 39916800));
  const V middle = hn::MulAdd(r2, pair(1.0 / 40320, 1.0 / 362880), pair(1.0 / 720, 1.0 / 5040));
  const V low = hn::MulAdd(r2, pair(1.0 / 24, 1.0 / 120), pair(1.0 / 2, 1.0 / 6));
  const V tail = hn::MulAdd(r4, hn::MulAdd(r4, high, middle), low);  // (e^r - 1 - r) / r^2
  const V e = hn::Add(hn::Set(d, 1.0), hn::MulAdd(r2, tail, r));
  const V half = hn::MulAdd(n, hn::Set(d, 0.5), magic);
  const V rest = hn::Add(hn::Sub(n, hn::Sub(half, magic)), magic);
  const V result = hn::Mul(hn::Mul(e, PowerOfTwo(d, half)), PowerOfTwo(d, rest));
  return hn::IfThenElse(hn::Eq(x, x), result, x);
}

// Calls body(k, n) for the n numbers from k on: whole vectors, then what is left.
template <class Body>
HWY_INLINE void ForVectors(D d, int64_t count, const Body& body) {
  const auto lanes = int64_t(hn::Lanes(d));
  int64_t k = 0;
  for (; k + lanes <= count; k += lanes) body(k, lanes);
  if (k < count) body(k, count - k);
}
// A vector of `count` numbers of x, then of `neutral`.
HWY_INLINE V LoadSome(D d, const double* x, int64_t count, double neutral) {
  if (count == int64_t(hn::Lanes(d))) return hn::LoadU(d, x);
  HWY_ALIGN double buffer[8];
  for (int64_t k = 0; k < 8; ++k) buffer[k] = k < count ? x[k] : neutral;
  return hn::Load(d, buffer);
}
HWY_INLINE void StoreSome(D d, V v, double* x, int64_t count) {
  if (count == int64_t(hn::Lanes(d))) return hn::StoreU(v, d, x);
  HWY_ALIGN double buffer[8];
  hn::Store(v, d, buffer);
  for (int64_t k = 0; k < count; ++k) x[k] = buffer[k];
}
HWY_INLINE double Sum(D d, V v) { return hn::GetLane(hn::SumOfLanes(d, v)); }

void ExpRow(const double* x, double* y, int64_t count) {
  const D d;
  ForVectors(d, count, [&](int64_t k, int64_t n) HWY_ATTR {
    StoreSome(d, Exp(d, LoadSome(d, x + k, n, 0)), y + k, n);
  });
}

// tanh x = 1 - 2 / (exp(2 x) + 1): its absolute error of 1e-16 is far below any score's.
void Softcap(double* scores, double* slopes, double cap, int64_t count) {
  const D d;
  const V one = hn::Set(d, 1.0), two = hn::Set(d, 2.0), factor = hn::Set(d, 2.0 / cap),
          limit = hn::Set(d, cap);
  ForVectors(d, count, [&](int64_t k, int64_t n) HWY_ATTR {
    const V e = Exp(d, hn::Mul(LoadSome(d, scores + k, n, 0), factor));
    const V t = hn::Sub(one, hn::Div(two, hn::Add(e, one)));
    StoreSome(d, hn::Mul(limit, t), scores + k, n);
    if (slopes) StoreSome(d, hn::NegMulAdd(t, t, one), slopes + k, n);
  });
}

Range RangeRow(const double* scores, int64_t count) {
  const D d;
  const V hidden = hn::Set(d, kHidden), top = hn::Set(d, -kHidden), one = hn::Set(d, 1.0);
  V least = top, largest = hidden, visible = hn::Zero(d), nans = visible;
  ForVectors(d, count, [&](int64_t k, int64_t n) HWY_ATTR {
    const V x = LoadSome(d, scores + k, n, kHidden);
    const auto number = hn::Eq(x, x), is_hidden = hn::Eq(x, hidden);
    least = hn::Min(least, hn::IfThenElse(is_hidden, top, hn::IfThenElse(number, x, top)));
    largest = hn::Max(largest, hn::IfThenElse(number, x, hidden));
    visible = hn::Add(visible, hn::IfThenZeroElse(is_hidden, one));
    nans = hn::Add(nans, hn::IfThenZeroElse(number, one));
  });
  return {hn::GetLane(hn::MinOfLanes(d, least)), hn::GetLane(hn::MaxOfLanes(d, largest)),
          int64_t(Sum(d, visible)), Sum(d, nans) > 0};
}

double SumExp(const double* scores, double shift, int64_t count) {
  const D d;
  const V by = hn::Set(d, shift), hidden = hn::Set(d, kHidden);
  V sum = hn::Zero(d);
  ForVectors(d, count, [&](int64_t k, int64_t n) HWY_ATTR {
    const V x = LoadSome(d, scores + k, n, kHidden);
    sum = hn::Add(sum, hn::IfThenZeroElse(hn::Eq(x, hidden), Exp(d, hn::Sub(x, by))));
  });
  return Sum(d, sum);
}

WeightSums WeightsRow(const KeyScores& from, const WeightModel& model, int64_t keys,
                      const KeyWeights& to) {
  const D d;
  // Copies, which what is written cannot change.
  const double *scores = from.scores, *staged_squares = from.staged_squares,
               *magnitudes = from.magnitudes;
  double *probabilities = to.probabilities, *probability_squares = to.probability_squares,
         *rounding_squares = to.rounding_squares, *error_squares = to.error_squares;
  const bool squares = model.squares;
  const V hidden = hn::Set(d, kHidden), lse = hn::Set(d, model.lse), u_p = hn::Set(d, model.u_p),
          eta = hn::Set(d, model.eta_kappa);
  const V score2 = hn::Set(d, model.score2), share = hn::Set(d, model.a_share);
  const V q0 = hn::Set(d, model.q0), q1 = hn::Set(d, model.q1), q2 = hn::Set(d, model.q2);
  const V small = hn::Set(d, model.small);
  V sum_p2 = hn::Zero(d), sum_a2 = sum_p2, sum_e2 = sum_p2, sum_p2t = sum_p2, sum_p2q = sum_p2,
    sum_px2 = sum_p2, sum_small = sum_p2;
  ForVectors(d, keys, [&](int64_t k, int64_t n) HWY_ATTR {
    const V s = LoadSome(d, scores + k, n, kHidden);
    V x = LoadSome(d, magnitudes + k, n, 0);
    if (squares) x = hn::Sqrt(x);
    const auto none = hn::Eq(s, hidden);
    const V p = hn::IfThenZeroElse(none, Exp(d, hn::Sub(s, lse)));
    const V p2 = hn::Mul(p, p);
    const V a = hn::MulAdd(u_p, p, eta);
    const V a2 = hn::IfThenZeroElse(none, hn::Mul(a, a));
    const V t = staged_squares ? LoadSome(d, staged_squares + k, n, 0) : hn::Mul(s, s);
    const V p2t = hn::IfThenZeroElse(none, hn::Mul(p2, t));
    const V p2q = hn::IfThenZeroElse(none, hn::Mul(p2, hn::MulAdd(x, hn::MulAdd(x, q2, q1), q0)));
    const V e2 = hn::MulAdd(share, a2, hn::MulAdd(score2, p2t, p2q));
    StoreSome(d, p, probabilities + k, n);
    StoreSome(d, p2, probability_squares + k, n);
    StoreSome(d, a2, rounding_squares + k, n);
    StoreSome(d, e2, error_squares + k, n);
    sum_p2 = hn::Add(sum_p2, p2);
    sum_a2 = hn::Add(sum_a2, a2);
    sum_e2 = hn::Add(sum_e2, e2);
    sum_p2t = hn::Add(sum_p2t, p2t);
    sum_p2q = hn::Add(sum_p2q, p2q);
    sum_px2 = hn::Add(sum_px2, hn::IfThenZeroElse(none, hn::Mul(p, hn::Mul(x, x))));
    sum_small = hn::Add(sum_small, hn::IfThenElseZero(hn::Lt(p, small), p));
  });
  return {.p2 = Sum(d, sum_p2),
          .a2 = Sum(d, sum_a2),
          .e2 = Sum(d, sum_e2),
          .p2t = Sum(d, sum_p2t),
          .p2q = Sum(d, sum_p2q),
          .px2 = Sum(d, sum_px2),
          .small = Sum(d, sum_small)};
}

}  // namespace attest::core::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attest::core::kernels {

HWY_EXPORT(ExpRow);
HWY_EXPORT(Softcap);
HWY_EXPORT(RangeRow);
HWY_EXPORT(SumExp);
HWY_EXPORT(WeightsRow);

void exp(const double* x, double* y, int64_t count) { HWY_DYNAMIC_DISPATCH(ExpRow)(x, y, count); }
void softcap(double* scores, double* slopes, double cap, int64_t count) {
  HWY_DYNAMIC_DISPATCH(Softcap)(scores, slopes, cap, count);
}
Range range(const double* scores, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(RangeRow)(scores, count);
}
double sum_exp(const double* scores, double shift, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(SumExp)(scores, shift, count);
}
WeightSums weights(const KeyScores& from, const WeightModel& model, int64_t keys,
                   const KeyWeights& to) {
  return HWY_DYNAMIC_DISPATCH(WeightsRow)(from, model, keys, to);
}

}  // namespace attest::core::kernels
#endif
