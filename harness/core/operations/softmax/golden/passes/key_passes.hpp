// The passes of the softmax golden over the keys of one task, in float64. The first computes the
// normaliser of each row, the others its output and sigma.
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

/// Runs tasks one after the other. Each thread needs its own object. Memory: a block of keys and
/// the sums of a task. Below, `rows` are the rows of the task, at most kTaskRows; `equal` are the
/// equal keys of its sequence and key head. Row n of a task is row n of the results.
class KeyPasses {
 public:
  /// The first three arguments must outlive this object. `common_channel`: all keys that rows see
  /// are alike in channel 0, and large there. `ties_hold`: KnownInputs::ties_hold.
  KeyPasses(const Problem& problem, const Tensors& tensors, const Geometry& geometry,
            bool common_channel = false, bool ties_hold = false);
  ~KeyPasses();

  /// The first pass: writes `scores`, [rows]. Here a score is a logit as attest.h defines it:
  /// softmax_scale q.k with softcap, biases and distances. lse is the natural log-sum-exp of the
  /// row, including its sink. With top_k a pass before it finds the keys that count. Maximum and
  /// sum are computed together, after Milakov and Gimelshein, "Online normalizer calculation for
  /// softmax", arXiv:1805.02867.
  void score(const RowTask& task, std::span<const JudgedRow> rows, const EqualKeys& equal,
             std::span<RowScores> scores);
  /// The second pass, and the third if SigmaModel::needs_prefix: writes the outputs, and the sigmas
  /// of O and LSE in the arithmetic of `model`. `scores`, [rows]: results of the first pass.
  void finish(const RowTask& task, std::span<const JudgedRow> rows, const EqualKeys& equal,
              std::span<const RowScores> scores, const SigmaModel& model,
              const RowResults& results);
  /// The memory of one object for this problem, in bytes. `with_shared`: for models with
  /// SigmaModel::needs_shared. What models of few codes or with P in 8 bits need is left out.
  static int64_t bytes(const attest_softmax_params& params, bool with_shared = false);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attest::core
