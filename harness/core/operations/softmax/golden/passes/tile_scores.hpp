// The scores of a tile of rows with a block of keys, and the magnitudes that determine their
// errors.
#pragma once
#include <vector>

#include "core/operations/softmax/golden/passes/operands.hpp"
#include "core/operations/softmax/sigma/sigma.hpp"

namespace attest::core::passes {

/// A score is computed in up to three steps: the dot product of scaled query and key, the softcap,
/// and the addition of BIAS, ALiBi and REL_BIAS. Hidden keys have a score of -inf.
class TileScores {
 public:
  TileScores(const attest_softmax_params& params, const Geometry& geometry,
             const BlockShape& shape);

  /// Writes only `scores`.
  void find(const Queries& queries, const Keys& keys, const KeyBlock& block, const Tile& tile);
  /// Writes all members below. The magnitudes of queries and keys must be there. `common_dots`,
  /// [rows of the task] or empty: the part of the dot products that all keys share.
  void find_with_errors(const Queries& queries, const Keys& keys, const KeyBlock& block,
                        const Tile& tile, const SigmaModel& model,
                        std::span<const double> common_dots = {});
  /// Whether scores have more than one step.
  bool staged() const { return softcap_ > 0 || geometry_.pair_terms(); }
  bool has_softcap() const { return softcap_ > 0; }

  // All are [kTileRows, key_stride].
  Matrix scores;
  // Of the dot products: sum |q k|, or sum (q k)^2 if SigmaModel::squares. Multiplied by the slope
  // of the softcap, as an error is.
  Matrix magnitudes;
  Matrix slopes;  // of the softcap at each score; undefined without one
  // Undefined unless staged():
  Matrix sloped_dots;     // dot product times the slope of the softcap
  Matrix staged_squares;  // SigmaModel::staged_square of all steps
  Matrix added_squares;   // the part of staged_squares from the addition
  Matrix lesser_sizes;    // min(|score before the addition|, |score|); 0 if nothing is added
  Matrix at_caps;         // 1 if SigmaModel::is_at_cap, else 0; undefined without a softcap

 private:
  void multiply(const Matrix& queries, const Matrix& keys, const KeyBlock& block, const Tile& tile,
                Matrix& products) const;
  void shrink(int64_t r, int64_t keys, bool squares);
  void add_pair_terms(const JudgedRow& row, const KeyBlock& block, double* row_scores) const;
  void note_stages(int64_t r, int64_t keys, const SigmaModel& model, double common_dot);

  const Geometry& geometry_;
  double softcap_;              // 0: none
  std::vector<double> capped_;  // [key_stride]: the scores of one row before the addition
};

}  // namespace attest::core::passes
