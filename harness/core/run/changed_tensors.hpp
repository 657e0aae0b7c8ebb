// The relation changed-tensor: one plan runs, and runs again at the same addresses after one input
// tensor alone has got other contents. The output must be that of the new inputs.
//
// It shows plans that keep an output, or a tensor that they have prepared, for as long as some
// other tensors stay the same. Before each change the plan runs on the unchanged inputs, so that it
// may remember those. Outputs are judged by their goldens.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/inputs/golden_store.hpp"
#include "core/record/record.hpp"
#include "core/run/trial.hpp"

namespace attest::core {

class ChangedTensors {
 public:
  /// `first`: inputs of the first fill. `seed`: of the other contents, and of the tensor with which
  /// a large problem begins. All arguments must outlive this object; `goldens` may be destroyed
  /// before it, but not before the last call of run().
  ChangedTensors(const Problem& problem, const PreparedInputs& first, uint64_t seed,
                 GoldenStore& goldens);
  ~ChangedTensors();

  /// Changes every tensor in turn if `all`, else as many as some tenths of a second are enough for,
  /// one at least. Skips problems whose runs and goldens take seconds.
  RelationRecord run(const Trial& trial, bool all);

  /// Seconds spent so far in making inputs, and in goldens and comparisons.
  double inputs_s() const { return inputs_s_; }
  double judging_s() const { return judging_s_; }

 private:
  /// Inputs that differ from the base in one tensor, or in integers that follow from one another.
  struct Change {
    std::string names;  // "v", "seq_lens_kv, page_table"
    std::vector<int32_t> roles;
    const PreparedInputs* contents;            // what the tensors become
    std::unique_ptr<PreparedInputs> inputs{};  // made when first wanted
  };
  void prepare();
  void add_lengths(const std::vector<int32_t>& lengths, bool others_follow);
  void add(std::vector<int32_t> roles, const PreparedInputs& contents);
  bool differs(int32_t role, const PreparedInputs& contents) const;
  Outcome fits(const Trial& trial, bool all, size_t& count);
  std::vector<Change*> some(size_t count);
  void judge(const Trial& trial, const Change& change, const SharedTensors& outputs,
             RelationRecord& record);
  Judgement judge_by_golden(const Trial& trial, const Change& change, const SharedTensors& outputs);

  const Problem& problem_;
  const PreparedInputs& first_;
  uint64_t seed_;
  GoldenStore& goldens_;
  const PreparedInputs* base_ = nullptr;      // null: nothing is prepared yet
  std::unique_ptr<PreparedInputs> own_base_;  // if the first fill is none that any change fits
  std::unique_ptr<PreparedInputs> same_lengths_, other_lengths_;
  std::vector<Change> changes_;
  double inputs_s_ = 0, judging_s_ = 0;
};

}  // namespace attest::core
