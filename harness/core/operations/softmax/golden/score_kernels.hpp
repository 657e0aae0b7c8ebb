// The float64 loops over the scores of a row, vectorised for the machine they run on: exp, the
// softcap, log-sum-exp, and what keys weigh.
#pragma once
#include <cstdint>

namespace attest::core::kernels {

/// y = exp(x), both [count], at most 2 ulp off; 0 below -745.2, inf above 709.8, NaN for NaN. y may
/// be x.
void exp(const double* x, double* y, int64_t count);

/// scores = cap tanh(scores / cap), [count]. `slopes`, [count] or null, becomes the derivative at
/// each, 1 - tanh^2.
void softcap(double* scores, double* slopes, double cap, int64_t count);

/// What scores lie between. A score of -inf is hidden.
struct Range {
  double least, largest;  // of those that are not hidden; inf and -inf where there are none
  int64_t count;          // of those that are not hidden, NaN among them
  bool nan;               // whether one is NaN
};
Range range(const double* scores, int64_t count);
/// The sum of exp(score - shift) over `count` scores; hidden ones add nothing.
double sum_exp(const double* scores, double shift, int64_t count);

/// What the weights of one row follow from; SigmaModel has the reasons. With s a score, t what its
/// own rounding is relative to (s^2, or SigmaModel::staged_square) and x the magnitude of its dot
/// product, a visible key has
///   p = exp(s - lse)                                          its probability
///   a = u_p p + eta_kappa                                     the rounding of p
///   q = q0 + q1 x + q2 x^2                                    the variance of the dot product
///   e^2 = p^2 (score2 t + q) + a_share a^2                    the variance of p from all errors
///                                                             that count by v - o
/// and a hidden one 0 for each.
struct WeightModel {
  double lse = 0;
  double u_p = 0, eta_kappa = 0;
  double score2 = 0;  // SigmaModel::score_square
  double q0 = 0, q1 = 0, q2 = 0;
  double a_share = 0;    // theta / 3
  double small = 0;      // probabilities below it are summed apart
  bool squares = false;  // magnitudes are given as squares: x is their root
};

/// What is known of a row's keys, [keys] each.
struct KeyScores {
  const double* scores;          // s; -inf: hidden
  const double* staged_squares;  // t; null: s^2
  const double* magnitudes;      // x, or x^2 where WeightModel::squares
};

/// Where the weights of a row's keys are written, [keys] each. They may lie where what they follow
/// from lies.
struct KeyWeights {
  double* probabilities;        // p
  double* probability_squares;  // p^2
  double* rounding_squares;     // a^2
  double* error_squares;        // e^2
};

/// Sums over the keys of a row.
struct WeightSums {
  double p2 = 0, a2 = 0, e2 = 0;  // of p^2, a^2, e^2
  double p2t = 0, p2q = 0;        // of p^2 t, p^2 q
  double px2 = 0;                 // of p x^2
  double small = 0;               // of p below WeightModel::small
};

/// Writes what `keys` keys weigh, and returns their sums.
WeightSums weights(const KeyScores& from, const WeightModel& model, int64_t keys,
                   const KeyWeights& to);

}  // namespace attest::core::kernels
