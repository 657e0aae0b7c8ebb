// The runner: one problem with its inputs, and for each implementation one record.
//
//   CaseRunner runner(problem, {.suite = "vit", .case_name = "vit_b16/self"}, nullptr, options);
//   Record record = runner.run(plugin, implementation);
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/inputs/prepared.hpp"
#include "core/isolation/limits.hpp"
#include "core/record/record.hpp"
#include "core/run/plan_reuse.hpp"
#include "core/run/plugin.hpp"
#include "core/run/relations.hpp"
#include "core/run/repetition.hpp"

namespace attest::core {

struct RunOptions {
  Limits limits;
  MinArithmetic least;
  std::vector<std::string>
      fills;  // judge on these alone, or on kAllFills; empty: those that judge by default
  RelationChoice relations = RelationChoice::kAuto;
  bool timed = true;
  // Makes goldens that would take the host long; null: none
  const GoldenDevice* golden_device = nullptr;
  bool all_checks = false;  // judging goes on after a check has failed: which checks catch what.
                            // The verdict is the first one's
};

/// What a case is called and where it comes from.
struct CaseLabel {
  std::string suite, case_name;
  std::string inputs;  // "random", or the token source
  std::string source;  // the model's own configuration
};

/// How fast implementations were, so that the next case's time can be estimated. Shared by all
/// cases of a run.
class Rates {
 public:
  /// The best flops per nanosecond seen on problems of that kind (dtype and features), else on any;
  /// 0: never. The best, since a small or lopsided problem says little about what a large one will
  /// do.
  double of(const std::string& implementation, const std::string& kind) const;
  void note(const std::string& implementation, const std::string& kind, double flops,
            double run_ns);

 private:
  std::map<std::string, double> best_;
};

/// Whether a slow implementation has been judged on as many fills as the time of its case allows. A
/// fast one never has.
bool enough_fills(std::span<const FillRecord> judged, double case_limit_s);

class CaseRunner {
 public:
  /// `tokens` may be null. Nothing is made before an implementation takes the problem. Where
  /// `given` is not null, its inputs are the only ones; it must outlive this.
  CaseRunner(const Problem& problem, std::string spec, CaseLabel label, const Tokens* tokens,
             const RunOptions& options, Rates& rates, const Tensors* given = nullptr);

  /// Never throws for what the implementation does. Throws Error where the harness itself cannot go
  /// on (inputs impossible).
  Record run(Plugin& plugin, const Implementation& implementation);

  /// Names of the fills in the order in which they are judged.
  const std::vector<std::string>& fills() const { return fills_; }
  /// Seconds spent so far in making inputs, and in goldens and comparing: the harness's own share.
  double inputs_s() const;
  double judging_s() const;

 private:
  bool admit(Plugin& plugin, const Implementation& implementation, Record& record,
             Arithmetic& arithmetic);
  bool fits(const Implementation& implementation, Record& record);
  bool judge_fills(Plugin& plugin, const Implementation& implementation,
                   const Arithmetic& arithmetic, SharedTensors& outputs, Record& record);
  FillRecord judge_fill(Plugin& plugin, const Implementation& implementation,
                        const Arithmetic& arithmetic, SharedTensors& outputs,
                        const std::string& name, Record& record);
  bool check_repetition(Plugin& plugin, const Implementation& implementation,
                        const Arithmetic& arithmetic, SharedTensors& outputs, Record& record);
  bool note_relation(Record& record) const;
  RelationChecks* first_relations();
  RelationChecks* huge_relations();
  bool check_relations(Plugin& plugin, const Implementation& implementation,
                       const Arithmetic& arithmetic, SharedTensors& outputs, Record& record);
  void time(Plugin& plugin, const Implementation& implementation, const Arithmetic& arithmetic,
            SharedTensors& outputs, Record& record);
  Side side(const std::string& fill) const;
  struct Audited {
    PreparedInputs& inputs;
    const SharedTensors& outputs;
  };
  PreparedInputs* second_inputs(const Record& record);
  bool judge_audited(const TimeResult& timed, const std::vector<Audited>& audited,
                     const Arithmetic& arithmetic, Record& record);
  PreparedInputs& inputs(const std::string& fill);
  Judgement judge_outputs(PreparedInputs& prepared, const Arithmetic& arithmetic,
                          const SharedTensors& outputs, double& golden_ns);

  const Problem& problem_;
  std::string spec_;
  CaseLabel label_;
  const Tokens* tokens_;
  const Tensors* given_;
  const RunOptions& options_;
  Rates& rates_;
  std::vector<std::string> fills_, all_fills_;  // judged on; those that the case has
  std::map<std::string, std::unique_ptr<PreparedInputs>> prepared_;
  std::unique_ptr<PreparedInputs>
      altered_;  // the first fill's with some rows changed, for the audit of timed runs
  std::unique_ptr<Repetition> repetition_;     // of the first fill
  std::unique_ptr<RelationChecks> relations_;  // likewise
  std::unique_ptr<RelationChecks> huge_relations_;
  std::unique_ptr<PlanReuse> plan_reuse_;
  double inputs_s_ = 0, judging_s_ = 0;
};

}  // namespace attest::core
