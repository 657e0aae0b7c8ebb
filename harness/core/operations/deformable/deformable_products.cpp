// Sigma of deformable attention: errors of the bilinear factors, of V, and of products with them.
#include <algorithm>
#include <cmath>

#include "core/operations/deformable/deformable_sigma.hpp"
#include "core/operations/deformable/deformable_terms.hpp"

namespace attest::core::deformable {

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
// four products with the weight for each point.
void RowExpectation::add_products(size_t index) {
  const Place& place = places_[index];
  const double weights = place.point.weight * place.point.weight;
  double single = 0, alone = 0;
  for (size_t n = 0; n < points_.size(); ++n)
    if (place_of_[n] == index) single += points_[n].weight * points_[n].weight, ++alone;
  const double relative = squared(Term::kProduct) * product_.relative,
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
    variance_[c] += relative * (weights * squares + single * sample * sample) + small;
  }
  if (product_.flushes) add_flushed(place, v, samples);
}

// What is flushed is lost with its sign, so it adds up. Factors and products may be lost alone, or
// when they are multiplied with the weight.
void RowExpectation::add_flushed(const Place& place, const double* v, const double* samples) {
  const double least = std::min(1.0, place.least_weight) / kFlushMargin, w = place.point.weight;
  for (size_t c = 0; c < width_; ++c) {
    double lost = 0;
    for (int k = 0; k < 4; ++k) {
      const double part = place.factor(k) * v[size_t(k) * width_ + c];
      if (place.factor(k) * least < smallest_normal(weight_.dtype) ||
          std::fabs(part) * least < smallest_normal(product_.dtype))
        lost += part;
    }
    if (std::fabs(samples[c]) * least < smallest_normal(product_.dtype) &&
        std::fabs(samples[c]) > std::fabs(lost))
      lost = samples[c];
    lost *= w * factor(Term::kFlushed);
    flushed_[c] += lost;
    flushed_squares_[c] += lost * lost;
  }
}

}  // namespace attest::core::deformable
