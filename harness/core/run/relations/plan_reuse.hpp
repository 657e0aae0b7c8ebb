// The relation plan-reuse. In one process, the problem and its variants have plans that are alive
// at the same time, and their runs alternate. It shows plugins that confuse the state of their
// plans.
//
// Two processes create and run the plans in opposite orders. So each problem is early in one
// process and late in the other, and an output that depends on earlier plans differs. Each problem
// also runs in a process of its own, as far as time allows. Outputs are judged by their goldens;
// unless the implementation declares itself nondeterministic, they must agree to the bit as well.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/operations/variant.hpp"
#include "core/record/record.hpp"
#include "core/run/plugins/plugin.hpp"

namespace attest::core {

constexpr std::string_view kPlanReuse = "plan-reuse";  // in records

class PlanReuse {
 public:
  /// Uses the problem and its variants (Operation::variants), with inputs from `seed`. The problem
  /// must outlive this object. `diagnosed`: as in RunOptions.
  PlanReuse(const Problem& problem, uint64_t seed, bool diagnosed);
  ~PlanReuse();

  /// Tries the variants that the implementation supports. Without `again`, variants that were
  /// already tried with this implementation are left out, and goldens, tensors and processes of
  /// their own have limits. Returns nothing if no variant is left.
  std::optional<RelationRecord> run(Plugin& plugin, const Implementation& implementation,
                                    bool again);

  /// Seconds spent so far in making inputs, and in goldens and comparisons.
  double inputs_s() const { return inputs_s_; }
  double judging_s() const { return judging_s_; }

 private:
  struct Member;
  struct Part;
  class FreshProcesses;
  using Parts = std::vector<std::unique_ptr<Part>>;
  Parts parts(Plugin& plugin, const Implementation& implementation, bool again);
  void make_inputs(Member& member);
  void run_alone(Plugin& process, const Implementation& implementation, Part& part);
  void explain(const Part& part, const SharedTensors& outputs, Judgement& judgement) const;
  // Functions that return an Outcome also write it into the record.
  Outcome play(Plugin& process, const Implementation& implementation, Parts& parts, bool forward,
               bool alive_at_once, RelationRecord& record);
  Outcome judge(FreshProcesses& fresh, const Implementation& implementation, Part& part,
                RelationRecord& record);
  Outcome compare(const Part& part, const std::vector<const SharedTensors*>& different,
                  RelationRecord& record) const;

  std::vector<std::unique_ptr<Member>> members_;  // the problem itself, then its variants
  uint64_t seed_;
  bool diagnosed_;
  double inputs_s_ = 0, judging_s_ = 0;
};

}  // namespace attest::core
