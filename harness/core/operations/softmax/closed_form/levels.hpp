// What BIAS, MASK, REL_BIAS and shift_bias do to the scores of a codebook fill: they take a few
// values, the levels, so that keys of one code and level still have one score. Rows of MASK and
// BIAS that hold the same bytes are of one pattern: what holds of the keys of one of them holds of
// the keys of all.
#pragma once
#include <vector>

#include "core/operations/softmax/problem/geometry.hpp"
#include "core/operations/softmax/problem/row_classes.hpp"

namespace attest::core {

class ScoreLevels {
 public:
  /// Levels as the filled tensors have them; `unit`: a power of two that they are multiplied by.
  ScoreLevels(const Problem& problem, const Tensors& tensors, const Geometry& geometry,
              double unit);

  /// Whether every term of the problem is one of single keys, of rows in few patterns, or of places
  /// in a small grid window.
  static bool fit(const Problem& problem);
  /// Writes BIAS, MASK and REL_BIAS; reads the tables. `variant`: a small number that differs
  /// between fills, so that what few rows or heads have no room for stands in another fill.
  static void fill(const Problem& problem, uint64_t seed, const Tensors& tensors, double unit,
                   int64_t variant);

  /// A value of BIAS and REL_BIAS, in units.
  static double any_value(uint64_t seed, uint64_t index);

  int64_t key_levels() const { return key_levels_; }
  int64_t query_levels() const { return query_levels_; }
  /// Whether a key's level depends on the query's place too (REL_BIAS).
  bool by_pair() const { return bool(rel_bias_); }
  /// Whether some keys are hidden.
  bool may_hide() const { return mask_ || bias_; }

  /// Patterns among the query places of a sequence and head: 1 where MASK and BIAS are of keys.
  int64_t patterns(int64_t b, int64_t h) const {
    return by_row_ ? int64_t(of(b, h).first_place.size()) : 1;
  }
  int64_t pattern(int64_t b, int64_t h, int64_t i) const {
    return by_row_ ? of(b, h).pattern[size_t(i)] : 0;
  }
  /// A query place of that pattern.
  int64_t place_of(int64_t b, int64_t h, int64_t pattern) const {
    return by_row_ ? of(b, h).first_place[size_t(pattern)] : 0;
  }

  /// The level of key place j for query head h and query place i, or -1: hidden. Alike for all
  /// places of one pattern unless by_pair().
  int64_t of_key(int64_t b, int64_t h, int64_t i, int64_t j) const;
  int64_t of_query(int64_t i) const { return query_levels_ > 1 ? geometry_.region(i) : 0; }
  /// What a query of one level adds to the score of a key of another; may be -inf.
  double term(int64_t query_level, int64_t key_level) const;
  bool hidden(int64_t b, int64_t h, int64_t i, int64_t j) const;

 private:
  // Of one sequence and head.
  struct Patterns {
    std::vector<int32_t> pattern;      // of each query place
    std::vector<int64_t> first_place;  // of each pattern
  };
  const Patterns& of(int64_t b, int64_t h) const { return patterns_[size_t(b * heads_ + h)]; }
  void find_patterns();

  const Geometry& geometry_;
  Tensor bias_, mask_, rel_bias_;
  double unit_;
  bool shifted_;
  double shift_bias_;
  int64_t key_levels_ = 1, query_levels_ = 1;
  int64_t heads_;
  bool by_row_;                     // MASK or BIAS is of pairs
  std::vector<Patterns> patterns_;  // [batch, heads]; empty unless by_row_
};

}  // namespace attest::core
