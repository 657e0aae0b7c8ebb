// The passes of the softmax golden over the keys of one task, in float64: the normaliser of each
// row, then its output and its sigma.
//
//   KeyPasses passes(problem, tensors, geometry);
//   for (const RowTask& task : plan.tasks) {
//     const std::span rows = std::span(plan.rows).subspan(task.begin, task.end - task.begin);
//     passes.score(task, rows, equal, scores);              // once
//     passes.finish(task, rows, equal, scores, model, to);  // for each declared arithmetic
//   }
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "core/operations/softmax/golden/row_expectation.hpp"
#include "core/operations/softmax/golden/row_plan.hpp"
#include "core/operations/softmax/problem/equal_keys.hpp"

namespace attest::core {

/// Runs tasks, one after the other; one object a thread. Memory is that of a block of keys and a
/// task's sums. In what follows `rows` are those of the task, at most kTaskRows, and `equal` are
/// the equal keys of its sequence and key head; row n of a task is row n of what is written.
class KeyPasses {
 public:
  /// All must outlive it.
  KeyPasses(const Problem& problem, const Tensors& tensors, const Geometry& geometry);
  ~KeyPasses();

  /// The first pass: what each row's scores are like. `scores`, [rows], is written. Scores are
  /// logits as attest.h defines them, softmax_scale q.k with softcap, biases and distances; lse is
  /// their natural log-sum-exp, with the row's sink where it has one. The maximum and the sum are
  /// found in one go, as by Milakov and Gimelshein, "Online normalizer calculation for softmax",
  /// arXiv:1805.02867.
  void score(const RowTask& task, std::span<const JudgedRow> rows, const EqualKeys& equal,
             std::span<RowScores> scores);
  /// The second pass, and the third where SigmaModel::needs_prefix: the rows' outputs, and the
  /// sigmas of O and LSE in the arithmetic of `model`. `scores`, [rows], are those of the first
  /// pass. `results` has the units of V and of LSE.
  void finish(const RowTask& task, std::span<const JudgedRow> rows, const EqualKeys& equal,
              std::span<const RowScores> scores, const SigmaModel& model,
              const RowResults& results);
  /// Bytes that one object for this problem holds.
  static int64_t bytes(const attest_softmax_params& params);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attest::core
