// Computes a row of O and LSE, with their sigmas, from sums over its keys. The host's passes over
// the keys, or a device, compute these sums.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/operations/softmax/golden/score_kernels.hpp"
#include "core/operations/softmax/sigma/phases.hpp"
#include "core/operations/softmax/sigma/sigma.hpp"

namespace attest::core {

/// Partial sums of p v are inspected before every key position that is a multiple of this, and at
/// the end (RowSums::reach).
inline constexpr int64_t kReachKeys = 64;

/// The last key of a row that counts, in problems with top_k.
struct TopKEdge {
  double least = -std::numeric_limits<double>::infinity();  // the logit of that key
  int64_t place = -1;                                       // its position; -1: all keys count
  // Keys with this logit count up to here.
  int64_t last_tie = std::numeric_limits<int64_t>::max();

  bool cuts() const { return place >= 0; }
  /// Whether a key counts.
  bool keeps(double logit, int64_t at) const {
    return logit > least || (logit == least && at <= last_tie);
  }
};

/// The results of the first pass for a row. Keys that do not count by top_k are not visible.
struct RowScores {
  double least = 0, largest = 0;  // of the visible scores
  double lse = 0;                 // -inf: no key is visible; NaN: a score is NaN
  int64_t keys = 0;               // the number of visible keys
  // The sink's logit; -inf: no sink. lse contains it if a key is visible.
  double sink = -std::numeric_limits<double>::infinity();
  TopKEdge edge = {};

  /// The maximum that a kernel subtracts from the logits before exp.
  double top() const { return std::max(largest, sink); }
  /// By how much the sink is above the largest score; 0: it is not.
  double sink_lead() const { return keys > 0 ? top() - largest : 0; }
  /// The largest |score|.
  double farthest() const { return std::max(std::fabs(least), std::fabs(largest)); }
  /// Sets lse. `sum`: the sum of exp(s - largest) over the visible keys, of which there is at least
  /// one.
  void close(double sum, double sink_logit);
};

/// Where the p of a row's keys lie in the ulps of AlikeAddends. Of the keys of a float32 sum, some
/// are looked at.
class AlikePhases {
 public:
  /// Adds the next `count` keys. `p` are divided by the row's sum.
  void add(const RowScores& row, const SigmaModel& model, const double* p, int64_t count);
  AlikeAddends addends(const RowScores& row, const SigmaModel& model) const;
  /// Whether so many p are nearly equal that their products with V may lie alike in the ulps of
  /// float32 sums. Relative to the addends, the ulp of a sum of products is up to kCoarser times as
  /// large as that of the sum of p if single values are that much smaller than R.
  bool is_flat(const RowScores& row, const SigmaModel& model) const;

 private:
  static constexpr double kCoarser = 32;
  Phases whole_, part_, block_, coarser_;
  uint32_t keys_ = 0;  // so far
};

/// The results of the second pass for a row: sums over the keys that it sees. p, a and e^2 are
/// those of kernels::WeightModel; v are the values of one channel. For equal keys, a sum with a
/// square is over groups g of them: sum_g (sum_{j in g} p v)^2 instead of sum p^2 v^2, and so on.
struct RowSums {
  // [head_dim_v] each.
  const double* pv;          // sum p v: the output
  const double* reach;       // the largest |partial sum of p v|, in the order of the keys
  const double* p2v2;        // sum p^2 v^2, without groups
  const double* a2v2;        // sum a^2 v^2; contains lone keys only if needs_a2
  const double *e2v, *e2v2;  // sum e^2 v, sum e^2 v^2
  const double* flushed;     // sum p v over keys that are lost: SigmaModel::Flushing
  // Its largest and least partial sum in the order of the keys, seen every kReachKeys; 0 included
  const double *flushed_most, *flushed_least;
  const double* unsure;   // sum p v over keys that may be lost
  const double* unsure2;  // sum p^2 v^2 over these, and Flushing::apart of it over lost ones
  const double* prefix = nullptr;  // ElementSums::prefix, if SigmaModel::needs_prefix
  // passes::SharedRoundings::Variances, if SigmaModel::needs_shared
  const double *shared_scores = nullptr, *shared_values = nullptr;
  const double* alike_products = nullptr;  // ElementSums::alike_products, if AlikePhases::is_flat
  // passes::LeaningRoundings::Errors, if SigmaModel::leans
  const double* leaning = nullptr;
  double leaning_normaliser = 0;

  // The variance of o from keys that rounding may swap at the edge of top_k; null: there are none.
  // Infinite, where such a key has a NaN or an infinity: then sigma is kUnsure.
  const double* swapped = nullptr;

  kernels::WeightSums weights{};
  double swapped_lse = 0;  // the sigma of the lse from such keys
  double repeated = 0;     // sum of squares of the sizes of groups: SigmaModel::coherent_variance
  AlikePhases phases;      // of p, if SigmaModel::sums_may_round_alike()
  // The number of keys whose score equals that of the key before. SigmaModel::scores_repeat asks.
  double equal_neighbours = 0;
  double common = 0;    // LseSums::common
  double at_cap = 0;    // LseSums::at_cap
  double mean_dot = 0;  // LseSums::mean_dot
  double sizes = 0;     // LseSums::sizes
  double rise = 0;      // the largest SigmaModel::bent_rise of a key, if SigmaModel::coarse_scores
  // The number of times that the running maximum rises. SigmaModel::needs_prefix asks for it.
  double rises = 0;
  double largest_v = 0;   // at least every finite |v| that the row may see
  double too_large = 0;   // sum p over keys with a value that the operand of PV cannot hold
  double common_dot = 0;  // the part of the scaled dot product that all keys share
};

/// The arrays to which rows are written.
struct RowResults {
  double* o;                // [rows, head_dim_v]; may be null
  double* sigma;            // [rows, head_dim_v]: of o
  double* lse_sigma;        // [rows]
  double* reach = nullptr;  // [rows], may be null: the largest finite |partial sum| of any channel
};

/// Returns whether the rounding of scores may change the weights of a row to any others. A bias
/// that brings all scores far from 0 does that, because a coarse dtype has few numbers there. The
/// judge then accepts every average of the values, since sigma only describes small errors.
bool scores_round_to_averages(const RowScores& row, const SigmaModel& model);
/// The model from which the weights of the row's keys are computed.
kernels::WeightModel weight_model(const SigmaModel& model, const RowScores& row);
/// Returns whether a golden must sum a2v2 for keys that have no equal key. If this returns false,
/// the golden uses u_p^2 p2v2 in its place. A model with theta = 1 needs no a2v2, because its e
/// already contains a. Probabilities in f32 or bf16 need no a2v2 either, because
/// SigmaModel::underflow_bound covers the smallest of them.
inline bool needs_a2(const SigmaModel& model) { return model.theta == 0 && model.eta_p > 1e-20; }
/// Writes row `r` of `results`. `dim_v`: head_dim_v.
void finish_row(const RowScores& row, const RowSums& sums, const SigmaModel& model, int64_t dim_v,
                int64_t r, const RowResults& results);

}  // namespace attest::core
