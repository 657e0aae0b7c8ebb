// By how much the rounded probabilities of a row lean to one side.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "core/operations/softmax/golden/passes/key_sums.hpp"
#include "core/operations/softmax/sigma/weight_errors.hpp"

namespace attest::core::passes {

/// The errors that a row has because its probabilities are rounded, if SigmaModel::leans. Elsewhere
/// sigma assumes that different p are rounded independently. That fails if many p are nearly equal:
/// they round to the same side. A small softcap makes such clusters, so do the tokens of a flat
/// picture, and in 8 bits all numbers are far apart. This class rounds all p beside each of
/// kTriedMaxima.
class LeaningRoundings {
 public:
  explicit LeaningRoundings(const BlockShape& shape);

  /// Starts a task, for an arithmetic.
  void start(const SigmaModel& model);
  /// Adds the keys of a block to the rows of a tile. `probabilities`: [kTileRows, key_stride]; 0
  /// where hidden. `task_rows`: results of the first pass for all rows of the task.
  void add(const Matrix& probabilities, const Values& values, const KeyBlock& block,
           const Tile& tile, std::span<const RowScores> task_rows);

  /// The largest errors of a row beside any maximum.
  struct Errors {
    std::vector<double> o;  // [head_dim_v]: |sum of dp (v - theta o)|
    // |sum of dp|, as a share of the normaliser, before the operand of PV is rounded
    double normaliser = 0;
  };
  /// `o`: the row's output, [head_dim_v].
  Errors find(int64_t row, const double* o) const;

  /// The memory of one object, in bytes.
  static int64_t bytes(const BlockShape& shape);

 private:
  struct Row {
    double of_operands = 0;    // sum of dp
    double of_normaliser = 0;  // the same before the operand of PV is rounded
  };
  // Beside one maximum
  struct Sums {
    explicit Sums(const BlockShape& shape)
        : with_v(kTaskRows, shape.value_stride), rows(kTaskRows) {}

    Matrix with_v;          // [kTaskRows, value_stride]: sum of dp v
    std::vector<Row> rows;  // [kTaskRows]
  };
  void round_row(double unit, const double* p, int64_t keys, double* errors, Row& to);

  int64_t head_dim_v_;
  std::optional<SigmaModel> model_;  // of start()
  Matrix errors_;                    // [kTileRows, key_stride]: dp
  std::vector<double> own_errors_;   // [key_stride]: of one row, without the operand of PV
  std::vector<Sums> beside_;         // [kTriedMaxima]
};

}  // namespace attest::core::passes
