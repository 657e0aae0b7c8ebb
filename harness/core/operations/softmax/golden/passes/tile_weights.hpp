// What the keys of a block weigh in the rows of a tile.
#pragma once
#include "core/operations/softmax/golden/passes/tile_scores.hpp"
#include "core/operations/softmax/golden/score_kernels.hpp"

namespace attest::core::passes {

/// Weights follow from scores row by row; kernels::WeightModel has the formulas. All are
/// [kTileRows, key_stride]; hidden keys weigh 0.
class TileWeights {
 public:
  explicit TileWeights(const BlockShape& shape);

  /// Writes row `r` of the first four; returns the sums over its `keys` keys.
  kernels::WeightSums find(const TileScores& from, int64_t r, const kernels::WeightModel& model,
                           int64_t keys);

  Matrix probabilities;        // p = exp(score - lse)
  Matrix probability_squares;  // p^2
  Matrix rounding_squares;     // a^2: the square of p's rounding
  Matrix error_squares;        // e^2: the variance of p from its score's error

  /// Writes row `r` of the others, from its probabilities.
  void find_lost(int64_t r, const SigmaModel::Flushing& flushing, int64_t keys);
  /// Forgets which rows had lost ones.
  void clear_lost() { any_lost = any_unsure = false; }

  Matrix lost;                                // p where it is lost, else 0
  Matrix unsure;                              // p where it may be lost, else 0
  Matrix unsure_squares;                      // unsure^2
  bool any_lost = false, any_unsure = false;  // whether a row has any, since clear_lost
};

/// What the sums of LSE take of a row besides kernels::WeightSums, over the keys of one block.
///
/// Adds p min(|score before the addition|, |score|) of each key to `sum`: LseSums::common. Of
/// staged scores.
void add_common(const TileScores& scores, const TileWeights& weights, int64_t r, int64_t keys,
                double& sum);
/// Adds p |dot product|, times the softcap's slope, of each visible key: LseSums::mean_dot.
void add_mean_dot(const TileScores& scores, const TileWeights& weights, int64_t r, int64_t keys,
                  double& sum);

}  // namespace attest::core::passes
