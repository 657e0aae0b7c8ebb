// The thresholds for errors. No other file has any.
#pragma once
#include <cstdint>

namespace attest::core {

/// The gates, in sigmas. Over a million elements, the largest error of an honest kernel stays near
/// 3 sigma, and the root mean square below 1. README.md beside this file explains the gates;
/// SIGMA.md derives sigma.
struct Gates {
  static constexpr double kLargest = 6.0;
  static constexpr double kRms = 1.5;
  /// The gate of a root mean square over `rows` rows that err independently; kRms from 95 rows on.
  /// Elements of one row share errors, so the mean over few rows is hardly steadier than a single
  /// error, which exceeds 1.5 sigma one time in eight. The gate is the tail of chi squared that an
  /// honest kernel exceeds with a chance of e^-18 (Laurent and Massart, Adaptive estimation of a
  /// quadratic functional by model selection, Annals of Statistics 28(5), 2000, lemma 1), and at
  /// most kLargest.
  static double rms(int64_t rows);
  /// The gate of a mean error, in sigmas. It applies to elements whose own rounding is at least
  /// kOwnRounding of their sigma: rounding errs in both directions, so the mean stays below
  /// kOneSided plus four of its own standard deviations. Truncation has a mean of 1.25 sigma and a
  /// root mean square of 1.47, which kRms lets pass. Not used below kFewestRounded elements.
  static constexpr double kOwnRounding = 0.975, kOneSided = 0.7, kFewestRounded = 256;
  static double one_sided(double elements);
  /// A second gate for the root mean square of such elements. The rounding error of a known number
  /// is evenly distributed between minus and plus half an ulp, and the rest of sigma may err by
  /// kRms. `mean` and `deviation` are those of error^2 / sigma^2 under this assumption. The gate is
  /// the root of the 1 - 1e-6 quantile of its mean over `elements`. It catches, for example, a
  /// normaliser in half precision, which passes kRms.
  static constexpr double kQuantile = 4.75;  // of a normal distribution
  static double rounded_rms(double mean, double deviation, double elements);
  /// If the emulated arithmetic exceeds a gate too, an output still fails if its error is more than
  /// this many times that of the emulation. The emulation covers a few rows only: among millions of
  /// elements the largest error is twice that among a few hundred, and another order of summation
  /// may double it again.
  static constexpr double kBeyondEmulation = 4;
};

}  // namespace attest::core
