#include "core/operations/deformable/deformable_sigma.hpp"

#include <algorithm>
#include <bit>

#include "core/operations/rounding.hpp"

namespace attest::core::deformable {
namespace {

double factor(Term term) { return ScopedTermFactor<Term>::of(term); }
/// Of a variance.
double squared(Term term) { return factor(term) * factor(term); }

uint64_t bits_of(double x) { return std::bit_cast<uint64_t>(x + 0.0); }  // -0 and 0 alike

// What errors may share.
enum : uint64_t { kXLocation, kXProduct, kXRest, kXFraction, kXCounterpart, kAxisKinds };
constexpr uint64_t kWeightKind = 2 * kAxisKinds, kPixelKind = kWeightKind + 1;

// Columns beyond this many to either side are not looked at.
constexpr double kFarthestKink = 16;
// The same for the cells in which both coordinates may lie.
constexpr double kFarthestSaddle = 1;

// Numbers up to this many times the smallest normal one may be flushed, since they err themselves.
constexpr double kFlushMargin = 2;

int64_t odd_part(int64_t size) {
  while (size > 0 && size % 2 == 0) size /= 2;
  return size;
}

bool is_coarser(DType dtype, DType than) { return unit_roundoff(dtype) > unit_roundoff(than); }

}  // namespace

RowExpectation::Rounding::Rounding(DType to, bool flush)
    : dtype(to),
      relative(unit_roundoff(to) * unit_roundoff(to) / 3),
      small(half_subnormal(to) * half_subnormal(to) / 3),
      flush_below(flush ? smallest_normal(to) * smallest_normal(to) : 0),
      flushes(flush) {}

double RowExpectation::Rounding::variance(double t) const {
  if (t == 0 || !std::isfinite(t)) return 0;
  if (t * t < flush_below) return squared(Term::kFlushed) * t * t;
  const double half_ulp = std::ldexp(unit_roundoff(dtype), std::ilogb(t));
  return std::max(half_ulp * half_ulp / 3, small);
}

double RowExpectation::Rounding::inexact(double t) const {
  const bool is_flushed = t != 0 && t * t < flush_below;
  return rounded(t, dtype) == t && !is_flushed ? 0 : variance(t);
}

// The errors are those of the location, of its product with the size, and of the difference, and as
// much once more.
double nearly_inside(const std::vector<Level>& levels, DType location) {
  int64_t largest = 1;
  for (const Level& level : levels) largest = std::max({largest, level.height, level.width});
  return std::max(1.0, 6 * unit_roundoff(location) * double(largest));
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

RowExpectation::CoordinateError RowExpectation::coordinate_error(double location, double at,
                                                                 int64_t size) const {
  const bool aligned = reader_.params().align_corners != 0;
  const double scale = double(aligned ? size - 1 : size);
  CoordinateError error;
  error.location = squared(Term::kLocation) * location_.inexact(location) * scale * scale;
  const double kept = rounded(location, location_.dtype);
  error.product = squared(Term::kCoordinate) * location_.inexact(kept * scale);
  if (!aligned && !arithmetic_.has(ATTEST_LOCATES_ON_GRID))
    error.rest = squared(Term::kCoordinate) *
                 location_.inexact(rounded(kept * scale, location_.dtype) - 0.5);
  // The rounded 2 x - 1 is half a pixel's coordinate off by size / 2 times its error, and so is
  // what adding 1 rounds.
  if (arithmetic_.has(ATTEST_LOCATES_ON_GRID)) {
    const double on_grid = rounded(2 * kept - 1, location_.dtype);
    error.rest += squared(Term::kGrid) * scale * scale / 4 *
                  (location_.inexact(2 * kept - 1) + location_.inexact(on_grid + 1));
    error.product = squared(Term::kCoordinate) * location_.variance(aligned ? at : at + 0.5);
    if (!aligned) error.rest += squared(Term::kCoordinate) * location_.variance(at);
  }
  return error;
}

// Notes an error of that variance times `times` and the array.
void RowExpectation::share(uint64_t kind, uint64_t key, double variance, double times,
                           const double* channels, bool has_sign) {
  if (variance > 0) shared_.push_back({kind, key, std::sqrt(variance) * times, channels, has_sign});
}

// The steepest slope of the cells that a coordinate off by `reach` may lie in.
void RowExpectation::steepen(int64_t b, int64_t h, const Place& place, bool horizontal,
                             double reach, double* slope) {
  const Level& level = reader_.levels()[size_t(place.point.level)];
  const double at = horizontal ? place.point.x : place.point.y,
               across = horizontal ? place.point.y : place.point.x,
               share = horizontal ? place.row_share : place.column_share;
  reach = std::min(reach, kFarthestKink);
  const auto first = int64_t(std::floor(at - reach)), last = int64_t(std::floor(at + reach)) + 1,
             other = int64_t(std::floor(across));
  std::vector<double>&now = work_, &before = column_;
  for (int64_t line = first; line <= last; ++line) {
    std::vector<double>&near = partial_, &far = reach_;
    horizontal ? pixels_.read(b, h, level, other, line, near.data())
               : pixels_.read(b, h, level, line, other, near.data());
    horizontal ? pixels_.read(b, h, level, other + 1, line, far.data())
               : pixels_.read(b, h, level, line, other + 1, far.data());
    for (size_t c = 0; c < width_; ++c) {
      now[c] = (1 - share) * near[c] + share * far[c];
      const double step = now[c] - before[c];
      if (line > first && std::isfinite(step) && std::fabs(step) > std::fabs(slope[c]))
        slope[c] +=
            factor(Term::kKink) * (std::copysign(step, slope[c] == 0 ? step : slope[c]) - slope[c]);
    }
    std::swap(now, before);
  }
}

// The largest v00 - v01 - v10 + v11 of the cells that the point may lie in, by channel, in work_.
void RowExpectation::find_saddle(int64_t b, int64_t h, const Place& place) {
  const Level& level = reader_.levels()[size_t(place.point.level)];
  const auto floor = [](double x) { return int64_t(std::floor(x)); };
  const double x = place.point.x, y = place.point.y;
  std::vector<double>&saddle = column_, &pixel = partial_;
  std::fill(work_.begin(), work_.end(), 0.0);
  for (int64_t row = floor(y - place.reach_y); row <= floor(y + place.reach_y); ++row)
    for (int64_t column = floor(x - place.reach_x); column <= floor(x + place.reach_x); ++column) {
      std::fill(saddle.begin(), saddle.end(), 0.0);
      for (int k = 0; k < 4; ++k) {
        pixels_.read(b, h, level, row + k / 2, column + k % 2, pixel.data());
        const double sign = k == 0 || k == 3 ? 1 : -1;
        for (size_t c = 0; c < width_; ++c) saddle[c] += sign * pixel[c];
      }
      const bool is_own = row == floor(y) && column == floor(x);
      for (size_t c = 0; c < width_; ++c)
        if (is_own ? !(work_[c] >= std::fabs(saddle[c]))
                   : std::isfinite(saddle[c]) && work_[c] < std::fabs(saddle[c]))
          work_[c] = std::fabs(saddle[c]);
    }
}

void RowExpectation::add_axis(int64_t b, int64_t h, size_t index, bool horizontal) {
  Place& place = places_[index];
  const Level& level = reader_.levels()[size_t(place.point.level)];
  const int64_t size = horizontal ? level.width : level.height,
                scale = reader_.params().align_corners ? size - 1 : size;
  const double location = horizontal ? place.point.location_x : place.point.location_y,
               at = horizontal ? place.point.x : place.point.y, w = place.point.weight,
               share_of_far = horizontal ? place.column_share : place.row_share;
  double* slope = row(horizontal ? slope_x_ : slope_y_, index);
  const double* near = row(horizontal ? left_ : upper_, index);
  const CoordinateError error = coordinate_error(location, at, size);
  const double all = error.location + error.product + error.rest;
  (horizontal ? place.error_x : place.error_y) = all;
  const double reach = std::sqrt(3 * (error.location + error.product)) + std::sqrt(3 * error.rest);
  // Beyond a pixel's centre the surface may rise where it falls here.
  const bool has_kink = all > 0 && std::floor(at - reach) != std::floor(at + reach);
  if (has_kink) {
    steepen(b, h, place, horizontal, reach, slope);
    (horizontal ? place.reach_x : place.reach_y) = std::min(reach, kFarthestSaddle);
  }
  const uint64_t axis = horizontal ? 0 : uint64_t{kAxisKinds}, key = bits_of(location);
  const auto kind = [&](uint64_t what, int64_t of_size) {
    return (axis + what) << 32 | uint64_t(of_size);
  };
  share(kind(kXLocation, 0), key, error.location, w, slope, !has_kink);
  share(kind(kXProduct, odd_part(scale)), key, error.product, w, slope, !has_kink);
  share(kind(kXRest, size), key, error.rest, w, slope, !has_kink);
  if (is_coarser(arithmetic_.weight, arithmetic_.location))
    share(kind(kXFraction, size), key, squared(Term::kFraction) * weight_.inexact(share_of_far), w,
          slope);
  share(kind(kXCounterpart, size), key,
        squared(Term::kFraction) * weight_.inexact(1 - rounded(share_of_far, weight_.dtype)), w,
        near);
}

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
  std::fill(partial_.begin(), partial_.end(), 0.0), std::fill(reach_.begin(), reach_.end(), 0.0);
  std::fill(work_.begin(), work_.end(), 0.0), std::fill(column_.begin(), column_.end(), 0.0);
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
  std::fill(sum_.begin(), sum_.end(), 0.0), std::fill(variance_.begin(), variance_.end(), 0.0);
  for (size_t index = 0; index < places_.size(); ++index) {
    read_pixels(b, h, index);
    const double w = places_[index].point.weight;
    for (size_t c = 0; c < width_ && places_[index].point.inside; ++c)
      sum_[c] += w * row(sample_, index)[c];
    add_factors(index);
    add_products(index);
    add_axis(b, h, index, true), add_axis(b, h, index, false);
    const double twist =
        squared(Term::kTwist) * w * w * places_[index].error_x * places_[index].error_y;
    if (twist == 0) continue;
    find_saddle(b, h, places_[index]);
    for (size_t c = 0; c < width_; ++c) variance_[c] += twist * work_[c] * work_[c];
  }
  if (!points_.empty()) add_weights(), add_sums(), add_shared();
  for (size_t c = 0; c < width_; ++c) {
    value[c] = sum_[c];
    variance_[c] += std::max(flushed_[c] * flushed_[c], flushed_squares_[c]);
    sigma[c] = std::sqrt(variance_[c] + output_variance_ * sum_[c] * sum_[c] + output_small_);
  }
}

}  // namespace attest::core::deformable
