#include "core/run/relations/repetition.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <list>

#include "core/judge/relation_check.hpp"
#include "core/measure/time.hpp"
#include "core/run/memory_room.hpp"
#include "core/run/outputs.hpp"
#include "core/run/relations/relations.hpp"
#include "core/run/relations/reruns.hpp"
#include "core/tensor/stopwatch.hpp"

namespace attest::core {
namespace {

// Runs of one plan, and the longest time that all of them may take: most_of_small_ns if timed runs
// have a small budget, otherwise most_ns.
struct Runs {
  int count;
  double most_ns, most_of_small_ns;
};
constexpr Runs kRuns[] = {{64, 0.07e9, 0.04e9}, {10, 0.2e9, 0.1e9}, {3, 3e9, 3e9}};
constexpr int kJudgedRuns[] = {1, 2, 3, 7, 10, 14, 50, 64};
constexpr int kFirstAtSecondPlace = 3;
// If the outputs of one run have at most so many bytes, these first runs are judged too.
constexpr int kFirstJudged = 16;
constexpr double kSmallOutputs = 1 << 20;
constexpr Leftover kFirstLeftover = Leftover::kLarge;  // in the workspace before run 1

// Elements of all outputs.
int64_t output_elements(const Problem& problem) {
  int64_t count = 0;
  for (const Role& role : problem.operation->roles()) {
    const TensorSpec& spec = problem.tensor[size_t(role.index)];
    if (is_output(role) && present(spec)) count += element_count(spec);
  }
  return count;
}

bool is_listed(int run) { return std::ranges::find(kJudgedRuns, run) != std::end(kJudgedRuns); }
// Those runs have the other inputs.
bool takes_others(int run) { return run % 2 == 0 && is_listed(run); }

Outcome in_a_run(const Outcome& failure) {
  return {failure.code, failure.reason + " (in a run for repetition)"};
}

}  // namespace

int repeated_runs(double run_ns, double budget_ns, bool slow_too) {
  const bool small = is_small_budget(budget_ns);
  for (const Runs& runs : kRuns)
    if (run_ns * runs.count <= (small ? runs.most_of_small_ns : runs.most_ns)) return runs.count;
  return slow_too && run_ns <= kLongestRun_ns ? kRuns[2].count : 0;
}

Repetition::Repetition(const Problem& problem, const PreparedInputs& base,
                       const PreparedInputs* other, GoldenStore& goldens)
    : problem_(problem),
      base_(base),
      other_(other),
      goldens_(goldens),
      relation_(repetition(problem, base.shared().tensors())) {}
Repetition::~Repetition() = default;

Outcome Repetition::fits(const Trial& trial, int runs) const {
  if (runs == 0)
    return {ReasonCode::kSkippedTime,
            fmt::format("a run takes {:.3g} s, and three of one plan may take {:g} s",
                        trial.quickest_run_ns() * 1e-9, kRuns[2].most_ns * 1e-9)};
  // Inputs, one more set of them, and the outputs of the judged runs lie in memory at once.
  const double bytes = 6 * min_bytes(problem_);
  return fits_in_memory(bytes, kSharedMemory, trial.plugin.options().limits.memory_bytes,
                        fmt::format("{} runs of one plan need {}", runs, print_memory(bytes)));
}

RelationRecord Repetition::run(const Trial& trial, const Series& series) {
  RelationRecord record{.relation = std::string(kRepetition)};
  if (Outcome room = fits(trial, series.runs); !room.passes()) {
    record.judgement.outcome = std::move(room);
    return record;
  }
  if (other_ && !other_inputs_) {
    const Stopwatch watch(inputs_s_);
    other_inputs_ = std::make_unique<SharedTensors>(problem_, ATTEST_READ);
    for (const Role& role : problem_.operation->roles())
      if (const Tensor& to = other_inputs_->tensors()[size_t(role.index)])
        copy_elements(other_->shared().tensors()[size_t(role.index)], to);
    other_inputs_->seal();
  }
  record.judgement.method =
      trial.arithmetic.has(ATTEST_NONDETERMINISTIC) ? "within twice the gate" : "to the bit";
  play(trial, series, record);
  return record;
}

// Two runs on the same inputs; where they do not agree, the record says so.
Outcome Repetition::compare(const Trial& trial, const SharedTensors& first,
                            const SharedTensors& second, const PreparedInputs& prepared,
                            const std::string& which, RelationRecord& record) {
  const Stopwatch watch(judging_s_);
  record.judgement.exact_elements += output_elements(problem_);
  if (hash_outputs(problem_, first.tensors()) == hash_outputs(problem_, second.tensors()))
    return {};
  const SigmaTable sigmas = goldens_.of(prepared).use(
      [&](const Golden& golden) { return SigmaTable(problem_, golden, trial.arithmetic); });
  const Tensors& inputs = prepared.shared().tensors();
  const RelationRun base{problem_, inputs, first.tensors(), &sigmas};
  const RelationRun again{problem_, inputs, second.tensors(), nullptr};
  Judgement judged =
      judge_relation(*relation_, base, {&again, 1}, !trial.arithmetic.has(ATTEST_NONDETERMINISTIC));
  if (judged.outcome.is_bad()) {
    judged.outcome.reason += " (" + which + ")";
    record.judgement = judged;
    return judged.outcome;
  }
  record.judgement.max_ratio = std::max(record.judgement.max_ratio, judged.max_ratio);
  record.judgement.rms_ratio = std::max(record.judgement.rms_ratio, judged.rms_ratio);
  return {};
}

// The second run's inputs are others: judged by what a fill of these inputs left, or by the golden.
Outcome Repetition::judge_other(const Trial& trial, const SharedTensors& outputs,
                                RelationRecord& record) {
  const Stopwatch watch(judging_s_);
  record.judgement.exact_elements += output_elements(problem_);
  const std::string hash = hash_outputs(problem_, outputs.tensors());
  if (std::ranges::any_of(trial.fills, [&](const FillRun& fill) {
        return fill.inputs_hash == other_->hash() && fill.outputs_hash == hash;
      }))
    return {};
  Judgement judged = goldens_.of(*other_).use([&](const Golden& golden) {
    return judge(problem_, golden, trial.arithmetic, outputs.tensors(), &other_inputs_->tensors());
  });
  if (judged.outcome.passes()) return {};
  const Verdict verdict = judged.outcome.verdict();
  const bool wrong = verdict == Verdict::kFail || verdict == Verdict::kSuspect;
  const std::string inputs = other_->fill().other_lengths
                                 ? "with other lengths, orders and pages than run 1"
                                 : "of fill " + other_->fill().name;
  judged.outcome = {wrong ? ReasonCode::kFailRepetition : judged.outcome.code,
                    fmt::format("repetition: {} (run 2 of one plan, on inputs {})",
                                judged.outcome.reason, inputs)};
  record.judgement = judged;
  return judged.outcome;
}

// Places take turns: runs 1 and 2 have the same addresses, runs 3 and 4 others, and so on. Listed
// runs with an even number have the other inputs, after runs on the own ones at the same addresses.
// All other runs have the own ones: putting tensors in the place of others takes more time than
// many a run. Only the first outputs at a place bring a workspace, which stays there.
Script Repetition::script_of(const Trial& trial, int runs, const SharedTensors& first_outputs,
                             Played& played) const {
  Script script;
  script.plans = {&problem_};
  const int32_t own = script.add(base_.shared()),
                others = other_inputs_ ? script.add(*other_inputs_) : own;
  int32_t unjudged = -1;
  const bool small = 8.0 * double(output_elements(problem_)) <= kSmallOutputs;
  const auto add_outputs = [&](uint64_t workspace_bytes) {
    SharedTensors& made = played.outputs.emplace_back(problem_, ATTEST_WRITE, workspace_bytes);
    made.poison(Leftover::kFractions);
    return script.add(made);
  };
  script.create(0);
  for (int run = 1; run <= runs; ++run) {
    int32_t outputs = unjudged;
    if (is_listed(run) || (small && run <= kFirstJudged)) {
      outputs = run == 1 ? script.add(first_outputs)
                         : add_outputs(run == kFirstAtSecondPlace ? trial.workspace_bytes : 0);
      played.judged.emplace_back(run, script.sets[size_t(outputs)]);
    } else if (unjudged < 0) {
      outputs = unjudged = add_outputs(0);
    }
    script.run(0, (run - 1) / 2 % 2, takes_others(run) ? others : own, outputs);
  }
  script.destroy(0);
  return script;
}

std::string Repetition::canary_of(const SharedTensors& outputs) {
  const Stopwatch watch(judging_s_);
  return outputs.broken_canary();
}
std::string Repetition::hash_of(const SharedTensors& outputs) {
  const Stopwatch watch(judging_s_);
  return hash_outputs(problem_, outputs.tensors());
}

// Run 1 against what the fill left; run 2 by judge_other; all others against these two.
Outcome Repetition::judge_runs(const Trial& trial, const Played& played, RelationRecord& record) {
  const SharedTensors* second = nullptr;
  for (const auto& [run, outputs] : played.judged) {
    if (const std::string canary = canary_of(*outputs); !canary.empty()) {
      const Outcome broken{ReasonCode::kCrashCanary,
                           fmt::format("{} (run {} of one plan)", canary, run)};
      record.judgement.outcome = broken;
      return broken;
    }
    Outcome shown;
    const bool other = other_inputs_ && takes_others(run);
    if (run == 1) {
      if (hash_of(*outputs) != trial.fills.at(0).outputs_hash)
        shown = try_leftover(trial, Leftover::kNaN, *trial.outputs, base_, record);
    } else if (other && !second) {
      shown = judge_other(trial, *outputs, record);
      second = outputs;
    } else {
      shown = compare(trial, other ? *second : *trial.outputs, *outputs, other ? *other_ : base_,
                      fmt::format("run {} of one plan", run), record);
    }
    if (!shown.passes()) return shown;
  }
  return {};
}

// The run of a plan of its own.
std::optional<Outcome> Repetition::run_alone(const Trial& trial, const PreparedInputs& inputs,
                                             Leftover leftover, SharedTensors& outputs,
                                             RelationRecord& record) const {
  outputs.poison(leftover);
  const RunResult run = trial.plugin.run(trial.implementation, problem_, inputs.shared(), outputs);
  record.run_ns += run.run_ns;
  return run.failure;
}

// A plan whose workspace holds something else than kFirstLeftover leaves what `first` has.
Outcome Repetition::try_leftover(const Trial& trial, Leftover leftover, const SharedTensors& first,
                                 const PreparedInputs& inputs, RelationRecord& record) {
  SharedTensors outputs(problem_, ATTEST_WRITE, trial.workspace_bytes);
  if (const auto failure = run_alone(trial, inputs, leftover, outputs, record))
    return record.judgement.outcome = in_a_run(*failure);
  const std::string which = fmt::format(
      "first runs of two plans whose workspace holds {} and {}{}", name(kFirstLeftover),
      name(leftover), &inputs == &base_ ? "" : ", on inputs of fill " + inputs.fill().name);
  return compare(trial, first, outputs, inputs, which, record);
}

// What the workspace holds may be taken for a maximum or a sum: beside scores far below 0 it shows.
Outcome Repetition::try_leftovers_on(const Trial& trial, const PreparedInputs& extreme,
                                     RelationRecord& record) {
  SharedTensors first(problem_, ATTEST_WRITE, trial.workspace_bytes);
  if (const auto failure = run_alone(trial, extreme, kFirstLeftover, first, record))
    return record.judgement.outcome = in_a_run(*failure);
  Outcome shown;
  for (const Leftover leftover : kLeftovers)
    if (leftover != kFirstLeftover && !shown.is_bad())
      shown = try_leftover(trial, leftover, first, extreme, record);
  return shown;
}

// The same runs by another plan. Whatever the first plan kept from run to run, this one keeps too.
std::optional<RerunRecord> Repetition::play_again(const Trial& trial, int runs,
                                                  const Played& first) {
  RerunRecord record{.runs = 1};
  SharedTensors first_outputs(problem_, ATTEST_WRITE, trial.workspace_bytes);
  first_outputs.poison(kFirstLeftover);
  Played again;
  const Script script = script_of(trial, runs, first_outputs, again);
  const ScriptResult result =
      trial.plugin.script(trial.implementation, script, trial.quickest_run_ns() * runs);
  if (result.failure) {
    record.others.push_back({.outputs_hash = "", .runs = 1, .outcome = *result.failure});
    record.apart = true;
    return record;
  }
  for (const double ns : result.run_ns) record.run_ns += ns;
  const Stopwatch watch(judging_s_);
  bool differs = false;
  for (size_t i = 0; i < first.judged.size(); ++i) {
    const auto& [run, outputs] = first.judged[i];
    const Tensors& other = again.judged[i].second->tensors();
    if (hash_outputs(problem_, other) == hash_outputs(problem_, outputs->tensors())) continue;
    const PreparedInputs& inputs = other_inputs_ && takes_others(run) ? *other_ : base_;
    KeptGolden& golden = goldens_.of(inputs);
    const bool apart = are_apart(inputs, golden, trial.arithmetic, outputs->tensors(), other);
    if (!differs || apart) record.others = {judged_other(inputs, golden, trial.arithmetic, other)};
    differs = true;
    record.apart = apart;
    if (!apart) continue;
    record.differs_with_one_thread = differs_with_one_thread(trial, inputs, kFirstLeftover);
    break;
  }
  return record;
}

void Repetition::play(const Trial& trial, const Series& series, RelationRecord& record) {
  Played played;
  trial.outputs->place(Side::kEnd);
  trial.outputs->poison(kFirstLeftover);
  const Script script = script_of(trial, series.runs, *trial.outputs, played);
  const ScriptResult result =
      trial.plugin.script(trial.implementation, script, trial.quickest_run_ns() * series.runs);
  if (result.failure) {
    record.judgement.outcome = in_a_run(*result.failure);
    return;
  }
  for (const double ns : result.run_ns) record.run_ns += ns;
  Outcome shown = judge_runs(trial, played, record);
  if (shown.code == ReasonCode::kFailRepetition)
    record.reruns = play_again(trial, series.runs, played);
  if (!series.quick || trial.workspace_bytes == 0) return;
  // The plan above has had large numbers and fractions, its fill NaN.
  for (const Leftover leftover : {Leftover::kOnes, Leftover::kZeros, Leftover::kIntegerOnes})
    if (!shown.is_bad()) shown = try_leftover(trial, leftover, *trial.outputs, base_, record);
  if (series.extreme && !shown.is_bad()) try_leftovers_on(trial, *series.extreme, record);
}

}  // namespace attest::core
