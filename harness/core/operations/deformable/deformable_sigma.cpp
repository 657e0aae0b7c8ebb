#include "core/operations/deformable/deformable_sigma.hpp"

#include <algorithm>

#include "core/operations/deformable/deformable_terms.hpp"
#include "core/operations/numerics/rounding.hpp"

namespace attest::core::deformable {

RowExpectation::Rounding::Rounding(DType to, bool flush)
    : dtype(to),
      relative(unit_roundoff(to) * unit_roundoff(to) / 3),
      small(half_subnormal(to) * half_subnormal(to) / 3),
      flush_below(flush ? smallest_normal(to) * smallest_normal(to) : 0),
      flushes(flush) {}

double RowExpectation::Rounding::variance(double t) const {
  if (t == 0 || !std::isfinite(t)) return 0;
  if (t * t < flush_below) return squared(Term::kFlushed) * t * t;
  const double half_ulp = unit_roundoff(dtype) * binade(t);
  return std::max(half_ulp * half_ulp / 3, small);
}

double RowExpectation::Rounding::inexact(double t) const {
  const bool is_flushed = t != 0 && t * t < flush_below;
  const double error = std::fabs(rounded(t, dtype) - t);
  if (error == 0 && !is_flushed) return 0;
  return std::max(variance(t), is_tie(t, error) ? error * error : 0);
}

bool RowExpectation::Rounding::is_tie(double t, double error) const {
  return std::isfinite(t) &&
         error == std::max(unit_roundoff(dtype) * binade(t), half_subnormal(dtype));
}

RowExpectation::RowExpectation(const Problem& problem, const Tensors& tensors,
                               const DeformableArithmetic& arithmetic)
    : reader_(problem, tensors),
      pixels_(problem, tensors),
      arithmetic_(arithmetic),
      location_(arithmetic.location, arithmetic.has(ATTEST_FLUSHES_SUBNORMALS)),
      weight_(arithmetic.weight, arithmetic.has(ATTEST_FLUSHES_SUBNORMALS)),
      product_(arithmetic.product, arithmetic.has(ATTEST_FLUSHES_SUBNORMALS)),
      accumulator_(arithmetic.accumulator, arithmetic.has(ATTEST_FLUSHES_SUBNORMALS)),
      rounds_values_(is_coarser(arithmetic.product, problem.tensor[ATTEST_V].dtype)),
      nearly_inside_(nearly_inside(reader_.levels(), arithmetic.location)),
      width_(size_t(problem.as<Params>().head_dim_v)),
      output_variance_(squared(Term::kOutput) * unit_roundoff(arithmetic.output) *
                       unit_roundoff(arithmetic.output) / 3),
      output_small_(squared(Term::kOutputSubnormal) * half_subnormal(arithmetic.output) *
                    half_subnormal(arithmetic.output) / 3),
      sum_(width_),
      variance_(width_),
      work_(width_),
      column_(width_),
      partial_(width_),
      reach_(width_),
      squares_(width_),
      flushed_(width_),
      flushed_squares_(width_) {}

void RowExpectation::find_places() {
  places_.clear();
  place_of_.clear();
  for (const Point& point : points_) {
    const auto same = std::find_if(places_.begin(), places_.end(), [&](const Place& place) {
      return place.point.level == point.level && place.point.location_x == point.location_x &&
             place.point.location_y == point.location_y;
    });
    place_of_.push_back(size_t(same - places_.begin()));
    if (same == places_.end())
      places_.push_back({.point = point,
                         .least_weight = std::fabs(point.weight),
                         .column_share = point.x - std::floor(point.x),
                         .row_share = point.y - std::floor(point.y)});
    else
      same->add(point.weight);
  }
  for (auto* rows : {&sample_, &slope_x_, &slope_y_, &left_, &upper_})
    rows->resize(places_.size() * width_);
  pixel_.resize(4 * places_.size() * width_);
}

void RowExpectation::read_pixels(int64_t b, int64_t h, size_t index) {
  const Place& place = places_[index];
  const Level& level = reader_.levels()[size_t(place.point.level)];
  const auto x = int64_t(std::floor(place.point.x)), y = int64_t(std::floor(place.point.y));
  double* v = pixel_.data() + 4 * index * width_;
  for (int k = 0; k < 4; ++k)
    pixels_.read(b, h, level, y + k / 2, x + k % 2, v + size_t(k) * width_);
  const double *v00 = v, *v01 = v + width_, *v10 = v01 + width_, *v11 = v10 + width_;
  const double fx = place.column_share, fy = place.row_share;
  double *sample = row(sample_, index), *slope_x = row(slope_x_, index),
         *slope_y = row(slope_y_, index), *left = row(left_, index), *upper = row(upper_, index);
  for (size_t c = 0; c < width_; ++c) {
    const double left_column = (1 - fy) * v00[c] + fy * v10[c],
                 right_column = (1 - fy) * v01[c] + fy * v11[c];
    left[c] = left_column;
    upper[c] = (1 - fx) * v00[c] + fx * v01[c];
    slope_x[c] = right_column - left_column;
    slope_y[c] = (1 - fx) * v10[c] + fx * v11[c] - upper[c];
    sample[c] = (1 - fx) * left_column + fx * right_column;
  }
}

// Notes an error of that variance times `times` and the array.
void RowExpectation::share(uint64_t kind, uint64_t key, double variance, double times,
                           const double* channels, bool has_sign) {
  if (variance > 0) shared_.push_back({kind, key, std::sqrt(variance) * times, channels, has_sign});
}

void RowExpectation::add_weights() {
  for (size_t n = 0; n < points_.size(); ++n)
    share(kWeightKind << 32, bits_of(points_[n].weight),
          squared(Term::kWeight) * weight_.inexact(points_[n].weight), 1,
          row(sample_, place_of_[n]));
}

// The sum over points, pixel by pixel, as the kernels that multiply the weight first add it: every
// partial sum is rounded, in this order or against it. A tree of additions rounds sums that look
// like single addends, once a level.
void RowExpectation::add_sums() {
  const size_t count = points_.size();
  const double most = 4 * double(count), chain = double(arithmetic_.sum_chain);
  const bool in_parts = chain > 0 && chain < most;
  double alike = 0;  // pairs of equal addends
  for (size_t n = 0; n < count; ++n)
    for (size_t m = 0; m < count; ++m)
      alike += m != n && place_of_[m] == place_of_[n] && points_[m].weight == points_[n].weight;
  const double sums = squared(Term::kSum) * accumulator_.relative,
               small = squared(Term::kSum) * accumulator_.small * most,
               repeated = squared(Term::kRepeated) * accumulator_.relative * alike,
               flushed = squared(Term::kFlushed);
  std::fill(partial_.begin(), partial_.end(), 0.0);
  std::fill(reach_.begin(), reach_.end(), 0.0);
  std::fill(work_.begin(), work_.end(), 0.0);
  std::fill(column_.begin(), column_.end(), 0.0);
  std::fill(squares_.begin(), squares_.end(), 0.0);
  std::vector<double>&forward = work_, &backward = column_;
  for (size_t n = 0; n < count; ++n) {
    const Place& place = places_[place_of_[n]];
    for (int k = 0; k < 4; ++k) {
      const double share = points_[n].weight * place.factor(k);
      const double* v = pixel_.data() + (4 * place_of_[n] + size_t(k)) * width_;
      for (size_t c = 0; c < width_; ++c) {
        const double x = share * v[c], rest = sum_[c] - partial_[c];
        partial_[c] += x;
        forward[c] += partial_[c] * partial_[c];
        backward[c] += rest * rest;
        squares_[c] += x * x;
        reach_[c] = std::max(reach_[c], std::fabs(partial_[c]));
        if (accumulator_.flushes)
          for (const double part : {partial_[c], rest})
            if (part * part < accumulator_.flush_below * kFlushMargin * kFlushMargin)
              variance_[c] += flushed * part * part;
      }
    }
  }
  for (size_t c = 0; c < width_; ++c) {
    const double sequential = std::max({forward[c], backward[c], most * squares_[c] / 2});
    const double rounded_sums =
        in_parts ? std::max(sequential * chain / most, chain * squares_[c]) : sequential;
    variance_[c] += sums * rounded_sums + small + repeated * reach_[c] * reach_[c];
  }
}

void RowExpectation::add_shared() {
  std::sort(shared_.begin(), shared_.end(), [](const SharedError& a, const SharedError& b) {
    return std::pair(a.kind, a.key) < std::pair(b.kind, b.key);
  });
  for (size_t begin = 0, end; begin < shared_.size(); begin = end) {
    const SharedError& first = shared_[begin];
    for (end = begin + 1;
         end < shared_.size() && shared_[end].kind == first.kind && shared_[end].key == first.key;
         ++end) {
    }
    if (end == begin + 1) {
      const double square = first.size * first.size;
      for (size_t c = 0; c < width_; ++c)
        variance_[c] += square * first.channels[c] * first.channels[c];
      continue;
    }
    std::fill(work_.begin(), work_.end(), 0.0);
    bool have_signs = true;
    for (size_t n = begin; n < end; ++n) have_signs &= shared_[n].has_sign;
    for (size_t n = begin; n < end; ++n)
      for (size_t c = 0; c < width_; ++c) {
        const double one = shared_[n].size * shared_[n].channels[c];
        work_[c] += have_signs ? one : std::fabs(one);
      }
    for (size_t c = 0; c < width_; ++c) variance_[c] += work_[c] * work_[c];
  }
}

void RowExpectation::expect(int64_t b, int64_t h, int64_t i, double* value, double* sigma) {
  reader_.read(b, h, i, points_, nearly_inside_);
  find_places();
  shared_.clear();
  std::fill(flushed_.begin(), flushed_.end(), 0.0);
  std::fill(flushed_squares_.begin(), flushed_squares_.end(), 0.0);
  std::fill(sum_.begin(), sum_.end(), 0.0);
  std::fill(variance_.begin(), variance_.end(), 0.0);
  for (size_t index = 0; index < places_.size(); ++index) {
    read_pixels(b, h, index);
    const double w = places_[index].point.weight;
    for (size_t c = 0; c < width_ && places_[index].point.inside; ++c)
      sum_[c] += w * row(sample_, index)[c];
    add_factors(index);
    add_products(index);
    add_axis(b, h, index, true);
    add_axis(b, h, index, false);
    const double twist =
        squared(Term::kTwist) * w * w * places_[index].error_x * places_[index].error_y;
    if (twist == 0) continue;
    find_saddle(b, h, places_[index]);
    for (size_t c = 0; c < width_; ++c) variance_[c] += twist * work_[c] * work_[c];
  }
  if (!points_.empty()) {
    add_weights();
    add_sums();
    add_shared();
  }
  for (size_t c = 0; c < width_; ++c) {
    value[c] = sum_[c];
    variance_[c] += std::max(flushed_[c] * flushed_[c], flushed_squares_[c]);
    sigma[c] = std::sqrt(variance_[c] + output_variance_ * sum_[c] * sum_[c] + output_small_);
  }
}

}  // namespace attest::core::deformable
