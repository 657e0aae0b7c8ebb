// Where a location of deformable attention lies in a level, and which points of a query count.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "core/operations/operation.hpp"

namespace attest::core::deformable {

using Params = attest_deformable_params;
inline constexpr int kMostLevels = 8;

/// The pixels of a level: pixel (y, x) is token first + y * width + x of V.
struct Level {
  int64_t height = 0, width = 0, first = 0;
};
std::vector<Level> levels_of(const Params& params);
/// Tokens of V: the pixels of all levels.
int64_t token_count(const Params& params);

/// The pixel coordinate of a location along an axis of `size` pixels; a whole number is the centre
/// of a pixel. NaN where the location is, and may be infinite.
inline double coordinate(const Params& params, double location, int64_t size) {
  return params.align_corners ? location * double(size - 1) : location * double(size) - 0.5;
}
/// Whether a coordinate lies within one pixel of the axis, or no more than `margin` pixels further
/// outside. False for NaN.
inline bool is_inside(double coordinate, int64_t size, double margin = 0) {
  return coordinate > -1 - margin && coordinate < double(size) + margin;
}

/// A point that lies inside its level, or nearly.
struct Point {
  int64_t level = 0, number = 0;  // number: of the points of its level
  double location_x = 0, location_y = 0;
  double x = 0, y = 0;  // pixel coordinates
  double weight = 0;
  bool inside = true;
};

/// Reads the points of single queries.
class Points {
 public:
  Points(const Problem& problem, const Tensors& tensors);

  /// The points of query i of head h in sequence b that lie inside their levels, level by level.
  /// `margin`: also points with a finite weight that lie no more than this many pixels outside.
  void read(int64_t b, int64_t h, int64_t i, std::vector<Point>& points, double margin = 0) const;
  const std::vector<Level>& levels() const { return levels_; }
  const Params& params() const { return params_; }

 private:
  Params params_;
  std::vector<Level> levels_;
  Tensor locations_, weights_;
};

/// V around single pixels, as zero outside of the level.
class Pixels {
 public:
  Pixels(const Problem& problem, const Tensors& tensors);
  /// The channels of pixel (y, x) of `level`. `values` has head_dim_v elements.
  void read(int64_t b, int64_t h, const Level& level, int64_t y, int64_t x, double* values) const;

 private:
  Tensor v_;
  int64_t channels_;
};

}  // namespace attest::core::deformable
