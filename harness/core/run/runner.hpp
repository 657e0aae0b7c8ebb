// The runner: runs implementations on one problem and makes a record for each.
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
#include "core/measure/neighbours.hpp"
#include "core/operations/declaration.hpp"
#include "core/record/record.hpp"
#include "core/run/judged_run.hpp"
#include "core/run/plugins/plugin.hpp"
#include "core/run/rates.hpp"
#include "core/run/relations/changed_tensors.hpp"
#include "core/run/relations/plan_reuse.hpp"
#include "core/run/relations/relations.hpp"
#include "core/run/relations/repetition.hpp"
#include "core/run/relations/reruns.hpp"
#include "core/run/trial.hpp"

namespace attest::core {

/// Frames that are released by a clock (record/paced.hpp).
struct PaceOptions {
  double period_ns = 0;     // from one frame to the next; also the deadline
  double window_ns = 10e9;  // how long frames are released; beside neighbours as long again
  std::vector<NeighbourSpec> neighbours{};  // empty: only alone
};

struct RunOptions {
  Limits limits;
  MinArithmetic least;
  std::vector<std::string>
      fills;  // judge only on these; kAllFills: on all; empty: on the default ones
  RelationChoice relations = RelationChoice::kAuto;
  // Of those that are wanted, check this one alone, by the name that records have without a fill.
  // Empty: all
  std::string only_relation{};
  bool timed = true;
  // Only decide whether an implementation would run. If so, its record passes, has the estimates
  // and the names of the fills, and no results
  bool dry_run = false;
  std::optional<PaceOptions> pace{};  // none: no frames are paced
  bool energy = false;                // measure energy too
  // Computes large goldens; null: the host computes all goldens
  const GoldenDevice* golden_device = nullptr;
  int64_t reruns = 0;  // of each fill's run, in the same circumstances. 0: only of wrong outputs
  RunObserver observer{};   // called after the run of each fill; may be empty
  bool all_checks = false;  // run the other checks even after one failed, to see which of them
                            // fail. The verdict is that of the first
  // Whether wrong outputs are diagnosed: where they are wrong, which known mistake gives them, and
  // whether further runs give others. The verdict of the record does not depend on the diagnosis.
  // But the diagnosis may find a race, which makes other records of the implementation suspect
  bool diagnosed = true;
};

/// The names of a case and its inputs.
struct CaseLabel {
  std::string suite, case_name;
  std::string inputs;  // "random", or the token source
  std::string source;  // Case::source
};

/// Whether judging another fill would exceed the time limit of the case. Only applies to
/// implementations whose runs take more than a second, and after two fills.
bool enough_fills(std::span<const FillRun> judged, double case_limit_s);

/// Writes the implementation, its plugin and its device into a record.
void describe_implementation(Record& record, const Implementation& implementation);

class CaseRunner {
 public:
  /// `tokens` may be null. Inputs are made when the first implementation needs them. `given`: if
  /// not null, its inputs are used instead of fills. All arguments must outlive this object.
  CaseRunner(const Problem& problem, std::string spec, CaseLabel label, const Tokens* tokens,
             const RunOptions& options, Rates& rates, const Tensors* given = nullptr);

  /// Judges and times one implementation. Whatever the implementation does becomes a record. Throws
  /// Error if the inputs cannot be made.
  Record run(Plugin& plugin, const Implementation& implementation);
  /// A record without an outcome: the case, the implementation and the problem.
  Record blank_record(const Implementation& implementation) const;

  /// Names of the fills in the order in which they are judged.
  const std::vector<std::string>& fills() const { return fills_; }
  /// Seconds spent so far in making inputs, in goldens and comparisons, and in frames and windows
  /// of energy, whose waits are part of them.
  double inputs_s() const;
  double judging_s() const;
  double pacing_s() const { return pacing_s_; }

