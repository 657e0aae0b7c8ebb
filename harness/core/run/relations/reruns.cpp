#include "core/run/relations/reruns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/judge/relation_check.hpp"
#include "core/run/memory_room.hpp"
#include "core/run/outputs.hpp"
#include "core/tensor/stopwatch.hpp"

namespace attest::core {
namespace {

constexpr size_t kMostJudged = 16;  // different outputs
// With one thread: runs, and the seconds after which no further one begins. Two are made at least.
constexpr int64_t kMostAlone = 20;
constexpr double kMostAlone_s = 0.5;

Judgement judge_alone(const PreparedInputs& inputs, KeptGolden& golden,
                      const Arithmetic& arithmetic, const Tensors& outputs) {
  return golden.use([&](const Golden& values) {
    return judge(inputs.problem(), values, arithmetic, outputs, &inputs.shared().tensors());
  });
}

// Two runs on the same inputs as the relation repetition compares them.
Judgement compare_runs(const PreparedInputs& inputs, KeptGolden& golden,
                       const Arithmetic& arithmetic, const Tensors& first, const Tensors& second,
                       bool bitwise) {
  const Problem& problem = inputs.problem();
  const Tensors& given = inputs.shared().tensors();
  const SigmaTable sigmas =
      golden.use([&](const Golden& values) { return SigmaTable(problem, values, arithmetic); });
  const RelationRun base{problem, given, first, &sigmas};
  const RelationRun again{problem, given, second, nullptr};
  return judge_relation(*repetition(problem, given), base, {&again, 1}, bitwise);
}

class Rerunner {
 public:
  Rerunner(const Trial& trial, KeptGolden& golden, const FirstRun& first, double& judging_s)
      : trial_(trial),
        golden_(golden),
        first_(first),
        judging_s_(judging_s),
        outputs_(first.inputs.problem(), ATTEST_WRITE, trial.workspace_bytes) {
    outputs_.place(first.side);
  }

  Reruns run(const RerunCount& count) {
    const auto start = Clock::now();
    RerunRecord& record = reruns_.record;
    for (int64_t n = 1; n <= count.most; ++n) {
      if (n > 1 && seconds_since(start) > count.most_s) break;
      const RunResult result = run_once(first_.leftover);
      ++record.runs;
      if (!agrees(result)) note_other(result, n);
      const bool hangs = result.failure && result.failure->verdict() == Verdict::kTimeout;
      if (hangs || (count.to_first_difference && differs_)) break;
    }
    if (count.to_first_difference && !differs_ && trial_.workspace_bytes > 0) try_workspaces();
    record.apart = apart_;
    if (apart_)
      record.differs_with_one_thread =
          differs_with_one_thread(trial_, first_.inputs, first_.leftover);
    return std::move(reruns_);
  }

 private:
  RunResult run_once(Leftover leftover) {
    outputs_.poison(leftover);
    RunResult result = trial_.plugin.run(trial_.implementation, first_.inputs.problem(),
                                         first_.inputs.shared(), outputs_);
    reruns_.record.run_ns += result.run_ns;
    if (const std::string canary = result.failure ? "" : outputs_.broken_canary(); !canary.empty())
      result.failure = Outcome{ReasonCode::kCrashCanary, canary};
    return result;
  }

  std::string hash() const { return hash_outputs(first_.inputs.problem(), outputs_.tensors()); }
  bool agrees(const RunResult& result) const {
    return result.failure ? first_.outputs_hash.empty() : hash() == first_.outputs_hash;
  }

  // The outputs of rerun `number` are not those of the first run.
  void note_other(const RunResult& result, int64_t number) {
    const Stopwatch watch(judging_s_);
    differs_ = true;
    RerunRecord& record = reruns_.record;
    const auto known = std::ranges::find(record.others, result.failure ? "" : hash(),
                                         &RerunRecord::Other::outputs_hash);
    if (known != record.others.end()) {
      ++known->runs;
      return;
    }
    if (record.others.size() == kMostJudged) {
      ++record.unjudged;
      return;
    }
    RerunRecord::Other other =
        result.failure
            ? RerunRecord::Other{.outputs_hash = "", .runs = 1, .outcome = *result.failure}
            : judged_other(first_.inputs, golden_, trial_.arithmetic, outputs_.tensors());
    apart_ = apart_ || is_apart(other);
    if (first_.outcome.passes() && reruns_.outcome.passes()) blame(other, number);
    record.others.push_back(std::move(other));
  }

