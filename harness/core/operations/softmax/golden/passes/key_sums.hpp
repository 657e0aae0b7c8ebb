// The sums over keys of the rows of a task, from which outputs and sigmas follow.
#pragma once
#include <vector>

#include "core/operations/softmax/golden/passes/tile_weights.hpp"
#include "core/operations/softmax/golden/row_expectation.hpp"

namespace attest::core::passes {

/// sums += weights values. Row r of `weights`, [kTileRows, keys], belongs to row tile.first + r of
/// `sums`, [kTaskRows, value_stride].
void add_weighted(const Matrix& weights, const Matrix& values, int64_t keys, const Tile& tile,
                  Matrix& sums);

/// The RowSums of all rows of a task, without the results of PrefixSums.
class KeySums {
 public:
  explicit KeySums(const BlockShape& shape);
  /// Sets the sums of the first `rows` rows to 0. Nobody reads those of the others.
  void clear(int64_t rows);

  /// Adds the block's keys to pv, reach and p2v2.
  void add_probabilities(const TileWeights& weights, const Values& values, const KeyBlock& block,
                         const Tile& tile);
  /// Adds NaN and infinities of V to pv, in the rows that see their keys.
  void add_non_finite(const TileScores& scores, const TileWeights& weights, const Values& values,
                      const Tile& tile);
  /// Adds lone keys to e2v and e2v2, and to a2v2 if `own_a2v2`.
  void add_errors(const TileWeights& weights, const Values& values, const KeyBlock& block,
                  const Tile& tile, bool own_a2v2);
  /// Adds probabilities that are lost or may be lost to flushed, its partial sums, and unsure;
  /// those of lone keys to unsure2, with TileWeights::lost_squares.
  void add_lost(const TileWeights& weights, const Values& values, const KeyBlock& block,
                const Tile& tile);

  /// Adds the probabilities of keys with a value beyond `largest` to too_large.
  void add_too_large(const TileWeights& weights, const Values& values, const KeyBlock& block,
                     const Tile& tile, double largest);

  /// The sums of one row of the task, without prefix, rises, largest_v and common_dot.
  RowSums row(int64_t row) const;

  // [kTaskRows, value_stride] each. RowSums has the formulas.
  Matrix pv, reach, p2v2, a2v2, e2v, e2v2, flushed, flushed_most, flushed_least, unsure, unsure2;
  // The members of RowSums that are one number for each row.
  struct Scalars {
    kernels::WeightSums weights;
    double repeated = 0, equal_neighbours = 0, common = 0, mean_dot = 0, sizes = 0, at_cap = 0,
           too_large = 0, rise = 0;
    AlikePhases phases;
  };
  std::vector<Scalars> scalars;  // [kTaskRows]
};

}  // namespace attest::core::passes
