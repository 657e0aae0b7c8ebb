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

#include "core/inputs/prepared.hpp"
#include "core/operations/relation.hpp"
#include "core/record/record.hpp"
#include "core/run/plugin.hpp"

namespace attest::core {

/// How often a plan runs whose runs take `run_ns`: 50 times, 10 or 3; 0: not even that fits.
int repeated_runs(double run_ns, bool slow_too);

class Repetition {
 public:
  /// `base`: of the first fill. `other`: inputs in between; null: there are none. All must outlive
  /// this.
  Repetition(const Problem& problem, PreparedInputs& base, PreparedInputs* other);
  ~Repetition();

  struct Task {
    Plugin& plugin;
    const Implementation& implementation;
    const Arithmetic& arithmetic;
    SharedTensors& outputs;  // of the problem, with the workspace that was declared; lost
    uint64_t workspace_bytes = 0;
    double run_ns = 0;  // of one run, as measured
    int runs = 3;
    bool quick = false;                 // runs are so short that more plans may be tried
    std::string base_hash, other_hash;  // of the outputs that the fills left; "": none was judged
  };
  RelationRecord run(const Task& task);

  /// Seconds spent so far in making inputs, and in goldens and comparing.
  double inputs_s() const { return inputs_s_; }
  double judging_s() const { return judging_s_; }

 private:
  /// Outputs that a script leaves.
  struct Played {
    std::list<SharedTensors> outputs;
    std::vector<std::pair<int, const SharedTensors*>> judged;  // of which run
  };
  void play(const Task& task, RelationRecord& record);
  Script script_of(const Task& task, Played& played) const;
  void judge_runs(const Task& task, const Played& played, RelationRecord& record);
  bool judge_other(const Task& task, const SharedTensors& outputs, RelationRecord& record);
  bool agree(const Task& task, const SharedTensors& first, const SharedTensors& second, bool other,
             const std::string& which, RelationRecord& record);
  bool fits(const Task& task, RelationRecord& record) const;
  bool try_leftover(const Task& task, Leftover leftover, RelationRecord& record);
  const Golden& golden_of(bool other);

  const Problem& problem_;
  PreparedInputs& base_;
  PreparedInputs* other_;
  std::unique_ptr<SharedTensors> other_inputs_;  // laid out as the base's are
  std::unique_ptr<Relation> relation_;
  double inputs_s_ = 0, judging_s_ = 0;
};

}  // namespace attest::core
