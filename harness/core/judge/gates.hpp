// The thresholds that an error is held against: their only home.
#pragma once
#include <cstdint>

namespace attest::core {

/// Gates, in standard deviations of the error that the declared arithmetic may make. An honest
/// kernel's largest error stays near 3 sigma over a million elements and its root mean square
/// below 1. README.md beside this file derives sigma and says why these.
struct Gates {
  static constexpr double kLargest = 6.0;
  static constexpr double kRms = 1.5;
  /// The gate of a root mean square over `rows` rows that err independently: kRms from 95 rows on.
  /// Elements of one row share its errors, and over few rows a mean is not much steadier than one
  /// error: a single one exceeds 1.5 sigma one time in eight. The bound is the tail of chi squared
  /// that is exceeded with a chance of e^-18 (Laurent and Massart, Adaptive estimation of a
  /// quadratic functional by model selection, Annals of Statistics 28(5), 2000, lemma 1), and never
  /// above kLargest.
  static double rms(int64_t rows);
  /// Where an element's own rounding is at least kOwnRounding of its sigma, errors point either
  /// way: their mean, away from 0 and in sigmas, stays below kOneSided and four of its own standard
  /// deviations. Who cuts in place of rounding has 1.25 there, and a root mean square of 1.47 that
  /// no gate for honest kernels sees. Fewer than kFewestRounded elements are not asked.
  static constexpr double kOwnRounding = 0.975, kOneSided = 0.7, kFewestRounded = 256;
  static double one_sided(double elements);
  /// Such elements have a gate of their own for the root mean square. What rounding to the output's
  /// dtype may do to a known number is known: an error between the two halves of an ulp, evenly.
  /// `mean` and `deviation` are those of error^2 / sigma^2 where that is so, and what is left of
  /// sigma errs by kRms; the gate is the 1 - 1e-6 quantile of the mean of `elements`, as a root. A
  /// normaliser kept in half precision, say, is within kRms and beyond it.
  static constexpr double kQuantile = 4.75;  // of a normal distribution
  static double rounded_rms(double mean, double deviation, double elements);
  /// A failure stays one, even where the declared arithmetic, emulated, exceeds a gate itself, if
  /// it is so many times as far from the golden. An emulation has errors of the same kind on a few
  /// rows; of millions of elements the largest is twice that of a few hundred, and another order of
  /// summation may double it.
  static constexpr double kBeyondEmulation = 4;
};

}  // namespace attest::core
