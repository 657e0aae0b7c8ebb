// Which keys of a row count in problems with top_k, and what honest rounding may change of that.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "core/operations/softmax/golden/passes/tile_scores.hpp"
#include "core/operations/softmax/golden/row_expectation.hpp"

namespace attest::core::passes {

/// Finds the edge of each row of a task. Blocks may come in any order.
class TopKSearch {
 public:
  explicit TopKSearch(const attest_softmax_params& params);

  /// Starts a task of `rows` rows.
  void start(size_t rows);
  /// Adds the logits of a row with a block of keys; hidden ones are -inf.
  void add(size_t row, const double* logits, const KeyBlock& block);
  /// The edge of a row. It cuts nothing if the row sees at most top_k keys, or if a logit is NaN.
  TopKEdge edge(size_t row);
  /// The memory of one object, in bytes.
  static int64_t bytes(const attest_softmax_params& params);

 private:
  struct Candidate {
    double logit;
    int64_t place;
    /// The order of the keys: the largest logit first, then the first place.
    bool operator<(const Candidate& other) const {
      return logit != other.logit ? logit > other.logit : place < other.place;
    }
  };
  struct Row {
    std::vector<Candidate> candidates;  // all that may be among the top_k keys
    double least = -std::numeric_limits<double>::infinity();  // below it there is none
    size_t visible = 0;                                       // keys
    bool nan = false;
  };
  void shorten(Row& row) const;

  size_t top_k_;
  bool all_ties_;
  std::vector<Row> rows_;
};

/// Hides the keys of a block that do not count in a row: their logits become -inf.
void hide_below(const TopKEdge& edge, const KeyBlock& block, double* logits);

/// What rounding may change of a row: sums over keys whose logits are so close to the edge that
/// honest kernels may disagree on whether they count.
///
/// Two logits with errors of the variances x and y may come in either order if they differ by at
/// most kGate sqrt(x + y). A key is *near* if this holds for it and the key at the edge. A kernel
/// that swaps n of the near keys moves o by sum p (v - o) over those that come and those that go.
/// Which keys these are does not depend on v, so the variance of that sum is n / count times that
/// of all near keys, on either side. Values that follow from their keys may all have one sign: the
/// sum is then at most sqrt(2 n) times the root of the sum of the squares, which has to lie within
/// the gate. A row without near keys on both sides of the edge has no such term.
///
/// Coarse scores far from 0 may err by so much that a key comes whose p is far smaller than that of
/// the one that goes. The normaliser shrinks by the difference. Where half of it or more may be
/// lost, the row only has to be an average of values.
///
/// A near key that may change sides may have a NaN or an infinity in a channel. Then the channel is
/// that in one kernel and a number in another, and its variance is infinite, unless the keys that
/// count in any case make it NaN.
class TopKSwaps {
 public:
  TopKSwaps(const attest_softmax_params& params, const BlockShape& shape);

  /// Starts a task. `ties_hold`: logits that are equal in the golden are equal in every honest
  /// kernel, so that those of the edge are near only if another logit is.
  void start(std::span<const RowScores> rows, const SigmaModel& model, bool ties_hold);
  /// Notes the errors of the keys at the edges. All blocks come here, before the first add().
  void find_edges(const TileScores& logits, const KeyBlock& block, const Tile& tile);
  /// Adds the near keys of a block. `logits` is what TileScores::find_with_errors wrote, before
  /// hide_below() hides the keys that do not count.
  void add(const TileScores& logits, const Values& values, const KeyBlock& block, const Tile& tile);
  /// Writes RowSums::swapped, [head_dim_v], and RowSums::swapped_lse of a row, whose largest_v is
  /// known.
  void write(int64_t row, RowSums& sums);
  /// The memory of one object, in bytes.
  static int64_t bytes(const BlockShape& shape);

 private:
  // Near keys on one side of the edge.
  struct Side {
    double keys = 0, p = 0, p2 = 0;  // their number, sum p, sum p^2
    double most = -std::numeric_limits<double>::infinity(), least = -most;  // logits
  };
  struct Row {
    double edge_variance = 0;
    // That count; that do not; the same of those with the logit of the edge, where ties hold
    Side sides[4];
  };
  /// Takes the keys with the logit of the edge for near ones, if there are others.
  void add_ties(int64_t row);
  double variance(const TileScores& logits, int64_t r, int64_t key) const;
  /// Returns the index in Row::sides of a key, or -1 if the key is not near. The edge of the tile's
  /// row r has to cut.
  int near_side(const TileScores& logits, const KeyBlock& block, const Tile& tile, int64_t r,
                int64_t key) const;
  void add_key(const Values& values, int64_t key, double logit, int64_t row, int side);

  const int64_t top_k_, head_dim_v_;
  const bool all_ties_;
  std::span<const RowScores> scores_;
  const SigmaModel* model_ = nullptr;
  bool ties_hold_ = false;
  std::vector<Row> rows_;  // [kTaskRows]
  // By side; [kTaskRows, value_stride] each. p2v_ has sums of p^2 v, and p2v2_ has sums of p^2 v^2.
  // The latter is infinite if a v is NaN or infinite.
  std::vector<Matrix> p2v_, p2v2_;
  // [kTaskRows, value_stride]: sum p v over NaN and infinities of keys that count in any case
  Matrix sure_;
  std::vector<double> swapped_;  // [head_dim_v]
};

}  // namespace attest::core::passes
