#include "core/operations/softmax_backward/operand_steps.hpp"

#include <cmath>

#include "core/operations/softmax_backward/backward_terms.hpp"

namespace attest::core::backward {

bool is_coarse(DType operand) { return unit_roundoff(operand) > unit_roundoff(ATTEST_F32); }

// f16 rounds small numbers that are stored in bf16, and no others of them.
OperandRounding::OperandRounding(DType stored, DType operand, bool flushes, double widest) {
  if (!is_coarse(operand)) return;
  const double small = factor(Term::kSmallOperands) * widest;
  if (unit_roundoff(operand) > unit_roundoff(stored)) u_ = unit_roundoff(operand);
  if (half_subnormal(operand) > half_subnormal(stored)) eta_ = small * half_subnormal(operand);
  if (flushes) flushed_below_ = small * smallest_normal(operand);
}

double OperandRounding::step(double element) const {
  const double size = std::fabs(element);
  if (size == 0 || size < flushed_below_) return element;
  const double relative = u_ * size;
  return std::copysign(std::sqrt((relative * relative + eta_ * eta_) / 3), element);
}

double product_variance(const double* x, const double* x_steps, const double* y,
                        const double* y_steps, int64_t width) {
  double sum = 0;
  for (int64_t c = 0; c < width; ++c) {
    const double of_x = x_steps[c] * y[c], of_y = x[c] * y_steps[c];
    sum += of_x * of_x + of_y * of_y;
  }
  return sum;
}

CommonOperand::CommonOperand(int64_t operand, int64_t width)
    : operand_(size_t(operand)), width_(size_t(width)), moved_(operand_ * width_) {}

void CommonOperand::add(double slope, const double* other, const double* row) {
  for (size_t d = 0; d < operand_; ++d) {
    const double weight = slope * other[d];
    double* const moved = moved_.data() + d * width_;
    for (size_t c = 0; c < width_; ++c) moved[c] += weight * row[c];
  }
}

void CommonOperand::add_variance(const double* steps, double factor, double* variance) const {
  for (size_t d = 0; d < operand_; ++d)
    for (size_t c = 0; c < width_; ++c) {
      const double moved = moved_[d * width_ + c];
      if (moved == 0) continue;  // no pair reads the operand, which may be NaN
      variance[c] += factor * steps[d] * moved * steps[d] * moved;
    }
}

}  // namespace attest::core::backward
