#include "core/operations/softmax/golden/roundings/leaning_roundings.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace attest::core::passes {
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

LeaningRoundings::LeaningRoundings(const BlockShape& shape)
    : head_dim_v_(shape.head_dim_v),
      errors_(kTileRows, shape.key_stride),
      beside_(size_t(kMaxima), Sums(shape)) {}

void LeaningRoundings::start(const SigmaModel& model) {
  model_ = model;
  for (Sums& sums : beside_) {
    sums.with_v.clear();
    std::ranges::fill(sums.rows, Row{});
  }
}

void LeaningRoundings::add(const Matrix& probabilities, const Values& values, const KeyBlock& block,
                           const Tile& tile, std::span<const RowScores> task_rows) {
  // Neighbouring numbers are one to two roundoffs apart.
  const double apart =
      2 * std::max(unit_roundoff(model_->probability), unit_roundoff(model_->pv)) / kMaxima;
  for (size_t n = 0; n < beside_.size(); ++n) {
    errors_.clear(padded_rows(tile.count()));
    for (int64_t r = 0; r < tile.count(); ++r) {
      const auto index = size_t(tile.first + r);
      const RowScores& row = task_rows[index];
      const double unit = model_->kappa(row.top(), row.lse) / (1 + double(n) * apart);
      if (row.keys > 0 && unit > 0)
        round_row(unit, probabilities.row(r), block.count(), errors_.row(r),
                  beside_[n].rows[index]);
    }
    add_weighted(errors_, values.values, block.count(), tile, beside_[n].with_v);
  }
}

// `unit`: what p are divided by before they are rounded.
void LeaningRoundings::round_row(double unit, const double* p, int64_t keys, double* errors,
                                 Row& to) const {
  const Rounding of_p(model_->probability, model_->truncated > 0), of_operand(model_->pv, false);
  const double factor = 1 / unit;
  const bool rounds_p = unit_roundoff(model_->probability) > unit_roundoff(ATTEST_F32);
  if (rounds_p) {
    for (int64_t key = 0; key < keys; ++key) {
      // Beside a maximum of its own, a key has a p of 1, which every dtype has.
      const double x = std::min(p[key] * factor, 1.0);
      errors[key] = (of_p(x) - x) * unit;
    }
    for (int64_t key = 0; key < keys; ++key) to.of_normaliser += errors[key];
  }
  if (unit_roundoff(model_->pv) > unit_roundoff(model_->probability))
    for (int64_t key = 0; key < keys; ++key) {
      const double x = std::min(p[key] * factor, 1.0), kept = rounds_p ? of_p(x) : x;
      errors[key] = (of_operand(kept) - x) * unit;
    }
  for (int64_t key = 0; key < keys; ++key) to.of_operands += errors[key];
}

LeaningRoundings::Errors LeaningRoundings::find(int64_t row, const double* o) const {
  Errors found{.o = std::vector<double>(size_t(head_dim_v_))};
  for (const Sums& sums : beside_) {
    const Row& of_row = sums.rows[size_t(row)];
    for (size_t d = 0; d < found.o.size(); ++d)
      found.o[d] = std::max(found.o[d], std::fabs(sums.with_v.row(row)[d] -
                                                  model_->theta * o[d] * of_row.of_operands));
    found.normaliser = std::max(found.normaliser, std::fabs(of_row.of_normaliser));
  }
  return found;
}

int64_t LeaningRoundings::bytes(const BlockShape& shape) {
  const int64_t numbers =
      kTileRows * shape.key_stride + kMaxima * kTaskRows * (shape.value_stride + 2);
  return numbers * int64_t(sizeof(double));
}

}  // namespace attest::core::passes
