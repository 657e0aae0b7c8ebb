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

#include "core/inputs/golden_store.hpp"
#include "core/inputs/prepared.hpp"
#include "core/isolation/limits.hpp"
#include "core/operations/declaration.hpp"
#include "core/record/record.hpp"
#include "core/run/plan_reuse.hpp"
#include "core/run/plugin.hpp"
#include "core/run/rates.hpp"
#include "core/run/relations.hpp"
#include "core/run/repetition.hpp"
#include "core/run/trial.hpp"

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

/// Whether a slow implementation has been judged on as many fills as the time of its case allows. A
/// fast one never has.
bool enough_fills(std::span<const FillRun> judged, double case_limit_s);

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
  /// Timed outputs that are judged, and the inputs that they belong to.
  struct Audited {
    const PreparedInputs& inputs;
    const SharedTensors& outputs;
  };
  Record blank_record(const Implementation& implementation) const;
  std::optional<Outcome> admit(Trial& trial);
  std::optional<Outcome> fits(const Trial& trial) const;
  void judge_fills(Trial& trial);
  Outcome judge_fill(Trial& trial, const std::string& name);
  Judgement judge_run(Trial& trial, const RunResult& run, const PreparedInputs& prepared,
                      FillRecord& fill);
  void check_relations(Trial& trial);
  RelationRecord check_repetition(const Trial& trial);
  bool goes_on(Trial& trial, RelationRecord relation) const;
  RelationChecks* first_relations();
  RelationChecks* huge_relations();
  Outcome time(Trial& trial);
  Outcome judge_audited(const Trial& trial, const TimeResult& timed,
                        const std::vector<Audited>& audited);
  const PreparedInputs* second_inputs(const Trial& trial);
  Side side(const std::string& fill) const;
  const PreparedInputs& inputs(const std::string& fill);
  Judgement judge_outputs(const PreparedInputs& prepared, const Arithmetic& arithmetic,
                          const SharedTensors& outputs);

  const Problem& problem_;
  std::string spec_;
  CaseLabel label_;
  const Tokens* tokens_;
  const Tensors* given_;
  const RunOptions& options_;
  Rates& rates_;
  std::vector<std::string> fills_, all_fills_;  // judged on; those that the case has
  std::map<std::string, std::unique_ptr<PreparedInputs>> prepared_;
  // The first fill's with some rows changed, for the audit of timed runs
  std::unique_ptr<PreparedInputs> altered_;
  GoldenStore goldens_;                        // of both
  std::unique_ptr<Repetition> repetition_;     // of the first fill
  std::unique_ptr<RelationChecks> relations_;  // likewise
  std::unique_ptr<RelationChecks> huge_relations_;
  std::unique_ptr<PlanReuse> plan_reuse_;
  double inputs_s_ = 0, judging_s_ = 0;
};

}  // namespace attest::core
