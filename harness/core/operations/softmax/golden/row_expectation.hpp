// What the sums over the keys of one row say of its output and its sigma, whoever made them: the
// host's passes or a device.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/operations/softmax/golden/score_kernels.hpp"
#include "core/operations/softmax/sigma/sigma.hpp"

namespace attest::core {

/// Partial sums of p v are looked at before every key place that is a multiple of this, and at the
/// end (ElementSums::reach).
constexpr int64_t kReachKeys = 64;

/// What the first pass knows of a row.
struct RowScores {
  double least = 0, largest = 0;  // of its visible scores
  double lse = 0;                 // -inf where no key is visible, NaN where a score is
  int64_t keys = 0;               // visible ones
  double sink = -std::numeric_limits<double>::infinity();  // its logit, in lse where a key is
                                                           // visible; -inf: none
  /// What a kernel takes off its logits before exp.
  double top() const { return std::max(largest, sink); }
  /// The largest score in size.
  double farthest() const { return std::max(std::fabs(least), std::fabs(largest)); }
  /// Sets lse from the sum of exp(s - largest) over its keys, at least one.
  void close(double sum, double sink_logit);
};

/// Of the second pass. Keys that are equal come in as groups (key_passes.cpp).
struct RowSums {
  // [head_dim_v]: sum p v and the largest |partial sum|, sums of p^2 v^2, a^2 v^2, e^2 v, e^2 v^2,
  // of p v over keys that are lost, of p v and of p^2 v^2 over those that may be
  const double *pv, *reach, *p2v2, *a2v2, *e2v, *e2v2, *flushed, *unsure, *unsure2;
  const double* prefix = nullptr;  // ElementSums::prefix, where SigmaModel::needs_prefix
  kernels::WeightSums weights{};
  double repeated = 0;  // sum of squares of the sizes of groups, see SigmaModel::coherent_variance
  double common = 0, mean_dot = 0;  // LseSums::common, LseSums::mean_dot
  double rises = 0;                 // of a running maximum, where SigmaModel::needs_prefix
  double largest_v = 0;             // a finite |v| as large as any that the row may see
};

/// Where rows are written: o (may be null) and sigma are [rows, head_dim_v].
struct RowResults {
  double *o, *sigma, *lse_sigma;
  double* reach = nullptr;  // may be null: the largest finite |partial sum| of any channel
};

/// What the weights of the row's keys are made from.
kernels::WeightModel weight_model(const SigmaModel& model, const RowScores& row);
/// Whether lone keys need their own a2v2; else u_p^2 p2v2 says the same. An absolute error of f32's
/// or bf16's smallest probability is within SigmaModel::underflow_bound, and theta = 1 puts a into
/// e.
inline bool needs_a2(const SigmaModel& model) { return model.theta == 0 && model.eta_p > 1e-20; }
/// Writes row `r` of `results`.
void finish_row(const RowScores& row, const RowSums& sums, const SigmaModel& model, int64_t dim_v,
                int64_t r, const RowResults& results);

}  // namespace attest::core
