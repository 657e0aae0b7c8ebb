#include "core/run/repetition.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <list>

#include "core/judge/relation_check.hpp"
#include "core/measure/memory.hpp"
#include "core/measure/time.hpp"
#include "core/run/runner_parts.hpp"

namespace attest::core {
namespace {

// Runs of one plan, and how long all of them may take.
struct Series {
  int runs;
  double most_ns;
};
constexpr Series kSeries[] = {{50, 0.1e9}, {10, 0.2e9}, {3, 3e9}};
constexpr double kLongestRun_ns = 20e9;  // where relations are asked for everywhere
constexpr int kJudgedRuns[] = {1, 2, 3, 10, 50};

// Elements of all outputs.
int64_t output_elements(const Problem& problem) {
  int64_t count = 0;
  for (const Role& role : problem.operation->roles()) {
    const TensorSpec& spec = problem.tensor[size_t(role.index)];
    if (is_output(role) && present(spec)) count += element_count(spec);
  }
  return count;
}

void set(RelationRecord& record, Verdict verdict, std::string code, std::string reason) {
  record.judgement.verdict = verdict, record.judgement.code = std::move(code),
  record.judgement.reason = std::move(reason);
}

void fail(RelationRecord& record, const Failure& failure) {
  set(record, failure.verdict, failure.code, failure.reason + " (in a run for repetition)");
}

}  // namespace

int repeated_runs(double run_ns, bool slow_too) {
  for (const Series& series : kSeries)
    if (run_ns * series.runs <= series.most_ns) return series.runs;
  return slow_too && run_ns <= kLongestRun_ns ? kSeries[2].runs : 0;
}

Repetition::Repetition(const Problem& problem, PreparedInputs& base, PreparedInputs* other)
    : problem_(problem),
      base_(base),
      other_(other),
      relation_(repetition(problem, base.shared().tensors())) {}
Repetition::~Repetition() = default;

// Inputs, one more set of them, and the outputs of the judged runs lie in memory at once.
bool Repetition::fits(const Task& task, RelationRecord& record) const {
  const double bytes = 6 * min_bytes(problem_), available = double(read_memory().available_bytes);
  if (bytes <= available / 2) return true;
  set(record, Verdict::kSkipped, "skipped:memory",
      fmt::format("{} runs of one plan need {:.3g} GB, {:.3g} GB are free", task.runs, bytes * 1e-9,
                  available * 1e-9));
  return false;
}

RelationRecord Repetition::run(const Task& task) {
  RelationRecord record{.relation = "repetition"};
  if (task.runs == 0)
    return set(record, Verdict::kSkipped, "skipped:time",
               fmt::format("a run takes {:.3g} s, and three of one plan may take {:g} s",
                           task.run_ns * 1e-9, kSeries[2].most_ns * 1e-9)),
           record;
  if (!fits(task, record)) return record;
  if (other_ && !other_inputs_) {
    const auto start = Clock::now();
    other_inputs_ = std::make_unique<SharedTensors>(problem_, ATTEST_READ);
    for (const Role& role : problem_.operation->roles())
      if (const Tensor& to = other_inputs_->tensors()[size_t(role.index)])
        copy_elements(other_->shared().tensors()[size_t(role.index)], to);
    other_inputs_->seal();
    inputs_s_ += std::chrono::duration<double>(Clock::now() - start).count();
  }
  record.judgement.method =
      task.arithmetic.has(ATTEST_NONDETERMINISTIC) ? "within twice the gate" : "to the bit";
  play(task, record);
  return record;
}

const Golden& Repetition::golden_of(bool other) { return (other ? *other_ : base_).golden(); }

// Whether two runs on the same inputs agree; false: the record says why not.
bool Repetition::agree(const Task& task, const SharedTensors& first, const SharedTensors& second,
                       bool other, const std::string& which, RelationRecord& record) {
  const auto start = Clock::now();
  record.judgement.exact_elements += output_elements(problem_);
  if (hash_outputs(problem_, first.tensors()) == hash_outputs(problem_, second.tensors()))
    return true;
  const SigmaTable sigmas(problem_, golden_of(other), task.arithmetic);
  const Tensors& inputs = (other ? *other_inputs_ : base_.shared()).tensors();
  const RelationRun base{problem_, inputs, first.tensors(), &sigmas};
  const RelationRun again{problem_, inputs, second.tensors(), nullptr};
  const Judgement judged =
      judge_relation(*relation_, base, {&again, 1}, !task.arithmetic.has(ATTEST_NONDETERMINISTIC));
  judging_s_ += std::chrono::duration<double>(Clock::now() - start).count();
  if (is_bad(judged.verdict)) {
    record.judgement = judged;
    record.judgement.reason += " (" + which + ")";
    return false;
  }
  record.judgement.max_ratio = std::max(record.judgement.max_ratio, judged.max_ratio);
  record.judgement.rms_ratio = std::max(record.judgement.rms_ratio, judged.rms_ratio);
  return true;
}

// The second run's inputs are another fill's: what that fill left, or by its golden.
bool Repetition::judge_other(const Task& task, const SharedTensors& outputs,
                             RelationRecord& record) {
  const auto start = Clock::now();
  record.judgement.exact_elements += output_elements(problem_);
  if (hash_outputs(problem_, outputs.tensors()) == task.other_hash) return true;
  const Judgement judged = judge(problem_, golden_of(true), task.arithmetic, outputs.tensors(),
                                 &other_inputs_->tensors());
  judging_s_ += std::chrono::duration<double>(Clock::now() - start).count();
  if (judged.verdict == Verdict::kPass) return true;
  const bool wrong = judged.verdict == Verdict::kFail || judged.verdict == Verdict::kSuspect;
  record.judgement = judged;
  record.judgement.code = wrong ? "fail:repetition" : judged.code;
  record.judgement.verdict = wrong ? Verdict::kFail : judged.verdict;
  record.judgement.reason = fmt::format("repetition: {} (run 2 of one plan, on inputs of fill {})",
                                        judged.reason, other_->fill().name);
  return false;
}

// Inputs take turns, and so do places: runs 1 and 2 have the same addresses, runs 3 and 4 others,
// and so on.
Script Repetition::script_of(const Task& task, Played& played) const {
  Script script;
  script.plans = {&problem_};
  const int32_t own = script.add(base_.shared()),
                others = other_inputs_ ? script.add(*other_inputs_) : own;
  int32_t unjudged = -1;
  const auto add_outputs = [&] {
    SharedTensors& made = played.outputs.emplace_back(problem_, ATTEST_WRITE, task.workspace_bytes);
    made.seal_size(), made.poison(Leftover::kFractions);
    return script.add(made);
  };
  script.create(0);
  for (int run = 1; run <= task.runs; ++run) {
    int32_t outputs = unjudged;
    if (std::find(std::begin(kJudgedRuns), std::end(kJudgedRuns), run) != std::end(kJudgedRuns)) {
      outputs = run == 1 ? script.add(task.outputs) : add_outputs();
      played.judged.emplace_back(run, script.sets[size_t(outputs)]);
    } else if (unjudged < 0) {
      outputs = unjudged = add_outputs();
    }
    script.run(0, (run - 1) / 2 % 2, run % 2 == 1 ? own : others, outputs);
  }
  script.destroy(0);
  return script;
}

// Run 1 against what the fill left; run 2 against what another fill left; all others against these
// two.
void Repetition::judge_runs(const Task& task, const Played& played, RelationRecord& record) {
  const SharedTensors* second = nullptr;
  for (const auto& [run, outputs] : played.judged) {
    if (const std::string canary = outputs->broken_canary(); !canary.empty())
      return set(record, Verdict::kCrash, "crash:canary",
                 fmt::format("{} (run {} of one plan)", canary, run));
    const bool other = other_inputs_ && run % 2 == 0;
    if (run == 1) {
      if (hash_outputs(problem_, outputs->tensors()) != task.base_hash &&
          !try_leftover(task, Leftover::kNaN, record))
        return;
    } else if (other && !second) {
      if (!judge_other(task, *outputs, record)) return;
      second = outputs;
    } else if (!agree(task, other ? *second : task.outputs, *outputs, other,
                      fmt::format("run {} of one plan", run), record)) {
      return;
    }
  }
}

// A plan of its own whose workspace holds something else leaves what run 1 left; false: the record
// says why not.
bool Repetition::try_leftover(const Task& task, Leftover leftover, RelationRecord& record) {
  SharedTensors outputs(problem_, ATTEST_WRITE, task.workspace_bytes);
  outputs.seal_size(), outputs.poison(leftover);
  const RunResult run = task.plugin.run(task.implementation, problem_, base_.shared(), outputs);
  if (run.failure) return fail(record, *run.failure), false;
  record.run_ns += run.run_ns;
  const std::string which = fmt::format("first runs of two plans whose workspace holds {} and {}",
                                        name(Leftover::kLarge), name(leftover));
  return agree(task, task.outputs, outputs, false, which, record);
}

void Repetition::play(const Task& task, RelationRecord& record) {
  Played played;
  task.outputs.place(Side::kEnd);
  task.outputs.poison(Leftover::kLarge);
  const Script script = script_of(task, played);
  const ScriptResult result =
      task.plugin.script(task.implementation, script, task.run_ns * task.runs);
  if (result.failure) return fail(record, *result.failure);
  for (const double ns : result.run_ns) record.run_ns += ns;
  judge_runs(task, played, record);
  if (!task.quick || task.workspace_bytes == 0) return;
  // The plan above has had large numbers and fractions, its fill NaN.
  for (const Leftover leftover : {Leftover::kOnes, Leftover::kZeros, Leftover::kIntegerOnes})
    if (!is_bad(record.judgement.verdict)) try_leftover(task, leftover, record);
}

}  // namespace attest::core
