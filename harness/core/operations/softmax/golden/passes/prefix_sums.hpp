// Sums over the keys that come first: what an online softmax has summed when its maximum rises.
#pragma once
#include <span>
#include <vector>

#include "core/operations/softmax/golden/passes/key_sums.hpp"

namespace attest::core::passes {

/// For the third pass over the keys, which SigmaModel::needs_prefix asks for. Prefixes end before
/// every key place that is a multiple of 16: at the edges of any tile.
class PrefixSums {
 public:
  explicit PrefixSums(const BlockShape& shape);

  /// Starts all rows of a task, of which the first pass has said `scores`.
  void start(std::span<const RowScores> scores);
  /// Adds the next keys of a tile's rows, in the order of their places. `outputs` are those of the
  /// task's rows, [kTaskRows, value_stride].
  void add(const Matrix& scores, const Values& values, const KeyBlock& block, const Tile& tile,
           const Matrix& outputs);

  /// The largest |sum of p (v - o)| of any prefix: ElementSums::prefix. [kTaskRows, value_stride].
  const Matrix& largest() const { return largest_; }
  /// How often the running maximum of a row rises, from one prefix to the next. Of both directions
  /// through the keys the one in which it rises more often.
  double rises(int64_t row) const;

 private:
  void add_prefix(const Matrix& scores, const Values& values, int64_t first_key, int64_t keys,
                  const Tile& tile, const Matrix& outputs);

  // Of one row.
  struct Progress {
    double lse = 0, sink = 0;      // RowScores
    double mass = 0;               // sum of p so far, with that of the sink
    std::vector<double> maxima{};  // the largest score that each prefix has added
  };
  Matrix probabilities_;  // [kTileRows, key_stride]
  Matrix partial_;        // [kTaskRows, value_stride]: sum p v so far
  Matrix largest_;        // [kTaskRows, value_stride]
  std::vector<Progress> rows_;
};

/// How often a running maximum rises that is `first` before `maxima`; not counted is the rise from
/// -inf.
double count_rises(std::span<const double> maxima, double first);

}  // namespace attest::core::passes
