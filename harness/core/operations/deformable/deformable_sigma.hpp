// Values of deformable attention, and the standard deviation of an honest kernel's error.
//
// n counts the points of a query that lie inside their levels, w_n is a weight, S_n a sample, x_n
// and y_n its pixel coordinates, k one of its four pixels with the bilinear factor f_k and the
// value v_k. To first order in the roundings:
//
//   delta o = sum_n (delta w_n S_n + w_n (S'_x delta x_n + S'_y delta y_n)
//                    + w_n sum_k (delta f_k v_k + f_k delta v_k)) + roundings of sums
//
// S'_x is the slope of the bilinear surface: an error of a coordinate moves the sample. A rounding
// of a number t errs by at most half an ulp of t, evenly distributed; its variance is a third of
// that squared, or 0 if t has few enough bits. Two roundings of the same number err alike: points
// with equal locations, weights or pixels share these errors, which then add up and not their
// squares.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/operations/deformable/deformable_arithmetic.hpp"
#include "core/operations/deformable/deformable_terms.hpp"
#include "core/operations/deformable/sampling.hpp"

namespace attest::core::deformable {

/// Points that lie outside of their level by less, in pixels, may be inside with the errors of
/// their coordinates. `location`: the dtype of that stage.
double nearly_inside(const std::vector<Level>& levels, DType location);

/// One thread's computation of rows.
class RowExpectation {
 public:
  RowExpectation(const Problem& problem, const Tensors& tensors,
                 const DeformableArithmetic& arithmetic);
  /// The true o of query i of head h in sequence b and its sigma, [head_dim_v] each.
  void expect(int64_t b, int64_t h, int64_t i, double* value, double* sigma);

 private:
  /// Rounding to one dtype: variances.
  struct Rounding {
    DType dtype;
    double relative, small, flush_below;  // of channels: t^2 relative + small; squares
    bool flushes;
    Rounding(DType to, bool flush);
    /// Returns the variance of the error of rounding t.
    double variance(double t) const;
    /// Returns variance(t), but 0 if the dtype holds t and does not flush it, and at least the
    /// square of the error if t is halfway between two numbers of the dtype.
    double inexact(double t) const;

   private:
    bool is_tie(double t, double error) const;
  };
  /// Points of one place.
  struct Place {
    Point point;                             // its weight is the sum of all
    double least_weight = 0;                 // of one of them, without its sign
    double column_share = 0, row_share = 0;  // fractions: of the right column, of the lower row
    double error_x = 0, error_y = 0;         // variances of the coordinates
    double reach_x = 0, reach_y = 0;         // pixels: by how much they may err, if to another cell

    void add(double weight) {
      point.weight += weight;
      least_weight = std::min(least_weight, std::fabs(weight));
    }
    /// The bilinear factor of pixel k: 0 and 1 are the upper ones, 0 and 2 the left ones.
    double factor(int k) const {
      return (k % 2 ? column_share : 1 - column_share) * (k / 2 ? row_share : 1 - row_share);
    }
  };
  /// An error that is `size` times an array of channels. Equal keys are one error. Without a sign
  /// it may be of either sign, whatever that of the others is.
  struct SharedError {
    uint64_t kind, key;
    double size;
    const double* channels;
    bool has_sign;
  };
  /// The parts of the variance of one coordinate.
  struct CoordinateError {
    double location = 0, product = 0, rest = 0;
  };

  void find_places();
  void read_pixels(int64_t b, int64_t h, size_t place);
  CoordinateError coordinate_error(double location, double at, int64_t size) const;
  void add_axis(int64_t b, int64_t h, size_t place, bool horizontal);
  void steepen(int64_t b, int64_t h, const Place& place, bool horizontal, double reach,
               double* slope);
  void add_lines_before(int64_t b, int64_t h, const Place& place, bool horizontal);
  void add_factors(size_t place);
  void add_products(size_t place);
  void add_flushed(const Place& place, const double* v, const double* samples);
  void find_saddle(int64_t b, int64_t h, const Place& place);
  void add_weights();
  void add_sums();
  void add_shared();
  void share(uint64_t kind, uint64_t key, double variance, double times, const double* channels,
             bool has_sign = true);

  double* row(std::vector<double>& rows, size_t index) { return rows.data() + index * width_; }

  const Points reader_;
  const Pixels pixels_;
  const DeformableArithmetic arithmetic_;
  const Rounding location_, weight_, product_, accumulator_;
  const bool rounds_values_;
  const double nearly_inside_;  // pixels
  const size_t width_;          // channels
  const double output_variance_, output_small_;

  std::vector<Point> points_;
  std::vector<size_t> place_of_;  // of each point
  std::vector<Place> places_;
  // By place: [4, width] pixels, and [width] each: samples, slopes, the left column, the upper row.
  std::vector<double> pixel_, sample_, slope_x_, slope_y_, left_, upper_;
  // [width] each
  std::vector<double> sum_, variance_, work_, column_, partial_, reach_, squares_, flushed_,
      flushed_squares_;
  std::vector<SharedError> shared_;
};

}  // namespace attest::core::deformable
