// Sums over prefixes of the keys. An online softmax rescales such a sum when its maximum rises.
#pragma once
#include <span>
#include <vector>

#include "core/operations/softmax/golden/passes/key_sums.hpp"

namespace attest::core::passes {

/// The third pass over the keys, if SigmaModel::needs_prefix. Prefixes end before every key
/// position that is a multiple of 16, so at the edges of tiles of any size.
class PrefixSums {
 public:
  explicit PrefixSums(const BlockShape& shape);

  /// Starts all rows of a task. `scores`: results of the first pass.
  void start(std::span<const RowScores> scores);
  /// Adds the next keys of a tile's rows, in the order of their positions. `outputs`: the outputs
  /// of the task's rows, [kTaskRows, value_stride].
  void add(const Matrix& scores, const Values& values, const KeyBlock& block, const Tile& tile,
           const Matrix& outputs);

  /// The largest |sum of p (v - o)| of any prefix: ElementSums::prefix. [kTaskRows, value_stride].
  const Matrix& largest() const { return largest_; }
  /// How often the running maximum of a row rises from one prefix to the next; counted forwards and
  /// backwards through the keys, the larger number.
  double rises(int64_t row) const;

 private:
  void add_prefix(const Matrix& scores, const Values& values, int64_t first_key, int64_t keys,
                  const Tile& tile, const Matrix& outputs);

  // The state of one row.
  struct Progress {
    double lse = 0, sink = 0;      // of RowScores
    double mass = 0;               // sum of p so far, including the sink's
    std::vector<double> maxima{};  // the largest score among the keys that each prefix added
  };
  Matrix probabilities_;  // [kTileRows, key_stride]
  Matrix partial_;        // [kTaskRows, value_stride]: sum p v so far
  Matrix largest_;        // [kTaskRows, value_stride]
  std::vector<Progress> rows_;
};

/// How often a running maximum that begins at `first` rises through `maxima`. A rise from -inf does
/// not count.
double count_rises(std::span<const double> maxima, double first);

}  // namespace attest::core::passes
