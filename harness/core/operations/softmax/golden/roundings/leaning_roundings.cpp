#include "core/operations/softmax/golden/roundings/leaning_roundings.hpp"

#include <algorithm>
#include <cmath>

namespace attest::core::passes {

LeaningRoundings::LeaningRoundings(const BlockShape& shape)
    : head_dim_v_(shape.head_dim_v),
      errors_(kTileRows, shape.key_stride),
      own_errors_(size_t(shape.key_stride)),
      beside_(size_t(kTriedMaxima), Sums(shape)) {}

void LeaningRoundings::start(const SigmaModel& model) {
  model_ = model;
  for (Sums& sums : beside_) {
    sums.with_v.clear();
    std::ranges::fill(sums.rows, Row{});
  }
}

void LeaningRoundings::add(const Matrix& probabilities, const Values& values, const KeyBlock& block,
                           const Tile& tile, std::span<const RowScores> task_rows) {
  for (size_t n = 0; n < beside_.size(); ++n) {
    errors_.clear(padded_rows(tile.count()));
    for (int64_t r = 0; r < tile.count(); ++r) {
      const auto index = size_t(tile.first + r);
      const RowScores& row = task_rows[index];
      const double unit = unit_beside(*model_, model_->kappa(row.top(), row.lse), int(n));
      if (row.keys > 0 && unit > 0)
        round_row(unit, probabilities.row(r), block.count(), errors_.row(r),
                  beside_[n].rows[index]);
    }
    add_weighted(errors_, values.values, block.count(), tile, beside_[n].with_v);
  }
}

// `unit`: what p are divided by before they are rounded.
void LeaningRoundings::round_row(double unit, const double* p, int64_t keys, double* errors,
                                 Row& to) {
  find_weight_errors(*model_, unit, p, keys, own_errors_.data(), errors);
  for (int64_t key = 0; key < keys; ++key) {
    to.of_normaliser += own_errors_[size_t(key)];
    to.of_operands += errors[key];
  }
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
      (kTileRows + 1) * shape.key_stride + kTriedMaxima * kTaskRows * (shape.value_stride + 2);
  return numbers * int64_t(sizeof(double));
}

}  // namespace attest::core::passes
