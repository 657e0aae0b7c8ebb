// Which keys of a row count in problems with top_k, and which of them rounding may swap.
//
//   RowEdge edge(params, logits, variances, false);
//   edge.counts(logits[j], j), edge.is_near(logits[j], variances[j])
#pragma once
#include <cstdint>
#include <span>

#include "core/operations/softmax/golden/row_expectation.hpp"

namespace attest::core::backward {

/// The last key of a row that counts. `logits`: of all positions; hidden keys have -inf. It cuts
/// nothing if the row sees at most top_k keys, or if a logit is NaN.
TopKEdge find_edge(const attest_softmax_params& params, std::span<const double> logits);

/// Hides the keys that do not count: their logits become -inf. Does nothing without top_k.
void hide_below_edge(const attest_softmax_params& params, std::span<double> logits);

/// The edge of a row, and the keys near it, of which honest kernels may disagree whether they
/// count: two logits may come in either order if they differ by at most six deviations of their
/// difference. A kernel may take another key for each one that it leaves out; where all ties count,
/// it may also leave out those beyond top_k, and take all that are near.
class RowEdge {
 public:
  /// All keys count.
  RowEdge() = default;
  /// `variances`: of the logits. `ties_hold`: logits that are equal here are equal in every kernel,
  /// so that those of the edge are near only if another logit is.
  RowEdge(const attest_softmax_params& params, std::span<const double> logits,
          std::span<const double> variances, bool ties_hold);

  bool counts(double logit, int64_t j) const { return edge_.keeps(logit, j); }
  /// Whether rounding may change whether this key counts.
  bool is_near(double logit, double variance) const;
  /// How many of the near keys on one side of the edge may change sides, as a share of these.
  double share(bool of_those_that_count) const { return of_those_that_count ? going_ : coming_; }
  /// How many keys may change sides in all.
  double swaps() const { return swaps_; }

 private:
  TopKEdge edge_;
  double variance_ = 0;  // of the logit at the edge
  bool ties_swap_ = true;
  double going_ = 0, coming_ = 0, swaps_ = 0;
};

}  // namespace attest::core::backward
