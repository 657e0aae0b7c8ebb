// What follows for a row of O and LSE, their values and their sigmas, from sums over its keys. The
// host's passes over the keys make these sums, or a device.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/operations/softmax/golden/score_kernels.hpp"
#include "core/operations/softmax/sigma/sigma.hpp"

namespace attest::core {

/// The partial sums of p v are looked at before every key place that is a multiple of this, and at
/// the end (RowSums::reach).
inline constexpr int64_t kReachKeys = 64;

/// What the first pass knows of a row.
struct RowScores {
  double least = 0, largest = 0;  // of its visible scores
  double lse = 0;                 // -inf where no key is visible, NaN where a score is
  int64_t keys = 0;               // visible ones
  // The logit of its sink, which is in lse where a key is visible; -inf: none.
  double sink = -std::numeric_limits<double>::infinity();

  /// What a kernel takes off its logits before exp.
  double top() const { return std::max(largest, sink); }
  /// The largest score in size.
  double farthest() const { return std::max(std::fabs(least), std::fabs(largest)); }
  /// Sets lse from the sum of exp(s - largest) over its keys, at least one.
  void close(double sum, double sink_logit);
};

/// What the second pass knows of a row: sums over the keys that it sees. With p, a and e^2 of
/// kernels::WeightModel, and v the values of one channel. Sums that have a square are over groups
/// of keys where keys are equal: sum_g (sum_{j in g} p v)^2 in place of sum p^2 v^2, and so on.
struct RowSums {
  // [head_dim_v] each.
  const double* pv;                // sum p v: the output
  const double* reach;             // the largest |sum p v| on the way through the keys
  const double* p2v2;              // sum p^2 v^2, each key by itself
  const double* a2v2;              // sum a^2 v^2: of lone keys only where needs_a2
  const double *e2v, *e2v2;        // sum e^2 v, sum e^2 v^2
  const double* flushed;           // sum p v over keys that are lost: SigmaModel::Flushing
  const double *unsure, *unsure2;  // sum p v, sum p^2 v^2 over keys that may be lost
  const double* prefix = nullptr;  // ElementSums::prefix, where SigmaModel::needs_prefix

  kernels::WeightSums weights{};
  double repeated = 0;   // sum of squares of the sizes of groups: SigmaModel::coherent_variance
  double common = 0;     // LseSums::common
  double mean_dot = 0;   // LseSums::mean_dot
  double rises = 0;      // of a running maximum, where SigmaModel::needs_prefix
  double largest_v = 0;  // a finite |v| as large as any that the row may see
};

/// Where rows are written.
struct RowResults {
  double* o;                // [rows, head_dim_v]; may be null
  double* sigma;            // [rows, head_dim_v]: of o
  double* lse_sigma;        // [rows]
  double* reach = nullptr;  // [rows], may be null: the largest finite |partial sum| of any channel
};

/// What the weights of the row's keys are made from.
kernels::WeightModel weight_model(const SigmaModel& model, const RowScores& row);
/// Whether lone keys need an a2v2 of their own. Else u_p^2 p2v2 says the same: theta = 1 puts a
/// into e, and what f32 and bf16 lose of their smallest probabilities is within
/// SigmaModel::underflow_bound.
inline bool needs_a2(const SigmaModel& model) { return model.theta == 0 && model.eta_p > 1e-20; }
/// Writes row `r` of `results`, whose rows have head_dim_v = `dim_v` channels.
void finish_row(const RowScores& row, const RowSums& sums, const SigmaModel& model, int64_t dim_v,
                int64_t r, const RowResults& results);

}  // namespace attest::core
