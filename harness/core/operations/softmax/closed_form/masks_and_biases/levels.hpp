// The levels of a codebook fill: the few values that BIAS, MASK, BLOCK_MASK, REL_BIAS and
// shift_bias add to its scores. Keys of one code and level still have one score. Rows of MASK, BIAS
// and BLOCK_MASK with the same bytes have one pattern; their keys have the same levels.
#pragma once
#include <vector>

#include "core/operations/softmax/problem/geometry.hpp"
#include "core/operations/softmax/problem/row_classes.hpp"

namespace attest::core {

class ScoreLevels {
 public:
  /// Reads the levels from the filled tensors. `unit`: a power of two by which they are multiplied.
  /// If the problem does not fit(), all keys have one level; it is not that of their scores.
  ScoreLevels(const Problem& problem, const Tensors& tensors, const Geometry& geometry,
              double unit);

  /// Whether a closed form can have the problem's terms: each depends on the key alone, or on the
  /// key and the row's pattern, or on two positions in a small grid window.
  static bool fit(const Problem& problem);
  /// Writes BIAS, MASK, BLOCK_MASK and REL_BIAS; the tables must be filled. `variant`: a small
  /// number that differs between fills. If few rows or heads cannot show all patterns, other fills
  /// show the others.
  static void fill(const Problem& problem, uint64_t seed, const Tensors& tensors, double unit,
                   int64_t variant);

  /// A value of BIAS and REL_BIAS, in units.
  static double any_value(uint64_t seed, uint64_t index);

  int64_t key_levels() const { return key_levels_; }
  int64_t query_levels() const { return query_levels_; }
  /// Whether a key's level depends on the query's position too (REL_BIAS).
  bool by_pair() const { return bool(rel_bias_); }
  /// Whether some keys are hidden.
  bool may_hide() const { return mask_ || bias_ || block_mask_; }

  /// The number of patterns of the rows of a sequence and head. 1 if MASK, BIAS and BLOCK_MASK are
  /// the same for all rows.
  int64_t patterns(int64_t b, int64_t h) const {
    return by_row_ ? int64_t(of(b, h).first_place.size()) : 1;
  }
  int64_t pattern(int64_t b, int64_t h, int64_t i) const {
    return by_row_ ? of(b, h).pattern[size_t(i)] : 0;
  }
  /// A query position with that pattern.
  int64_t place_of(int64_t b, int64_t h, int64_t pattern) const {
    return by_row_ ? of(b, h).first_place[size_t(pattern)] : 0;
  }

  /// The level of key position j for query head h and query position i; -1: hidden. The same for
  /// all query positions of one pattern, unless by_pair().
  int64_t of_key(int64_t b, int64_t h, int64_t i, int64_t j) const;
  int64_t of_query(int64_t i) const { return query_levels_ > 1 ? geometry_.region(i) : 0; }
  /// The number that is added to the score of a query and a key of these levels; may be -inf.
  double term(int64_t query_level, int64_t key_level) const;
  bool hidden(int64_t b, int64_t h, int64_t i, int64_t j) const;

 private:
  // The patterns of one sequence and head.
  struct Patterns {
    std::vector<int32_t> pattern;      // for each query position
    std::vector<int64_t> first_place;  // for each pattern, its first query position
  };
  const Patterns& of(int64_t b, int64_t h) const { return patterns_[size_t(b * heads_ + h)]; }
  void find_patterns();

  const Geometry& geometry_;
  Tensor bias_, mask_, rel_bias_, block_mask_;
  double unit_;
  bool shifted_;
  double shift_bias_;
  int64_t key_levels_ = 1, query_levels_ = 1;
  int64_t heads_;
  bool by_row_;                     // MASK or BIAS is of pairs, or BLOCK_MASK has several rows
  std::vector<Patterns> patterns_;  // [batch, heads]; empty unless by_row_
};

}  // namespace attest::core
