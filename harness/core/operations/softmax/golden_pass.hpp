// The two passes of the softmax golden over the keys of one task: the normaliser of each row, then its output and its sigma.
#pragma once
#include <algorithm>
#include <limits>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/operations/softmax/equal_keys.hpp"
#include "core/operations/softmax/golden_rows.hpp"
#include "core/operations/softmax/sigma.hpp"

namespace attest::core {

/// What the first pass knows of a row.
struct RowScores {
  double least = 0, largest = 0;  // of its visible scores
  double lse = 0;                 // -inf where no key is visible, NaN where a score is
  int64_t keys = 0;               // visible ones
  double sink = -std::numeric_limits<double>::infinity();  // its logit, in lse where a key is visible; -inf: none
  /// What a kernel takes off its logits before exp.
  double top() const { return std::max(largest, sink); }
};

/// Where the second pass writes, one entry a row of the task: o (may be null) and sigma are [rows, head_dim_v].
struct RowResults {
  double *o, *sigma, *lse_sigma;
};

/// Runs tasks, one after the other; one object a thread. Memory is that of a block of keys and a task's sums.
class GoldenPass {
 public:
  GoldenPass(const Problem& problem, const Tensors& tensors, const Geometry& geometry);
  ~GoldenPass();
  void score(const RowTask& task, const JudgedRow* rows, const EqualKeys& equal, RowScores* scores);
  void finish(const RowTask& task, const JudgedRow* rows, const EqualKeys& equal, const RowScores* scores, const SigmaModel& model, const RowResults& results);
  /// Bytes that one object for this problem holds.
  static int64_t bytes(const attest_softmax_params& params);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attest::core
