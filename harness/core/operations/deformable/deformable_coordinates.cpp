// Sigma of deformable attention: errors of the coordinates of points, and by how much they move
// what is read.
#include <algorithm>
#include <cmath>

#include "core/operations/deformable/deformable_sigma.hpp"
#include "core/operations/deformable/deformable_terms.hpp"

namespace attest::core::deformable {
namespace {

// Columns beyond this many to either side are not looked at.
constexpr double kFarthestKink = 16;
// The same for the cells in which both coordinates may lie.
constexpr double kFarthestSaddle = 1;

int64_t odd_part(int64_t size) {
  while (size > 0 && size % 2 == 0) size /= 2;
  return size;
}

}  // namespace

// The errors are those of the location, of its product with the size, and of the difference, and as
// much once more.
double nearly_inside(const std::vector<Level>& levels, DType location) {
  int64_t largest = 1;
  for (const Level& level : levels) largest = std::max({largest, level.height, level.width});
  return std::max(1.0, 6 * unit_roundoff(location) * double(largest));
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

// A kernel whose coordinate falls into the cell before has fractions of nearly 1 there. Where it
// interpolates by differences, those to the line before round.
void RowExpectation::add_lines_before(int64_t b, int64_t h, const Place& place, bool horizontal) {
  const Level& level = reader_.levels()[size_t(place.point.level)];
  const auto x = int64_t(std::floor(place.point.x)), y = int64_t(std::floor(place.point.y));
  const double share = horizontal ? place.row_share : place.column_share, w = place.point.weight,
               relative = squared(Term::kDifference) * 2 * product_.relative;
  std::vector<double>&before = partial_, &now = reach_, &sum = work_, &squares = column_;
  std::fill(sum.begin(), sum.end(), 0.0);
  std::fill(squares.begin(), squares.end(), 0.0);
  for (int line = 0; line < 2; ++line) {
    const int64_t column = horizontal ? x : x + line, row = horizontal ? y + line : y;
    pixels_.read(b, h, level, row, column, now.data());
    pixels_.read(b, h, level, horizontal ? row : row - 1, horizontal ? column - 1 : column,
                 before.data());
    const double part = line == 0 ? 1 - share : share;
    for (size_t c = 0; c < width_; ++c) {
      const double step = part * (now[c] - before[c]);
      if (!std::isfinite(step)) continue;
      sum[c] += step;
      squares[c] += step * step;
    }
  }
  for (size_t c = 0; c < width_; ++c) {
    const double square = std::max(squares[c], sum[c] * sum[c]);
    variance_[c] += w * w * relative * square;
    if (product_.flushes && square < product_.flush_below * kFlushMargin * kFlushMargin)
      variance_[c] += w * w * squared(Term::kFlushed) * square;
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
    if (std::floor(at - reach) < std::floor(at)) add_lines_before(b, h, place, horizontal);
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

}  // namespace attest::core::deformable
