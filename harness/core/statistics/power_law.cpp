#include "core/statistics/power_law.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/statistics/statistics.hpp"

namespace attest::core {
namespace {

constexpr size_t kLeastPoints = 3;
// Below this exponent a value does not grow, as far as measurements tell.
constexpr double kLeastGrowth = 0.02;

// The probabilities that a random order of n things has 0, 1, 2 ... pairs in descending order.
std::vector<double> inversion_probabilities(size_t n) {
  std::vector<double> shares{1};
  for (size_t k = 2; k <= n; ++k) {  // the k-th thing comes before 0 .. k - 1 of the others
    std::vector<double> next(shares.size() + k - 1);
    for (size_t i = 0; i < shares.size(); ++i)
      for (size_t before = 0; before < k; ++before) next[i + before] += shares[i] / double(k);
    shares = std::move(next);
  }
  return shares;
}

struct SlopeTrim {
  size_t count = 0;  // slopes left out at either end
  double coverage = 0;
};

// The true slope is below slope number r + 1 (from 1) if at most r pairs of errors descend.
SlopeTrim trim_slopes(size_t points, double wanted_coverage) {
  const std::vector<double> shares = inversion_probabilities(points);
  double tail = shares[0];
  SlopeTrim trim{0, 1 - 2 * tail};
  for (size_t r = 1; 2 * r < shares.size() - 1; ++r) {
    tail += shares[r];
    if (1 - 2 * tail < wanted_coverage) break;
    trim = {r, 1 - 2 * tail};
  }
  return trim;
}

double slope(const Sized& from, const Sized& to) {
  return std::log(to.value / from.value) / std::log(to.size / from.size);
}

std::vector<double> sorted_slopes(std::span<const Sized> points) {
  std::vector<double> slopes;
  for (size_t i = 0; i < points.size(); ++i)
    for (size_t j = i + 1; j < points.size(); ++j) slopes.push_back(slope(points[i], points[j]));
  std::ranges::sort(slopes);
  return slopes;
}

// The points from the first size on from which all values are well above the floor.
std::span<const Sized> above_floor(std::span<const Sized> points, double floor) {
  size_t first = points.size();
  while (first > 0 && points[first - 1].value > kAboveFloor * floor) --first;
  return points.subspan(first);
}

bool is_straight(std::span<const Sized> points) {
  const double exponent = quantile(sorted_slopes(points), 0.5);
  for (size_t i = 0; i + 1 < points.size(); ++i)
    if (std::fabs(slope(points[i], points[i + 1]) - exponent) > kMostBend) return false;
  return true;
}

std::span<const Sized> above_bend(std::span<const Sized> points) {
  for (size_t first = 0; first + kLeastPoints <= points.size(); ++first)
    if (is_straight(points.subspan(first))) return points.subspan(first);
  return points;
}

std::vector<double> sorted(std::vector<double> values) {
  std::ranges::sort(values);
  return values;
}

}  // namespace

bool PowerLaw::is_loose(double half_width, double wanted_coverage) const {
  return !fitted() || coverage < wanted_coverage || high - low > 2 * half_width;
}

PowerLaw fit_power_law(std::span<const Sized> points, const FitRule& rule) {
  PowerLaw law;
  if (std::ranges::any_of(points, [](const Sized& point) { return point.value <= 0; })) {
    law.code = "zero";
    return law;
  }
  points = above_floor(points, rule.floor);
  if (rule.is_exact) points = above_bend(points);
  law.points = points.size();
  if (!points.empty()) {
    law.from = points.front().size;
    law.to = points.back().size;
  }
  if (points.size() < kLeastPoints) return law;
  const std::vector<double> slopes = sorted_slopes(points);
  const SlopeTrim trim = trim_slopes(points.size(), rule.wanted_coverage);
  law.code = "fitted";
  law.exponent = quantile(slopes, 0.5);
  law.low = slopes[trim.count];
  law.high = slopes[slopes.size() - 1 - trim.count];
  law.coverage = trim.coverage;
  return law;
}

double scatter(std::span<const Sized> points, const PowerLaw& law) {
  if (!law.fitted()) return 0;
  std::vector<double> factors;
  for (const Sized& point : points)
    if (law.from <= point.size && point.size <= law.to)
      factors.push_back(std::log(point.value) - law.exponent * std::log(point.size));
  const double middle = quantile(sorted(factors), 0.5);
  for (double& factor : factors) factor = std::fabs(factor - middle);
  constexpr double kOfNormal = 1.4826;  // standard deviation over median distance
  return kOfNormal * quantile(sorted(factors), 0.5);
}

LargestSize largest_within(std::span<const Sized> points, const PowerLaw& law, double limit) {
  using How = LargestSize::How;
  if (points.empty()) return {};
  const auto beyond =
      std::ranges::find_if(points, [limit](const Sized& point) { return point.value > limit; });
  if (beyond == points.begin()) return {How::kBelow, 0, 0, beyond->size};
  const Sized& last = *(beyond - 1);
  const double room = std::log(limit / last.value);
  if (beyond != points.end()) {
    const double share = room / std::log(beyond->value / last.value),
                 decades = std::log(beyond->size / last.size);
    return {How::kBetween, last.size * std::exp(share * decades), last.size, beyond->size};
  }
  if (!law.fitted() || law.exponent < kLeastGrowth) return {How::kUnlimited, 0, last.size, 0};
  const auto reach = [&](double exponent) {
    return exponent < kLeastGrowth ? std::numeric_limits<double>::infinity()
                                   : last.size * std::exp(room / exponent);
  };
  return {How::kExtrapolated, reach(law.exponent), reach(law.high), reach(law.low)};
}

}  // namespace attest::core
