// The relation changed-tensor. A plan runs. Then one input tensor gets other contents, all
// addresses stay the same, and the plan runs again. Its output must be that of the new inputs.
//
// The relation finds plans that keep an output or a prepared tensor while some other tensors stay
// the same. The plan runs on the unchanged inputs before each change, so that it can remember them.
// Some inputs follow from others (Operation::follows): they never change alone, and are computed
// again after each change. The golden of the new inputs judges each output.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/inputs/golden_store.hpp"
#include "core/record/record.hpp"
#include "core/run/trial.hpp"

namespace attest::core {

constexpr std::string_view kChangedTensor = "changed-tensor";  // in records

class ChangedTensors {
 public:
  /// `first` has the inputs of the first fill. `seed` decides the other contents, and which tensors
  /// of a large problem change. `budget_ns` is that of timed runs. All arguments must outlive this
  /// object, except `goldens`, which must outlive the last call of run().
  ChangedTensors(const Problem& problem, const PreparedInputs& first, uint64_t seed,
                 double budget_ns, GoldenStore& goldens);
  ~ChangedTensors();

  /// Changes one tensor after another: every tensor if `all` is true, otherwise as many as fit into
  /// 0.4 s, or 0.15 s if the budget is small, but at least one. Skips the relation if one change
  /// takes more than 2 s.
  RelationRecord run(const Trial& trial, bool all);

  /// Return the seconds that making inputs, and goldens and comparisons, have taken so far.
  double inputs_s() const { return inputs_s_; }
  double judging_s() const { return judging_s_; }

 private:
  /// A change of one tensor, or of several tensors of integers that depend on one another.
  struct Change {
    std::string names;  // "v", "seq_lens_kv, page_table"
    std::vector<int32_t> roles;
    const PreparedInputs* contents;            // has the new contents of these tensors
    std::unique_ptr<PreparedInputs> inputs{};  // the base with the change; some() makes it
  };
  void prepare();
  void add_lengths(const std::vector<int32_t>& lengths, bool others_follow);
  void add(std::vector<int32_t> roles, const PreparedInputs& contents);
  bool differs(int32_t role, const PreparedInputs& contents) const;
  Outcome fits(const Trial& trial, bool all, size_t& count);
  std::vector<Change*> some(size_t count);
  double golden_seconds(const Change& change);
  std::string followers(const Change& change) const;
  Outcome judge(const Trial& trial, const Change& change, const SharedTensors& outputs,
                RelationRecord& record);
  Judgement judge_by_golden(const Trial& trial, const Change& change, const SharedTensors& outputs);

  const Problem& problem_;
  const PreparedInputs& first_;
  uint64_t seed_;
  double most_s_;  // of all changes, if they are not `all`
  GoldenStore& goldens_;
  const PreparedInputs* base_ = nullptr;  // the unchanged inputs; null until prepare() has run
  // Has the unchanged inputs if the first fill is neither random nor tokens. Inputs of other fills
  // may have a golden of closed form, which a changed tensor would break.
  std::unique_ptr<PreparedInputs> own_base_;
  std::unique_ptr<PreparedInputs> same_lengths_, other_lengths_;
  std::vector<Change> changes_;
  double inputs_s_ = 0, judging_s_ = 0;
};

}  // namespace attest::core
