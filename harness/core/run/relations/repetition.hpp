// The relation repetition: one plan runs many times on two sets of inputs, and the same inputs must
// give the same outputs.
//
// Runs 2, 10, 14, 50 and 64 have the other inputs, all others those of the first fill. Runs 3 and
// 4, 7 and 8 ... have tensors and workspace at a second set of addresses. At either set, the
// workspace stays as the previous run left it. The runs named above are judged, runs 1, 3 and 7
// too, and the first 16 if outputs are small. If runs are quick, further plans run with other
// contents in their workspace, on the first fill and on that of extreme scores.
#pragma once
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/inputs/golden_store.hpp"
#include "core/operations/relation.hpp"
#include "core/record/record.hpp"
#include "core/run/trial.hpp"

namespace attest::core {

constexpr std::string_view kRepetition = "repetition";  // in records

/// How often a plan runs if one run takes `run_ns`: 64, 10 or 3 times; 0: three runs take too long.
/// Fewer times if `budget_ns`, that of timed runs, is small. `slow_too`: a longer run is accepted
/// for three runs.
int repeated_runs(double run_ns, double budget_ns, bool slow_too);

class Repetition {
 public:
  /// `base`: inputs of the first fill. `other`: inputs of the second fill, or those that no fill
  /// has; may be null. All arguments must outlive this object.
  Repetition(const Problem& problem, const PreparedInputs& base, const PreparedInputs* other,
             GoldenStore& goldens);
  ~Repetition();

  struct Series {
    int runs = 3;
    bool quick = false;                       // runs are short enough to try further plans
    const PreparedInputs* extreme = nullptr;  // on these too; null: there are none
  };
  /// `base` is the first fill of the trial.
  RelationRecord run(const Trial& trial, const Series& series);

  /// Seconds spent so far in making inputs, and in goldens and comparisons.
  double inputs_s() const { return inputs_s_; }
  double judging_s() const { return judging_s_; }

 private:
  /// The outputs of a script.
  struct Played {
    std::list<SharedTensors> outputs;
    std::vector<std::pair<int, const SharedTensors*>> judged;  // number of the run, its outputs
  };
  Outcome fits(const Trial& trial, int runs) const;
  void play(const Trial& trial, const Series& series, RelationRecord& record);
  std::optional<RerunRecord> play_again(const Trial& trial, int runs, const Played& first);
  Script script_of(const Trial& trial, int runs, const SharedTensors& first_outputs,
                   Played& played) const;
  std::string canary_of(const SharedTensors& outputs);
  std::string hash_of(const SharedTensors& outputs);
  // Functions that return an Outcome also write it into the record.
  Outcome judge_runs(const Trial& trial, const Played& played, RelationRecord& record);
  Outcome judge_other(const Trial& trial, const SharedTensors& outputs, RelationRecord& record);
  Outcome compare(const Trial& trial, const SharedTensors& first, const SharedTensors& second,
                  const PreparedInputs& prepared, const std::string& which, RelationRecord& record);
  std::optional<Outcome> run_alone(const Trial& trial, const PreparedInputs& inputs,
                                   Leftover leftover, SharedTensors& outputs,
                                   RelationRecord& record) const;
  Outcome try_leftover(const Trial& trial, Leftover leftover, const SharedTensors& first,
                       const PreparedInputs& inputs, RelationRecord& record);
  Outcome try_leftovers_on(const Trial& trial, const PreparedInputs& extreme,
                           RelationRecord& record);

  const Problem& problem_;
  const PreparedInputs& base_;
  const PreparedInputs* other_;
  GoldenStore& goldens_;
  std::unique_ptr<SharedTensors> other_inputs_;  // with the base's layout in memory
  std::unique_ptr<Relation> relation_;
  double inputs_s_ = 0, judging_s_ = 0;
};

}  // namespace attest::core
