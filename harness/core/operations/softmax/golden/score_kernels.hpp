// The float64 inner loops of the softmax golden, vectorised and dispatched at run time (Highway).
#pragma once
#include <cstdint>

namespace attest::core::kernels {

/// y = exp(x), at most 2 ulp off; 0 below -745.2, inf above 709.8, NaN for NaN. In place is
/// allowed.
void exp(const double* x, double* y, int64_t count);

/// s = cap tanh(s / cap); where `slope` is given, slope = its derivative 1 - tanh^2.
void softcap(double* s, double* slope, double cap, int64_t count);

struct Range {
  double least, largest;  // of the scores above -inf; inf, -inf where there is none
  int64_t count;          // scores above -inf, NaN included
  bool nan;
};
/// Of `count` scores, where -inf means hidden.
Range range(const double* s, int64_t count);
/// sum exp(s - shift)
double sum_exp(const double* s, double shift, int64_t count);

/// What one row of weights is made from; see SigmaModel.
struct WeightModel {
  double lse = 0;                 // p = exp(s - lse)
  double u_p = 0, eta_kappa = 0;  // a = u_p p + eta_kappa where visible
  double score2 = 0;              // e^2 = p^2 (score2 t + q) + a_share a^2
  double q0 = 0, q1 = 0,
         q2 = 0;  // q = q0 + q1 x + q2 x^2 with x the magnitude m, or its root where `squares`
  double a_share = 0;
  double small = 0;  // probabilities under it are summed apart
  bool squares = false;
};
struct WeightSums {
  double p2 = 0, a2 = 0, e2 = 0, p2t = 0, p2q = 0;
  double px2 = 0;    // sum p x^2
  double small = 0;  // sum of p below WeightModel::small
};
/// From scores s (-inf: hidden), squares t (null: s^2) and magnitudes m: p, p^2, a^2 and e^2 of
/// each key; adds their sums. In place is allowed.
void weights(const double* s, const double* t, const double* m, const WeightModel& model,
             int64_t count, double* p, double* p2, double* a2, double* e2, WeightSums& sums);

}  // namespace attest::core::kernels
