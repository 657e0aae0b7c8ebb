// The sweep of a softmax output: every element must lie between the least and the largest value
// that its row may average.
#pragma once
#include <cstdint>
#include <vector>

#include "core/operations/golden.hpp"
#include "core/operations/softmax/arithmetic.hpp"
#include "core/operations/softmax/problem/geometry.hpp"

namespace attest::core {

/// The least and the largest value of V for each sequence, key head and channel. NaN, no bounds:
/// for a channel with a NaN or infinity, and for all channels of a head whose keys have one.
class ValueBounds {
 public:
  /// `swept`: whether sweep() will be called. It needs to know the rows of BIAS. `scores_spread`:
  /// whether scores may be beyond what f16 holds.
  ValueBounds(const Problem& problem, const Tensors& tensors, const Geometry& geometry, bool swept,
              bool scores_spread);

  /// Passes sweeps of O and LSE for all rows to `sink`. Rows that certainly see no key are exact
  /// instead: o = 0, lse = -inf.
  void sweep(const Geometry& geometry, const SoftmaxArithmetic& arithmetic,
             const Golden::Sink& sink) const;
  /// The rows of O that are 0 for certain: rows without a position, or with no keys.
  std::vector<int64_t> empty_rows(const Geometry& geometry) const;
  /// Passes only the empty rows to `sink`, with values.
  void sweep_empty(const Geometry& geometry, const SoftmaxArithmetic& arithmetic,
                   const Golden::Sink& sink) const;
  /// The least and the largest value that a row of query head h of sequence b may have in each
  /// channel, if it averages the values of that sequence. NaN: no bounds.
  struct Bounds {
    std::vector<double> low, high;  // [head_dim_v]
  };
  Bounds average(const Geometry& geometry, const SoftmaxArithmetic& arithmetic, int64_t b,
                 int64_t h) const;
  /// The number of channels without bounds, over all sequences and key heads.
  int64_t unbounded() const { return unbounded_; }

 private:
  void sweep_head(const Geometry& geometry, const SoftmaxArithmetic& arithmetic, int64_t b,
                  int64_t h, const Golden::Sink& sink) const;
  /// Whether a row may be NaN: its Q or BIAS has a NaN or infinity, or its logits may be beyond
  /// what `arithmetic` holds.
  bool is_wild(int64_t b, int64_t h, const Geometry& geometry, int64_t i,
               const SoftmaxArithmetic& arithmetic, std::vector<double>& row) const;

  attest_softmax_params params_;
  Tensor q_;
  TensorSpec bias_;
  struct BiasRow {
    bool wild = false;  // it has a NaN or +inf
    bool far = false;   // all of it is below twice the lowest number of f16
  };
  static std::vector<BiasRow> bias_rows(const Tensor& bias);
  std::vector<BiasRow> bias_rows_;  // if BIAS is of pairs
  bool scores_spread_;
  bool lse_;  // whether the problem has LSE
  DType storage_;
  std::vector<double> low_, high_;  // [batch, num_kv_heads, head_dim_v]
  int64_t unbounded_ = 0;
};

}  // namespace attest::core
