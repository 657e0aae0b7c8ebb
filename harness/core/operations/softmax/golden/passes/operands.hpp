// Queries, keys and values in float64, arranged for the products of the passes.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/operations/softmax/golden/passes/block_shape.hpp"
#include "core/operations/softmax/golden/passes/key_order.hpp"
#include "core/operations/softmax/golden/passes/matrix.hpp"

namespace attest::core::passes {

/// The queries of a task's rows.
struct Queries {
  Queries(const Tensor& q, const Geometry& geometry, const attest_softmax_params& params);

  void load(std::span<const JudgedRow> rows);
  /// Writes `magnitudes` of the first `rows` rows. `common_channel`: all keys are alike in channel
  /// 0, which has no magnitude then if squared, because a rounded query moves all scores alike.
  void find_magnitudes(int64_t rows, bool squared, bool common_channel = false);

  Matrix scaled;      // [kTaskRows, head_dim]: queries times softmax_scale
  Matrix magnitudes;  // [kTaskRows, head_dim]: |scaled|, or scaled^2 if squared

 private:
  const Tensor& q_;
  const Geometry& geometry_;
  double softmax_scale_;
};

/// A block of keys of one head.
struct Keys {
  Keys(const Tensor& k, const Geometry& geometry, const BlockShape& shape);

  void load(const RowTask& task, const KeyBlock& block);
  /// Writes `magnitudes` of the first `keys` keys of a block.
  void find_magnitudes(bool squared, int64_t keys);
  /// A channel of the first key of the task in which it is finite; 0 if there is none.
  double first_finite(const RowTask& task, int64_t channel) const;

  // [head_dim, key_stride]: each column is a key. Columns after the block are 0, up to a multiple
  // of kColumns.
  Matrix transposed;
  Matrix magnitudes;  // [head_dim, key_stride]: |transposed|, or transposed^2 if squared

 private:
  const Tensor& k_;
  const Geometry& geometry_;
  Matrix some_rows_;  // keys that are being transposed
};

/// The values of a block of keys of one head.
struct Values {
  Values(const Tensor& v, const Geometry& geometry, const BlockShape& shape);

  void load(const RowTask& task, const KeyBlock& block);

  struct NonFinite {
    int64_t key, channel;
    double value;
  };
  Matrix values;                      // [keys, value_stride]; NaN and infinities are replaced by 0
  Matrix squares;                     // [keys, value_stride]: values^2
  std::vector<NonFinite> non_finite;  // the NaN and infinities of the block
  double largest = 0;                 // largest |value| loaded since this was set to 0

 private:
  const Tensor& v_;
  const Geometry& geometry_;
  int64_t head_dim_v_;
};

}  // namespace attest::core::passes
