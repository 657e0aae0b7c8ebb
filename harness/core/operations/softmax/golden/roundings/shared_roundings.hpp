// Roundings that many keys share, where values may follow from keys: those of a query, and of
// nearly equal keys and values.
#pragma once
#include <optional>
#include <vector>

#include "core/operations/softmax/golden/passes/key_sums.hpp"

namespace attest::core::passes {

/// This class computes the errors of a row that many of its keys share. Elsewhere sigma assumes
/// that different keys are rounded independently. The assumption fails for neighbouring tokens of a
/// picture, whose keys and values are nearly equal:
///
/// - A query that is rounded by dq moves all scores together, by t_j = softmax_scale dq . k_j, and
///   the output by sum_j p_j t_j (v_j - o). That is a sum over channels c of dq_c C_c, with
///   C_c = softmax_scale sum_j p_j k_jc (v_j - o).
/// - Nearly equal keys are rounded to the same side. Every kernel that does not scale keys first
///   rounds them to the same numbers, so k_j errs by a known dk_j, and its score by
///   softmax_scale q . dk_j.
/// - Nearly equal values are rounded to the same side: the output errs by sum_j p_j dv_j.
/// Those of nearly equal probabilities are LeaningRoundings.
///
/// Computing every C_c would take head_dim products with V. This class puts the channels into at
/// most kGroups groups instead. In each group it adds the terms q_c C_c with random signs before it
/// squares them; in the mean that gives the sum of their squares. With up to kGroups channels the
/// result is exact.
class SharedRoundings {
 public:
  static constexpr int64_t kGroups = 16;

  explicit SharedRoundings(const BlockShape& shape);

  /// Starts a task of `rows` rows, for an arithmetic.
  void start(const Queries& queries, int64_t rows, const SigmaModel& model);
  /// Rounds a block of keys and values as the arithmetic does.
  void load(const Keys& keys, const Values& values, const KeyBlock& block);
  /// Adds the keys of the block to the rows of a tile. `scores`: results of
  /// TileScores::find_with_errors, for the softcap's slopes. `probabilities`: of the block's keys,
  /// [kTileRows, key_stride]; 0 where hidden.
  void add(const TileScores& scores, const Matrix& probabilities, const Queries& queries,
           const Keys& keys, const Values& values, const KeyBlock& block, const Tile& tile);

  /// The variances of a row's elements, [head_dim_v] each. `o`: its output, likewise.
  struct Variances {
    std::vector<double>
        scores;  // u_qk^2 / 3 sum_c (q_c C_c)^2, plus the square of what keys err by
    std::vector<double> values;  // (sum p dv)^2
  };
  Variances find(int64_t row, const double* o) const;

  /// The memory of one object, in bytes.
  static int64_t bytes(const BlockShape& shape);

 private:
  // Sums over keys of weights p t.
  struct Moved {
    explicit Moved(const BlockShape& shape)
        : with_v(kTaskRows, shape.value_stride), alone(kTaskRows) {}
    void clear();

    Matrix with_v;              // [kTaskRows, value_stride]: sum p t v
    std::vector<double> alone;  // [kTaskRows]: sum p t
  };
  void add_moved(const TileScores& scores, const Matrix& probabilities, const Values& values,
                 const KeyBlock& block, const Tile& tile, Moved& to);

  int64_t head_dim_, head_dim_v_;
  std::optional<SigmaModel> model_;             // of start()
  double query_square_ = 0;                     // u_qk^2 / 3
  bool keys_err_ = false, values_err_ = false;  // in the block that was loaded last
  std::vector<double> signs_;                   // [head_dim]: 1 or -1
  Matrix signed_queries_;                       // [kTaskRows, head_dim]: scaled
  Matrix key_errors_;                           // [head_dim, key_stride]: dk, transposed
  Matrix value_errors_;                         // [keys, value_stride]: dv
  Matrix weights_;                              // [kTileRows, key_stride]: t, then p t
  std::vector<Moved> by_query_;                 // [groups]: t = sum of +-q_c k_jc over its channels
  Moved by_keys_;                               // t = q . dk
  Matrix by_values_;                            // [kTaskRows, value_stride]: sum p dv
};

}  // namespace attest::core::passes
