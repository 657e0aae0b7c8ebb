// What BIAS, MASK, REL_BIAS and shift_bias do to the scores of a codebook fill: they take a few values, the levels, so that keys
// of one code and level still have one score.
#pragma once
#include "core/operations/softmax/geometry.hpp"

namespace attest::core {

class ScoreLevels {
 public:
  /// Levels as the filled tensors have them; `unit`: a power of two that they are multiplied by.
  ScoreLevels(const Problem& problem, const Tensors& tensors, const Geometry& geometry, double unit);

  /// Whether every term of the problem is one of single keys, or of places in a small grid window.
  static bool fit(const Problem& problem);
  /// Writes BIAS, MASK and REL_BIAS.
  static void fill(const Problem& problem, uint64_t seed, const Tensors& tensors, double unit);

  int64_t key_levels() const { return key_levels_; }
  int64_t query_levels() const { return query_levels_; }
  /// Whether a key's level depends on the query's place too (REL_BIAS).
  bool by_pair() const { return bool(rel_bias_); }
  /// Whether some keys are hidden from everybody.
  bool may_hide() const { return mask_ || bias_; }

  /// The level of key place j for query head h (and place i where by_pair()), or -1: hidden.
  int64_t of_key(int64_t b, int64_t h, int64_t i, int64_t j) const;
  int64_t of_query(int64_t i) const { return query_levels_ > 1 ? geometry_.region(i) : 0; }
  /// What a query of one level adds to the score of a key of another; may be -inf.
  double term(int64_t query_level, int64_t key_level) const;
  bool hidden(int64_t b, int64_t h, int64_t j) const;

 private:
  const Geometry& geometry_;
  Tensor bias_, mask_, rel_bias_;
  double unit_;
  bool shifted_;
  double shift_bias_;
  int64_t key_levels_ = 1, query_levels_ = 1;
};

}  // namespace attest::core
