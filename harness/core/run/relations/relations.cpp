#include "core/run/relations/relations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <list>

#include "core/judge/relation_check.hpp"
#include "core/measure/time.hpp"
#include "core/run/memory_room.hpp"
#include "core/run/outputs.hpp"
#include "core/tensor/stopwatch.hpp"

namespace attest::core {
namespace {

constexpr double kQuickRun_ns = 20e6;  // some fifteen runs of it are a fraction of a second
// Of all tensors: what it takes to make and compare them likewise
constexpr int64_t kQuickElements = int64_t{1} << 21;
constexpr int64_t kKeptElements = int64_t{1} << 21;

}  // namespace

/// The inputs of one run.
struct RelationChecks::Derived {
  Derived(const Relation& relation, size_t run)
      : problem(relation.problems()[run]), inputs(problem, ATTEST_READ) {
    relation.fill(run, inputs.tensors());
    inputs.seal();
  }
  const Problem& problem;
  SharedTensors inputs;
  std::unique_ptr<Golden> golden;  // where sigmas of its own are needed
};

/// What one implementation made of some runs.
struct RelationChecks::Made {
  const Trial& trial;
  double run_ns = 0;  // of the base problem
  std::unique_ptr<SigmaTable> base_sigmas{};
  std::list<SharedTensors> outputs{};
  std::list<SigmaTable> sigmas{};
  std::vector<RelationRun> runs{};
};

bool wants_relations(RelationChoice choice, const Problem& problem, double run_ns) {
  if (choice != RelationChoice::kAuto) return choice == RelationChoice::kAll;
  return run_ns <= kQuickRun_ns && tensor_elements(problem) <= kQuickElements;
}

RelationChecks::RelationChecks(const Problem& problem, const PreparedInputs& base,
                               GoldenStore& goldens, std::string_view only, bool names_fill)
    : problem_(problem),
      base_(base),
      goldens_(goldens),
      keep_(tensor_elements(problem) <= kKeptElements) {
  const Stopwatch watch(inputs_s_);
  relations_ = problem.operation->relations(problem, base.shared().tensors());
  if (!only.empty())
    std::erase_if(relations_, [&](const auto& relation) { return relation->name() != only; });
  if (names_fill) suffix_ = fmt::format(" ({})", base.fill().name);
  for (const auto& relation : relations_) derived_.emplace_back(relation->problems().size());
}

RelationChecks::~RelationChecks() = default;

// Runs one of a relation's problems, and adds its time to `run_ns`; not a pass: there is nothing to
// compare.
Outcome RelationChecks::make_run(Made& made, Derived& derived, bool own_sigmas, double& run_ns) {
  const Trial& trial = made.trial;
  const Problem& problem = derived.problem;
  uint64_t workspace_bytes = trial.workspace_bytes;
  if (!(problem == problem_)) {
    if (std::string why = refuses(trial.implementation, problem); !why.empty())
      return {ReasonCode::kUnsupportedTable, std::move(why)};
    const QueryResult query = trial.plugin.query(trial.implementation, problem);
    if (query.failure) return *query.failure;
    if (query.status != ATTEST_OK) return {ReasonCode::kUnsupportedQuery, query.message};
    workspace_bytes = query.support.workspace_bytes;
  }
  SharedTensors& outputs = made.outputs.emplace_back(problem, ATTEST_WRITE, workspace_bytes);
  outputs.poison();
  const RunResult run = trial.plugin.run(trial.implementation, problem, derived.inputs, outputs);
  if (run.failure) return *run.failure;
  run_ns += run.run_ns;
  if (std::string canary = outputs.broken_canary(); !canary.empty())
    return {ReasonCode::kCrashCanary, std::move(canary)};
  const SigmaTable* sigmas = nullptr;
  if (own_sigmas) {
    const Stopwatch watch(judging_s_);
    if (!derived.golden)
      derived.golden = problem.operation->golden(problem, Fill{}, derived.inputs.tensors());
    sigmas = &made.sigmas.emplace_back(problem, *derived.golden, trial.arithmetic);
  }
  made.runs.push_back({problem, derived.inputs.tensors(), outputs.tensors(), sigmas});
  return {};
}

// Larger problems than the one that was asked for must not end in a timeout, nor in want of memory;
// not a pass: they might.
Outcome RelationChecks::fits(const Relation& relation, const Made& made) const {
  double bytes = 0, longest_ns = 0;
  const double flops = problem_.operation->flops(problem_);
  for (const Problem& problem : relation.problems()) {
    const double growth = flops > 0 ? problem.operation->flops(problem) / flops : 1;
    bytes += min_bytes(problem) + growth * double(made.trial.workspace_bytes);
    longest_ns = std::max(longest_ns, growth * made.run_ns);
  }
  Outcome room =
      fits_in_memory(bytes, kSharedMemory, made.trial.plugin.options().limits.memory_bytes,
                     "needs " + print_memory(bytes));
  if (!room.passes()) return room;
  if (longest_ns > kLongestRun_ns)
    return {ReasonCode::kSkippedTime, fmt::format("a run would take {:.3g} s", longest_ns * 1e-9)};
  return {};
}

RelationRecord RelationChecks::check(size_t index, Made& made) {
  const Relation& relation = *relations_[index];
  RelationRecord record{.relation = std::string(relation.name()) + suffix_};
  Outcome& outcome = record.judgement.outcome;
  made.runs.clear();
  made.outputs.clear();
  made.sigmas.clear();
  outcome = fits(relation, made);
  if (!outcome.passes()) return record;
  for (size_t run = 0; run < relation.problems().size(); ++run) {
    std::unique_ptr<Derived>& derived = derived_[index][run];
    if (!derived) {
      const Stopwatch watch(inputs_s_);
      derived = std::make_unique<Derived>(relation, run);
    }
    outcome = make_run(made, *derived, relation.own_sigmas(), record.run_ns);
    if (outcome.passes()) continue;
    if (outcome.is_bad()) outcome.reason += fmt::format(" (in a run for {})", record.relation);
    return record;
  }
  const Stopwatch watch(judging_s_);
  const Trial& trial = made.trial;
  if (!made.base_sigmas)
    made.base_sigmas = goldens_.of(base_).use([&](const Golden& golden) {
      return std::make_unique<SigmaTable>(problem_, golden, trial.arithmetic);
    });
  const RelationRun base{problem_, base_.shared().tensors(), trial.outputs->tensors(),
                         made.base_sigmas.get()};
  record.judgement =
      judge_relation(relation, base, made.runs, !trial.arithmetic.has(ATTEST_NONDETERMINISTIC));
  return record;
}

std::vector<RelationRecord> RelationChecks::run(const Trial& trial, bool all) {
  std::vector<RelationRecord> records;
  if (relations_.empty()) return records;
  // As in all other runs: where tensors lie may decide how a kernel cuts its loops.
  trial.outputs->place(Side::kEnd);
  trial.outputs->poison();
  const RunResult run =
      trial.plugin.run(trial.implementation, problem_, base_.shared(), *trial.outputs);
  if (run.failure) {
    records.push_back({.relation = "base", .judgement = {.outcome = *run.failure}});
    return records;
  }
  Made made{.trial = trial, .run_ns = run.run_ns};
  for (size_t index = 0; index < relations_.size(); ++index) {
    if (!relations_[index]->suits(trial.arithmetic)) continue;
    records.push_back(check(index, made));
    if (!keep_)
      for (auto& derived : derived_[index]) derived.reset();
    if (!all && records.back().judgement.outcome.is_bad()) break;
  }
  return records;
}

}  // namespace attest::core
