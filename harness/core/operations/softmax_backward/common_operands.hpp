// All pairs of one sum share an operand: the query in dQ, the key in dK and dV. When this operand
// is rounded, all addends of the sum move. These classes keep nothing if the operands are exact.
#pragma once
#include <optional>

#include "core/operations/softmax_backward/backward_rows.hpp"

namespace attest::core::backward {

/// The operands that all keys of a row of dQ share: q in q.k, and dO in do.v.
class RowOperands {
 public:
  RowOperands(const HeadRows& rows, const PairErrors& errors, int64_t width);
  /// Adds the pair of key j to a sum that adds its ds times `row`, `count` times.
  void add_key(const Pair& pair, int64_t j, const double* row, int64_t count = 1);
  void finish_query(Query at, GradientSum& sum) const;

 private:
  const HeadRows& rows_;
  const double scale_;
  std::optional<CommonOperand> q_, d_o_;
};

/// The operands that all queries of one key share in a sum over them: k in q.k, and v in do.v. A
/// sum of probabilities does not read v.
class KeyOperands {
 public:
  enum class Sum { kGradients, kProbabilities };
  KeyOperands(const HeadRows& rows, const PairErrors& errors, int64_t width,
              Sum sum = Sum::kGradients);
  /// Adds the pair of a query to a sum that adds its ds, p, or gradient of the logit times `row`.
  /// It is added `count` times.
  void add_gradient(const Pair& pair, Query at, const double* row, int64_t count = 1);
  void add_probability(const Pair& pair, Query at, const double* row, int64_t count = 1);
  void add_d_logit(const Pair& pair, Query at, const double* row);
  void finish(int64_t j, GradientSum& sum) const;

 private:
  void add(double of_score, double of_value, Query at, const double* row);

  const HeadRows& rows_;
  const double scale_;
  std::optional<CommonOperand> k_, v_;
};

}  // namespace attest::core::backward
