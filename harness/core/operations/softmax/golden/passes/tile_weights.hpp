// The weights of a block of keys in the rows of a tile.
#pragma once
#include "core/operations/softmax/golden/passes/tile_scores.hpp"
#include "core/operations/softmax/golden/score_kernels.hpp"

namespace attest::core::passes {

/// Computes weights from scores, row by row; kernels::WeightModel has the formulas. All matrices
/// are [kTileRows, key_stride]. Hidden keys have 0.
class TileWeights {
 public:
  explicit TileWeights(const BlockShape& shape);

  /// Writes row `r` of the first four matrices. Returns the sums over its `keys` keys.
  kernels::WeightSums find(const TileScores& from, int64_t r, const kernels::WeightModel& model,
                           int64_t keys);

  Matrix probabilities;        // p = exp(score - lse)
  Matrix probability_squares;  // p^2
  Matrix rounding_squares;     // a^2: the square of p's rounding
  Matrix error_squares;        // e^2: the variance of p from its score's error

  /// Enlarges error_squares of row `r` where the error of a score is so large that exp is not
  /// linear in it (SigmaModel::bent_error). Equal keys, whose errors EqualKeySums adds, do without.
  struct Bent {
    double more = 0;  // by how much the sum of error_squares grows
    double rise = 0;  // RowSums::rise
  };
  Bent bend_errors(const TileScores& scores, int64_t r, double lse, const SigmaModel& model,
                   int64_t keys);

  /// Writes row `r` of the other matrices, from its probabilities.
  void find_lost(int64_t r, const SigmaModel::Flushing& flushing, int64_t keys);
  /// Resets any_lost, any_unsure and any_apart.
  void clear_lost() { any_lost = any_unsure = any_apart = false; }

  Matrix lost;            // p if it is lost, else 0
  Matrix lost_squares;    // lost^2 times SigmaModel::Flushing::apart
  Matrix unsure;          // p if it may be lost, else 0
  Matrix unsure_squares;  // unsure^2
  // Whether a row has any, since clear_lost. any_apart: of lost_squares.
  bool any_lost = false, any_unsure = false, any_apart = false;
};

/// The next functions add the keys of one block to sums for LSE.
///
/// LseSums::common: adds p min(|score before the addition|, |score|) of each key. Only for staged
/// scores.
void add_common(const TileScores& scores, const TileWeights& weights, int64_t r, int64_t keys,
                double& sum);
/// LseSums::at_cap: adds p of each key at the softcap. Only if the problem has one.
void add_at_cap(const TileScores& scores, const TileWeights& weights, int64_t r, int64_t keys,
                double& sum);
/// LseSums::mean_dot: adds p |dot product| times the softcap's slope, for each visible key.
void add_mean_dot(const TileScores& scores, const TileWeights& weights, int64_t r, int64_t keys,
                  double& sum);
/// RowSums::equal_neighbours: adds the number of visible keys whose score is that of the visible
/// key before them in the block.
void add_equal_neighbours(const TileScores& scores, int64_t r, int64_t keys, double& sum);
/// LseSums::sizes: adds p times the size of each visible key's score; if it has several steps, the
/// root of the sum of their squares.
void add_sizes(const TileScores& scores, const TileWeights& weights, int64_t r, int64_t keys,
               double& sum);

}  // namespace attest::core::passes
