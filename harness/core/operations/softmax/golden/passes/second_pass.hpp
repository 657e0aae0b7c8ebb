// The second pass over the keys of a task: from scores to weights, and to sums over keys.
#pragma once
#include <span>

#include "core/operations/softmax/golden/passes/equal_key_sums.hpp"

namespace attest::core::passes {

class SecondPass {
 public:
  SecondPass(const Geometry& geometry, const BlockShape& shape);

  /// Starts a task of `rows` rows. `has_groups`: whether some of its keys are equal.
  void start(int64_t rows, bool has_groups);
  /// Adds the keys of a block to the rows of a tile. `scores`: results of
  /// TileScores::find_with_errors. `task_rows`: results of the first pass for all rows of the task.
  void add(const TileScores& scores, const Values& values, const KeyBlock& block, const Tile& tile,
           std::span<const RowScores> task_rows, const SigmaModel& model);
  /// Ends the open groups of equal keys. After that, sums() is complete.
  void finish(const SigmaModel& model);

  const KeySums& sums() const { return sums_; }
  /// Of the keys and rows that were added last.
  const TileWeights& weights() const { return weights_; }

 private:
  void add_scalars(const TileScores& scores, const KeyBlock& block, int64_t r,
                   const kernels::WeightSums& found, const SigmaModel& model,
                   KeySums::Scalars& to) const;
  void add_equal_keys(const TileScores& scores, const Values& values, const KeyBlock& block,
                      const Tile& tile, int64_t r, const RowScores& row, const SigmaModel& model);
  void add_lost(const Values& values, const KeyBlock& block, const Tile& tile,
                std::span<const RowScores> task_rows, const SigmaModel& model);

  const Geometry& geometry_;
  TileWeights weights_;
  KeySums sums_;
  EqualKeySums equal_sums_;
  int64_t grouped_rows_ = 0;  // rows of the task, or 0 if none of its keys are equal
};

}  // namespace attest::core::passes
