// What becomes of Q, K, V and dO where they are rounded to less than float32 before they are
// multiplied.
#pragma once
#include <cstdint>
#include <vector>

#include "core/tensor/dtype.hpp"

namespace attest::core::backward {

/// The rounding of a tensor's elements to an operand.
class OperandRounding {
 public:
  OperandRounding() = default;  // nothing is rounded
  /// Elements come in `stored`. An operand that is not coarser than float32 rounds nothing.
  /// `widest`: the scale may be multiplied into an element before it is rounded, so that what is
  /// lost below the smallest normal number counts so many times. `flushes`: it becomes 0.
  OperandRounding(DType stored, DType operand, bool flushes, double widest);
  explicit operator bool() const { return u_ > 0 || eta_ > 0 || flushed_below_ > 0; }
  /// Returns the deviation of the error of an element, with the element's sign: that of errors
  /// uniform over one roundoff. What is flushed errs by itself.
  double step(double element) const;

 private:
  double u_ = 0, eta_ = 0, flushed_below_ = 0;
};

/// Whether operands of this dtype are rounded to less than float32.
bool is_coarse(DType operand);

/// The sum of the variances of x y, where each element of x and y errs by its step.
double product_variance(const double* x, const double* x_steps, const double* y,
                        const double* y_steps, int64_t width);

/// The error of a gradient from an operand that all pairs of its sum have in common: K in dK, say.
/// Each of its elements errs once and moves all addends, whose movements add up before they are
/// squared.
class CommonOperand {
 public:
  /// `operand`: channels of the operand; `width`: those of the gradient.
  CommonOperand(int64_t operand, int64_t width);
  /// A pair whose weight moves by `slope` times the operand's error times `other[operand]`. The
  /// gradient adds the weight times `row[width]`.
  void add(double slope, const double* other, const double* row);
  /// Adds `factor` times the variances of the gradient to `variance[width]`. `steps` are those of
  /// the operand.
  void add_variance(const double* steps, double factor, double* variance) const;

 private:
  size_t operand_, width_;
  std::vector<double> moved_;  // [operand, width]: by an error of 1
};

}  // namespace attest::core::backward
