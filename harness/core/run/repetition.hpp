// Repetition: one plan runs many times, on inputs that change in between, and each judged run gives
// what it gave before.
//
// Runs 1, 3, 5 ... have the case's own inputs, runs 2, 4, 6 ... other ones at the same addresses.
// Runs 3 and 4, 7 and 8 ... have tensors and workspace elsewhere. A place's workspace stays as its
// run before has left it. Judged are runs 1, 2, 3, 10 and 50, as far as there are so many. Where
// runs are quick, plans of their own run beside it whose workspace holds something else.
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

/// How often a plan runs whose runs take `run_ns`: 50 times, 10 or 3; 0: not even that fits.
int repeated_runs(double run_ns, bool slow_too);

class Repetition {
 public:
  /// `base`: of the first fill. `other`: inputs in between; null: there are none. All must outlive
  /// this.
  Repetition(const Problem& problem, const PreparedInputs& base, const PreparedInputs* other,
             GoldenStore& goldens);
  ~Repetition();

  struct Series {
    int runs = 3;
    bool quick = false;  // runs are so short that more plans may be tried
  };
  /// `base` and `other` are the first two fills of the trial.
  RelationRecord run(const Trial& trial, const Series& series);

  /// Seconds spent so far in making inputs, and in goldens and comparing.
  double inputs_s() const { return inputs_s_; }
  double judging_s() const { return judging_s_; }

 private:
  /// Outputs that a script leaves.
  struct Played {
    std::list<SharedTensors> outputs;
    std::vector<std::pair<int, const SharedTensors*>> judged;  // of which run
  };
  std::optional<Outcome> does_not_fit(const Trial& trial, int runs) const;
  void play(const Trial& trial, const Series& series, RelationRecord& record);
  Script script_of(const Trial& trial, int runs, Played& played) const;
  void judge_runs(const Trial& trial, const Played& played, RelationRecord& record);
  void judge_other(const Trial& trial, const SharedTensors& outputs, RelationRecord& record);
  void compare(const Trial& trial, const SharedTensors& first, const SharedTensors& second,
               bool other, const std::string& which, RelationRecord& record);
  void try_leftover(const Trial& trial, Leftover leftover, RelationRecord& record);
  KeptGolden& golden_of(bool other) { return goldens_.of(other ? *other_ : base_); }

  const Problem& problem_;
  const PreparedInputs& base_;
  const PreparedInputs* other_;
  GoldenStore& goldens_;
  std::unique_ptr<SharedTensors> other_inputs_;  // laid out as the base's are
  std::unique_ptr<Relation> relation_;
  double inputs_s_ = 0, judging_s_ = 0;
};

}  // namespace attest::core
