#include "core/operations/softmax/sigma/weight_errors.hpp"

#include <algorithm>
#include <bit>

namespace attest::core {
namespace {

// Rounds or truncates numbers that are not negative, as rounded() and cut() do, but without a
// branch. So a compiler makes vectors of a loop over numbers.
class Rounding {
 public:
  Rounding(DType dtype, bool cuts)
      : cuts_(cuts),
        last_(uint64_t(0x1p53 * unit_roundoff(dtype))),
        shift_(std::countr_zero(last_)),
        least_(smallest_normal(dtype)),
        step_(2 * half_subnormal(dtype)),
        magic_(0x1.8p52 * step_) {}

  double operator()(double x) const {
    const auto bits = std::bit_cast<uint64_t>(x);
    const uint64_t half = cuts_ ? 0 : last_ / 2 - 1 + (bits >> shift_ & 1);
    const double normal = std::bit_cast<double>((bits + half) & ~(last_ - 1));
    const double nearest = (x + magic_) - magic_;
    const double subnormal = cuts_ && nearest > x ? nearest - step_ : nearest;
    return x < least_ ? subnormal : normal;
  }

 private:
  bool cuts_;
  uint64_t last_;  // the last bit that is kept
  int shift_;      // its place
  double least_;   // the smallest normal number
  double step_;    // between subnormal numbers
  double magic_;   // a sum with it is a multiple of that step
};

}  // namespace

// Neighbouring numbers are one to two roundoffs apart.
double unit_beside(const SigmaModel& model, double kappa, int n) {
  const double apart =
      2 * std::max(unit_roundoff(model.probability), unit_roundoff(model.pv)) / kTriedMaxima;
  return kappa / (1 + n * apart);
}

void find_weight_errors(const SigmaModel& model, double unit, const double* p, int64_t count,
                        double* of_normaliser, double* of_operands) {
  const Rounding of_p(model.probability, model.truncated > 0), of_operand(model.pv, false);
  const bool rounds_p = unit_roundoff(model.probability) > unit_roundoff(ATTEST_F32),
             rounds_again = unit_roundoff(model.pv) > unit_roundoff(model.probability);
  const double factor = 1 / unit;
  for (int64_t n = 0; n < count; ++n) {
    // Beside a maximum of its own, a key has a p of 1, which every dtype has.
    const double x = std::min(p[n] * factor, 1.0), kept = rounds_p ? of_p(x) : x;
    of_normaliser[n] = (kept - x) * unit;
    of_operands[n] = ((rounds_again ? of_operand(kept) : kept) - x) * unit;
  }
}

}  // namespace attest::core
