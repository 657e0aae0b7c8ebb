// The sums over keys of the rows of a task, from which outputs and sigmas follow.
#pragma once
#include <vector>

#include "core/operations/softmax/golden/passes/tile_weights.hpp"
#include "core/operations/softmax/golden/row_expectation.hpp"

namespace attest::core::passes {

/// sums += weights values: row r of the tile's weights, [kTileRows, keys], is of row tile.first + r
/// of the sums, [kTaskRows, value_stride].
void add_weighted(const Matrix& weights, const Matrix& values, int64_t keys, const Tile& tile,
                  Matrix& sums);

/// RowSums of all rows of a task, less what comes from PrefixSums.
class KeySums {
 public:
  explicit KeySums(const BlockShape& shape);
  void clear();

  /// Adds what the block's keys say of the probabilities: pv, reach, p2v2.
  void add_probabilities(const TileWeights& weights, const Values& values, const KeyBlock& block,
                         const Tile& tile);
  /// Adds NaN and infinities of V to pv, in rows that see their key.
  void add_non_finite(const TileScores& scores, const TileWeights& weights, const Values& values,
                      const Tile& tile);
  /// Adds what lone keys say of the errors of probabilities: e2v, e2v2, and a2v2 where `own_a2v2`.
  void add_errors(const TileWeights& weights, const Values& values, const KeyBlock& block,
                  const Tile& tile, bool own_a2v2);
  /// Adds probabilities that are lost, or may be: flushed, unsure, and unsure2 of lone keys.
  void add_lost(const TileWeights& weights, const Values& values, const KeyBlock& block,
                const Tile& tile);

  /// What `row` of the task adds up to, without prefix, rises and largest_v.
  RowSums row(int64_t row) const;

  // [kTaskRows, value_stride]; RowSums has the formulas.
  Matrix pv, reach, p2v2, a2v2, e2v, e2v2, flushed, unsure, unsure2;
  // Those of RowSums that are one number a row.
  struct Scalars {
    kernels::WeightSums weights;
    double repeated = 0, common = 0, mean_dot = 0;
  };
  std::vector<Scalars> scalars;  // [kTaskRows]
};

}  // namespace attest::core::passes
