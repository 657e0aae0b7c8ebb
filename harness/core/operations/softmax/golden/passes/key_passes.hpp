// The two passes of the softmax golden over the keys of one task: the normaliser of each row, then
// its output and its sigma.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/operations/softmax/golden/row_expectation.hpp"
#include "core/operations/softmax/golden/row_plan.hpp"
#include "core/operations/softmax/problem/equal_keys.hpp"

namespace attest::core {

/// Runs tasks, one after the other; one object a thread. Memory is that of a block of keys and a
/// task's sums.
class KeyPasses {
 public:
  KeyPasses(const Problem& problem, const Tensors& tensors, const Geometry& geometry);
  ~KeyPasses();
  void score(const RowTask& task, const JudgedRow* rows, const EqualKeys& equal, RowScores* scores);
  /// Row n of the task is row n of the results.
  void finish(const RowTask& task, const JudgedRow* rows, const EqualKeys& equal,
              const RowScores* scores, const SigmaModel& model, const RowResults& results);
  /// Bytes that one object for this problem holds.
  static int64_t bytes(const attest_softmax_params& params);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attest::core
