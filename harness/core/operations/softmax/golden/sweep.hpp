// What every row of a softmax output must satisfy, judged exactly or not: it lies between the
// values it may average.
#pragma once
#include <cstdint>
#include <vector>

#include "core/operations/golden.hpp"
#include "core/operations/softmax/arithmetic.hpp"
#include "core/operations/softmax/problem/geometry.hpp"

namespace attest::core {

/// Per sequence, key head and channel the least and the largest value of V; NaN for a channel with
/// a NaN or Inf, and for all channels of a head whose keys have one: then nothing bounds the
/// output.
class ValueBounds {
 public:
  /// `swept`: whether sweep() is to be called, which needs to know the rows of BIAS.
  ValueBounds(const Problem& problem, const Tensors& tensors, const Geometry& geometry, bool swept);

  /// Sweeps of O and LSE over all places. Rows that see no key for certain are exact instead: o =
  /// 0, lse = -inf.
  void sweep(const Geometry& geometry, const SoftmaxArithmetic& arithmetic,
             const Golden::Sink& sink) const;
  /// Exact zeros alone: rows without a place, or with an empty interval of keys.
  void sweep_empty(const Geometry& geometry, const SoftmaxArithmetic& arithmetic,
                   const Golden::Sink& sink) const;
  /// Channels (of sequences and key heads) without bounds.
  int64_t unbounded() const { return unbounded_; }

 private:
  void sweep_head(const Geometry& geometry, const SoftmaxArithmetic& arithmetic, int64_t b,
                  int64_t h, const Golden::Sink& sink) const;
  /// Whether Q or BIAS of a row holds what may make it NaN.
  bool is_wild(int64_t b, int64_t h, const Geometry& geometry, int64_t i,
               std::vector<double>& row) const;

  attest_softmax_params params_;
  Tensor q_;
  TensorSpec bias_;
  std::vector<uint8_t> wild_bias_;  // of each of its rows
  bool lse_;                        // whether it is written
  DType storage_;
  std::vector<double> low_, high_;  // [batch, num_kv_heads, head_dim_v]
  int64_t unbounded_ = 0;
};

}  // namespace attest::core
