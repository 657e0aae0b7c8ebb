// How a quantity grows with a size: value = factor * size^exponent.
//
// The exponent is the median of the slopes between all pairs of points, in logarithms (Theil 1950).
// Its interval comes from the order of these slopes and assumes no distribution of the errors (Sen,
// "Estimates of the regression coefficient based on Kendall's tau", JASA 63, 1968).
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace attest::core {

/// A quantity at one size, with an interval; sizes are above 0.
struct Sized {
  double size = 0, value = 0;
  double low = 0, high = 0;
};

/// The law of some points. The codes: "fitted"; "few-points" (fewer than three points above the
/// floor); "zero" (a value is 0, so it has no logarithm).
struct PowerLaw {
  std::string code = "few-points";
  double exponent = 0, low = 0, high = 0;  // with its interval
  double coverage = 0;      // of the interval; below the wanted one if there are few points
  double from = 0, to = 0;  // the smallest and largest size of the points that it was fitted to
  size_t points = 0;        // how many these are

  bool fitted() const { return code == "fitted"; }
  /// Whether more points between the others would tell more: the interval is wider than
  /// 2 * `half_width`, or does not have its coverage.
  bool is_loose(double half_width, double wanted_coverage = 0.95) const;
};

/// A fixed cost hides how a value grows unless the value is this many times as large.
inline constexpr double kAboveFloor = 10;

/// Exact values follow a law only from the first size on from which no slope between neighbours
/// differs by more than this from the exponent.
inline constexpr double kMostBend = 0.05;

struct FitRule {
  double floor = 0;  // only points from the first size on from which all values are above
                     // kAboveFloor * floor count; 0: all count
  double wanted_coverage = 0.95;
  // The values have no noise. Where an additive term makes small sizes grow otherwise, the law
  // begins above them (kMostBend), unless fewer than three points would be left.
  bool is_exact = false;
};

/// The law of `points`, which are sorted by size.
PowerLaw fit_power_law(std::span<const Sized> points, const FitRule& rule);

/// By how much values scatter around their law: the standard deviation of the logarithms of its
/// points, estimated by the median of their distances from the law. 0 without a law.
double scatter(std::span<const Sized> points, const PowerLaw& law);

/// The largest size whose value is at most some limit.
struct LargestSize {
  enum class How {
    kUnknown,       // no points
    kBelow,         // even the smallest measured size, `high`, is beyond the limit
    kBetween,       // measured: `low` is within the limit, `high` is not; `size` is interpolated
    kExtrapolated,  // all measured sizes are within the limit; from the law and its interval
    kUnlimited,     // all measured sizes, up to `low`, are within it, and the value does not grow
  };
  How how = How::kUnknown;
  double size = 0, low = 0, high = 0;
};

/// `points` are sorted by size and have positive values.
LargestSize largest_within(std::span<const Sized> points, const PowerLaw& law, double limit);

}  // namespace attest::core