 private:
  /// Outputs of a timed run that are judged, and their inputs.
  struct Audited {
    const PreparedInputs& inputs;
    const SharedTensors& outputs;
  };
  /// The tensors of runs of which some are audited.
  class AuditSet {
   public:
    AuditSet(CaseRunner& runner, Trial& trial);
    AuditedTensors tensors() const;
    /// `differs`: two runs on the same inputs gave different outputs.
    std::vector<Audited> audited(bool differs) const;

   private:
    const PreparedInputs& first_;
    const PreparedInputs* second_;
    const SharedTensors& outputs_;
    SharedTensors differing_, second_outputs_;
  };
  /// What the worker saw in audited runs.
  struct AuditFindings {
    bool inputs_changed = false, late = false, stale = false;
  };
  Outcome admit(Trial& trial);
  void name_fills(Record& record) const;
  Outcome fits(const Trial& trial) const;
  void judge_fills(Trial& trial);
  Outcome judge_fill(Trial& trial, const std::string& name);
  Judgement judge_run(Trial& trial, const RunResult& run, const PreparedInputs& prepared,
                      FillRecord& fill);
  void repeat(Trial& trial, const PreparedInputs& prepared, FillRecord& fill);
  void repeat_passed(Trial& trial);
  void explain(Judgement& judgement, const PreparedInputs& prepared, Trial& trial);
  Outcome beyond_outputs(const Trial& trial, const PreparedInputs& prepared,
                         const FillRecord& fill);
  void check_relations(Trial& trial);
  bool is_wanted(std::string_view relation) const;
  RelationRecord check_repetition(const Trial& trial);
  RelationRecord check_changed_tensors(const Trial& trial);
  const PreparedInputs* other_inputs(const Trial& trial);
  bool goes_on(Trial& trial, RelationRecord relation) const;
  RelationChecks* first_relations();
  RelationChecks* huge_relations();
  void measure(Trial& trial);
  Outcome time(Trial& trial);
  Outcome judge_audited(const Trial& trial, const AuditFindings& findings,
                        const std::vector<Audited>& audited, const std::string& doing);
  class SameNeighbours;
  PacedResult run_paced(Trial& trial, double period_ns, double window_ns, uint64_t frames);
  std::optional<PhaseRecord> pace_phase(Trial& trial, bool contended, Outcome& outcome);
  Outcome pace(Trial& trial);
  Outcome measure_energy(Trial& trial);
  const PreparedInputs* second_inputs(const Trial& trial);
  Side side(const std::string& fill) const;
  const PreparedInputs& inputs(const std::string& fill);
  std::optional<double> softmax_distance();
  Judgement judge_outputs(const PreparedInputs& prepared, const Arithmetic& arithmetic,
                          const SharedTensors& outputs);

  const Problem& problem_;
  std::string spec_;
  CaseLabel label_;
  const Tokens* tokens_;
  const Tensors* given_;
  const RunOptions& options_;
  Rates& rates_;
  std::vector<std::string> fills_, all_fills_;  // those judged on; all that the case has
  std::map<std::string, std::unique_ptr<PreparedInputs>> prepared_;
  // The first fill's inputs with some rows changed, for audits of timed runs
  std::unique_ptr<PreparedInputs> altered_;
  // With other lengths, orders and pages than every fill, for repetition
  std::unique_ptr<PreparedInputs> other_tables_;
  std::unique_ptr<ChangedTensors> changed_tensors_;  // from the first fill
  GoldenStore goldens_;                              // of all inputs above
  std::unique_ptr<Repetition> repetition_;           // on the first fill
  std::unique_ptr<RelationChecks> relations_;        // on the first fill
  std::unique_ptr<RelationChecks> huge_relations_;
  std::unique_ptr<PlanReuse> plan_reuse_;
  std::optional<std::optional<double>> softmax_distance_;  // of the first fill, once it was asked
  double inputs_s_ = 0, judging_s_ = 0, pacing_s_ = 0;
};

}  // namespace attest::core