  bool is_apart(const RerunRecord::Other& other) {
    if (other.outcome.passes() != first_.outcome.passes()) return true;
    return !other.outputs_hash.empty() && first_.outputs &&
           compare(*first_.outputs, false).outcome.is_bad();
  }
  Judgement compare(const Tensors& first, bool bitwise) {
    return compare_runs(first_.inputs, golden_, trial_.arithmetic, first, outputs_.tensors(),
                        bitwise);
  }

  // What the difference means for an implementation whose first run passed.
  void blame(const RerunRecord::Other& other, int64_t number) {
    const std::string which = fmt::format(" (rerun {})", number);
    if (other.outputs_hash.empty()) {
      reruns_.outcome = {other.outcome.code, other.outcome.reason + which};
    } else if (!other.outcome.passes()) {
      reruns_.outcome = {ReasonCode::kFailRepetition,
                         fmt::format("repetition: {}{}", other.outcome.reason, which)};
    } else if (first_.outputs && !trial_.arithmetic.has(ATTEST_NONDETERMINISTIC)) {
      reruns_.outcome = compare(*first_.outputs, true).outcome;
      reruns_.outcome.reason += which;
    }
  }

  // All runs gave the same bits. The workspace may have been a part of what they came from.
  void try_workspaces() {
    for (const Leftover leftover : kLeftovers) {
      if (leftover == first_.leftover) continue;
      if (agrees(run_once(leftover))) continue;
      reruns_.record.workspace = name(leftover);
      return;
    }
  }

  const Trial& trial_;
  KeptGolden& golden_;
  const FirstRun& first_;
  double& judging_s_;
  SharedTensors outputs_;
  Reruns reruns_;
  bool differs_ = false;  // a run gave other outputs than the first one
  bool apart_ = false;    // by more than the arithmetic explains
};

}  // namespace

RerunRecord::Other judged_other(const PreparedInputs& inputs, KeptGolden& golden,
                                const Arithmetic& arithmetic, const Tensors& outputs) {
  const Judgement judged = judge_alone(inputs, golden, arithmetic, outputs);
  return {.outputs_hash = hash_outputs(inputs.problem(), outputs),
          .runs = 1,
          .outcome = judged.outcome,
          .max_ratio = judged.max_ratio,
          .rms_ratio = judged.rms_ratio};
}

bool are_apart(const PreparedInputs& inputs, KeptGolden& golden, const Arithmetic& arithmetic,
               const Tensors& first, const Tensors& second) {
  if (compare_runs(inputs, golden, arithmetic, first, second, false).outcome.is_bad()) return true;
  const auto passes = [&](const Tensors& outputs) {
    return judge_alone(inputs, golden, arithmetic, outputs).outcome.passes();
  };
  return passes(first) != passes(second);
}

std::optional<bool> differs_with_one_thread(const Trial& trial, const PreparedInputs& inputs,
                                            Leftover leftover) {
  WorkerOptions options = trial.plugin.options();
  if (options.limits.threads == 1) return std::nullopt;
  options.limits.threads = 1;
  Plugin alone(trial.plugin.path(), options);
  SharedTensors outputs(inputs.problem(), ATTEST_WRITE, trial.workspace_bytes);
  const auto start = Clock::now();
  std::string first;
  for (int64_t n = 0; n < kMostAlone; ++n) {
    if (n > 1 && seconds_since(start) > kMostAlone_s) break;
    outputs.poison(leftover);
    const RunResult run =
        alone.run(trial.implementation, inputs.problem(), inputs.shared(), outputs);
    trial.plugin.count_calls_of(alone);
    if (run.failure) return std::nullopt;
    std::string bits = hash_outputs(inputs.problem(), outputs.tensors());
    if (n > 0 && bits != first) return true;
    first = std::move(bits);
  }
  return false;
}

Reruns rerun(const Trial& trial, KeptGolden& golden, const FirstRun& first, const RerunCount& count,
             double& judging_s) {
  const double bytes = min_bytes(first.inputs.problem()) + double(trial.workspace_bytes);
  const uint64_t limit = trial.plugin.options().limits.memory_bytes;
  if (!fits_in_memory(bytes, kSharedMemory, limit, "needs").passes()) return {};
  return Rerunner(trial, golden, first, judging_s).run(count);
}

}  // namespace attest::core
