// Sigma of deformable attention: errors of the bilinear factors, of V, and of products with them.
#include <algorithm>
#include <cmath>

#include "core/operations/deformable/deformable_sigma.hpp"
#include "core/operations/deformable/deformable_terms.hpp"

namespace attest::core::deformable {
namespace {

/// A sample of one channel, interpolated as a + f (b - a): along two lines of pixels, then between
/// these. Which of the two axes comes first is the kernel's choice.
class ByDifferences {
 public:
  /// Pixels in the order of the lines, fractions along a line and across.
  ByDifferences(double near0, double far0, double near1, double far1, double along, double across)
      : step0_((1 - across) * along * (far0 - near0)),
        step1_(across * along * (far1 - near1)),
        line0_((1 - across) * near0 + step0_),
        line1_(across * near1 + step1_),
        step_(across * ((1 - along) * (near1 - near0) + along * (far1 - far0))) {}

  /// What roundings are relative to, as the sample has it, squared: differences and their products
  /// with the fractions, and the lines. A difference of nearly equal pixels is small; one with a
  /// pixel that counts for little in the sample is not.
  double squares() const {
    return 2 * (step0_ * step0_ + step1_ * step1_ + step_ * step_) + line0_ * line0_ +
           line1_ * line1_;
  }
  /// What the sample loses at most if those of them are flushed that are below `normal`: each line
  /// loses its step or all of itself. Losses do not cancel, as not all may be flushed.
  double lost(double across, double normal) const {
    double largest = 0, sum = 0;
    const auto flushed = [normal](double part, double share) {
      return std::fabs(part) < normal * share ? part : 0;
    };
    const auto add = [&](double part) {
      sum += std::fabs(part);
      if (std::fabs(part) > std::fabs(largest)) largest = part;
    };
    const auto larger = [](double x, double y) { return std::fabs(x) > std::fabs(y) ? x : y; };
    add(larger(flushed(step0_, 1 - across), flushed(line0_, 1 - across)));
    add(larger(flushed(step1_, across), flushed(line1_, across)));
    add(flushed(step_, 1));
    return std::copysign(sum, largest);
  }

 private:
  double step0_, step1_, line0_, line1_, step_;  // as they count in the sample
};

}  // namespace

// Errors of the four bilinear factors, and of these times the weight, which some kernels multiply
// first.
void RowExpectation::add_factors(size_t index) {
  const Place& place = places_[index];
  const auto kept = [this](double x) { return rounded(x, weight_.dtype); };
  const double right = kept(place.column_share), lower = kept(place.row_share),
               left = kept(1 - right), upper = kept(1 - lower);
  const double w = place.point.weight;
  for (int k = 0; k < 4; ++k) {
    const double* v = pixel_.data() + (4 * index + size_t(k)) * width_;
    const double share_of_pixel = place.factor(k),
                 product = (k % 2 ? right : left) * (k / 2 ? lower : upper);
    double variance = w * w * weight_.inexact(product);
    for (size_t n = 0; n < points_.size(); ++n)
      if (place_of_[n] == index)
        variance += weight_.inexact(kept(points_[n].weight) * kept(product));
    variance *= squared(Term::kFactor);
    for (size_t c = 0; c < width_; ++c) variance_[c] += variance * v[c] * v[c];
    if (!rounds_values_) continue;
    const Level& level = reader_.levels()[size_t(place.point.level)];
    const int64_t x = int64_t(std::floor(place.point.x)) + k % 2,
                  y = int64_t(std::floor(place.point.y)) + k / 2;
    if (x < 0 || x >= level.width || y < 0 || y >= level.height) continue;
    share(kPixelKind << 32, uint64_t(level.first + y * level.width + x),
          squared(Term::kValues) * product_.relative, w * share_of_pixel, v);
    const double small =
        squared(Term::kSmallProduct) * product_.small * w * w * share_of_pixel * share_of_pixel;
    for (size_t c = 0; c < width_; ++c) variance_[c] += small;
  }
}

// A sample is a sum of four products; then it is multiplied with the weight. Other kernels have
// four products with the weight for each point, or interpolate by differences.
void RowExpectation::add_products(size_t index) {
  const Place& place = places_[index];
  const double weights = place.point.weight * place.point.weight;
  double single = 0, alone = 0;
  for (size_t n = 0; n < points_.size(); ++n)
    if (place_of_[n] == index) {
      single += points_[n].weight * points_[n].weight;
      ++alone;
    }
  const double fx = place.column_share, fy = place.row_share;
  const double relative = squared(Term::kProduct) * product_.relative,
               of_differences = squared(Term::kDifference) * product_.relative * weights,
               small = squared(Term::kSmallProduct) * product_.small * (7 * weights + 4 * alone);
  const double* v = pixel_.data() + 4 * index * width_;
  const double* samples = row(sample_, index);
  for (size_t c = 0; c < width_; ++c) {
    const double part0 = place.factor(0) * v[c], part1 = place.factor(1) * v[width_ + c],
                 part2 = place.factor(2) * v[2 * width_ + c],
                 part3 = place.factor(3) * v[3 * width_ + c];
    const double two = part0 + part1, three = two + part2, sample = samples[c];
    const double squares = part0 * part0 + part1 * part1 + part2 * part2 + part3 * part3 +
                           two * two + three * three + sample * sample;
    const double v00 = v[c], v01 = v[width_ + c], v10 = v[2 * width_ + c], v11 = v[3 * width_ + c];
    const double by_differences =
        sample * sample + std::max(ByDifferences(v00, v01, v10, v11, fx, fy).squares(),
                                   ByDifferences(v00, v10, v01, v11, fy, fx).squares());
    variance_[c] += relative * (weights * squares + single * sample * sample) +
                    of_differences * std::max(0.0, by_differences - squares) + small;
  }
  if (product_.flushes) add_flushed(place, v, samples);
}

// What is flushed is lost with its sign, so it adds up. Factors and products may be lost alone, or
// when they are multiplied with the weight.
void RowExpectation::add_flushed(const Place& place, const double* v, const double* samples) {
  const double least = std::min(1.0, place.least_weight) / kFlushMargin, w = place.point.weight,
               normal = kFlushMargin * smallest_normal(product_.dtype), fx = place.column_share,
               fy = place.row_share;
  for (size_t c = 0; c < width_; ++c) {
    double lost = 0;
    for (int k = 0; k < 4; ++k) {
      const double part = place.factor(k) * v[size_t(k) * width_ + c];
      if (place.factor(k) * least < smallest_normal(weight_.dtype) ||
          std::fabs(part) * least < smallest_normal(product_.dtype))
        lost += part;
    }
    const auto take_if_more = [&](double other) {
      if (std::fabs(other) > std::fabs(lost)) lost = other;
    };
    const double v00 = v[c], v01 = v[width_ + c], v10 = v[2 * width_ + c], v11 = v[3 * width_ + c];
    take_if_more(ByDifferences(v00, v01, v10, v11, fx, fy).lost(fy, normal));
    take_if_more(ByDifferences(v00, v10, v01, v11, fy, fx).lost(fx, normal));
    if (std::fabs(samples[c]) * least < smallest_normal(product_.dtype)) take_if_more(samples[c]);
    lost *= w * factor(Term::kFlushed);
    flushed_[c] += lost;
    flushed_squares_[c] += lost * lost;
  }
}

}  // namespace attest::core::deformable
