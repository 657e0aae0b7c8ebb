// The float64 loops over the scores of a row: exp, softcap, log-sum-exp and weights, vectorised for
// the CPU that they run on.
#pragma once
#include <cstdint>

namespace attest::core::kernels {

/// y = exp(x), both [count], with an error of at most 2 ulp; 0 below -745.2, inf above 709.8, NaN
/// for NaN. x and y may be the same array.
void exp(const double* x, double* y, int64_t count);

/// scores = cap tanh(scores / cap), [count]. `slopes`, [count] or null, becomes the derivative at
/// each, 1 - tanh^2.
void softcap(double* scores, double* slopes, double cap, int64_t count);

/// The range of visible scores; a score of -inf is hidden.
struct Range {
  double least, largest;  // inf and -inf if no score is visible
  int64_t count;          // of visible scores, including NaN
  bool nan;               // whether a score is NaN
};
Range range(const double* scores, int64_t count);
/// The sum of exp(score - shift) over `count` scores. Hidden scores add nothing.
double sum_exp(const double* scores, double shift, int64_t count);

/// The parameters for the weights of one row; SigmaModel explains them. s is a score, t is s^2 or
/// SigmaModel::staged_square (the rounding of the score is relative to it), and x is the magnitude
/// of the dot product. A visible key has
///   p = exp(s - lse)                                          its probability
///   a = u_p p + eta_kappa                                     the rounding of p
///   q = q0 + q1 x + q2 x^2                                    the variance of the dot product
///   e^2 = p^2 (score2 t + q) + a_share a^2                    the variance of p from all errors
///                                                             that are multiplied by v - o
/// A hidden key has 0 for each.
struct WeightModel {
  double lse = 0;
  double u_p = 0, eta_kappa = 0;
  double score2 = 0;  // SigmaModel::score_square
  double q0 = 0, q1 = 0, q2 = 0;
  double a_share = 0;    // theta / 3
  double small = 0;      // WeightSums::small sums the probabilities below this
  bool squares = false;  // KeyScores::magnitudes has x^2
};

/// The scores of a row's keys, [keys] each.
struct KeyScores {
  const double* scores;          // s; -inf: hidden
  const double* staged_squares;  // t; null: s^2
  const double* magnitudes;      // x, or x^2 where WeightModel::squares
};

/// The arrays for the weights of a row's keys, [keys] each. They may be the arrays of KeyScores.
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

/// Writes the weights of `keys` keys, and returns their sums.
WeightSums weights(const KeyScores& from, const WeightModel& model, int64_t keys,
                   const KeyWeights& to);

}  // namespace attest::core::kernels
