#include "core/operations/softmax_backward/common_operands.hpp"

namespace attest::core::backward {
namespace {

std::optional<CommonOperand> common(bool is_rounded, int64_t operand, int64_t width) {
  if (!is_rounded) return {};
  return CommonOperand(operand, width);
}

bool rounds_values(const PairErrors& errors) { return errors.of_v() || errors.of_d_o(); }

}  // namespace

RowOperands::RowOperands(const HeadRows& rows, const PairErrors& errors, int64_t width)
    : rows_(rows),
      scale_(double(rows.params().softmax_scale)),
      q_(common(bool(errors.of_score()), rows.params().head_dim, width)),
      d_o_(common(rounds_values(errors), rows.params().head_dim_v, width)) {}

void RowOperands::add_key(const Pair& pair, int64_t j, const double* row, int64_t count) {
  if (!pair.counts) return;
  const auto times = double(count);
  if (q_) q_->add(times * scale_ * pair.d_logit * pair.bent_moves, rows_.k(j), row);
  if (d_o_) d_o_->add(times * pair.p * pair.slope, rows_.v(j), row);
}

void RowOperands::finish_query(Query at, GradientSum& sum) const {
  if (q_) sum.add_common(*q_, rows_.q_score_steps(at));
  if (d_o_) sum.add_common(*d_o_, rows_.d_o_steps(at));
}

KeyOperands::KeyOperands(const HeadRows& rows, const PairErrors& errors, int64_t width, Sum sum)
    : rows_(rows),
      scale_(double(rows.params().softmax_scale)),
      k_(common(bool(errors.of_score()), rows.params().head_dim, width)),
      v_(common(rounds_values(errors) && sum == Sum::kGradients, rows.params().head_dim_v, width)) {
}

void KeyOperands::add(double of_score, double of_value, Query at, const double* row) {
  if (k_) k_->add(scale_ * of_score, rows_.q(at), row);
  if (v_) v_->add(of_value, rows_.d_o(at), row);
}

// What a key adds that does not count, and may be swapped in, is small beside the swap.
void KeyOperands::add_gradient(const Pair& pair, Query at, const double* row, int64_t count) {
  const auto times = double(count);
  if (pair.counts)
    add(times * pair.d_logit * pair.bent_moves, times * pair.p * pair.slope, at, row);
}

void KeyOperands::add_probability(const Pair& pair, Query at, const double* row, int64_t count) {
  if (pair.counts) add(double(count) * pair.p * pair.moves, 0, at, row);
}

void KeyOperands::add_d_logit(const Pair& pair, Query at, const double* row) {
  if (pair.counts) add(pair.d_logit * pair.moves, pair.p, at, row);
}

void KeyOperands::finish(int64_t j, GradientSum& sum) const {
  if (k_) sum.add_common(*k_, rows_.k_score_steps(j));
  if (v_) sum.add_common(*v_, rows_.v_steps(j));
}

}  // namespace attest::core::backward
