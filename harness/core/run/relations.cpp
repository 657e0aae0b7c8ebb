#include "core/run/relations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <list>

#include "core/judge/relation_check.hpp"
#include "core/measure/memory.hpp"
#include "core/measure/time.hpp"

namespace attest::core {
namespace {

constexpr double kQuickRun_ns = 20e6;  // some fifteen runs of it are a fraction of a second
// Of all tensors: what it takes to make and compare them likewise
constexpr int64_t kQuickElements = int64_t{1} << 21;
constexpr double kLongestRun_ns = 20e9;  // where all are asked for
constexpr int64_t kKeptElements = int64_t{1} << 21;

int64_t elements(const Problem& problem) {
  int64_t count = 0;
  for (const TensorSpec& spec : problem.tensor)
    if (present(spec)) count += element_count(spec);
  return count;
}

// Adds the seconds of its life to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(double& sum_s) : sum_s_(sum_s) {}
  ~Stopwatch() { sum_s_ += std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  double& sum_s_;
  Clock::time_point start_ = Clock::now();
};

void set(RelationRecord& record, Verdict verdict, std::string code, std::string reason) {
  record.judgement.verdict = verdict, record.judgement.code = std::move(code),
  record.judgement.reason = std::move(reason);
}

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
  Plugin& plugin;
  const Implementation& implementation;
  const Arithmetic& arithmetic;
  SharedTensors& base;
  uint64_t workspace_bytes = 0;  // of the base problem
  double run_ns = 0;             // likewise
  std::unique_ptr<SigmaTable> base_sigmas{};
  std::list<SharedTensors> outputs{};
  std::list<SigmaTable> sigmas{};
  std::vector<RelationRun> runs{};
};

bool wants_relations(RelationChoice choice, const Problem& problem, double run_ns) {
  if (choice != RelationChoice::kAuto) return choice == RelationChoice::kAll;
  return run_ns <= kQuickRun_ns && elements(problem) <= kQuickElements;
}

RelationChecks::RelationChecks(const Problem& problem, PreparedInputs& base, std::string_view only)
    : problem_(problem), base_(base), keep_(elements(problem) <= kKeptElements) {
  const Stopwatch watch(inputs_s_);
  relations_ = problem.operation->relations(problem, base.shared().tensors());
  if (!only.empty()) {
    std::erase_if(relations_, [&](const auto& relation) { return relation->name() != only; });
    suffix_ = fmt::format(" ({})", base.fill().name);
  }
  for (const auto& relation : relations_) derived_.emplace_back(relation->problems().size());
}

RelationChecks::~RelationChecks() = default;

// Runs one of a relation's problems; false: the record says why there is nothing to compare.
bool RelationChecks::make_run(Made& made, const Problem& problem, Derived& derived, bool own_sigmas,
                              RelationRecord& record) {
  uint64_t workspace_bytes = made.workspace_bytes;
  if (!(problem == problem_)) {
    if (const std::string why = refuses(made.implementation, problem); !why.empty())
      return set(record, Verdict::kUnsupported, "unsupported:table", why), false;
    const QueryResult query = made.plugin.query(made.implementation, problem);
    if (query.failure)
      return set(record, query.failure->verdict, query.failure->code, query.failure->reason), false;
    if (query.status != ATTEST_OK)
      return set(record, Verdict::kUnsupported, "unsupported:query", query.message), false;
    workspace_bytes = query.support.workspace_bytes;
  }
  SharedTensors& outputs = made.outputs.emplace_back(problem, ATTEST_WRITE, workspace_bytes);
  outputs.seal_size();
  outputs.poison();
  const RunResult run = made.plugin.run(made.implementation, problem, derived.inputs, outputs);
  if (run.failure)
    return set(record, run.failure->verdict, run.failure->code, run.failure->reason), false;
  record.run_ns += run.run_ns;
  if (const std::string canary = outputs.broken_canary(); !canary.empty())
    return set(record, Verdict::kCrash, "crash:canary", canary), false;
  const SigmaTable* sigmas = nullptr;
  if (own_sigmas) {
    const Stopwatch watch(judging_s_);
    if (!derived.golden)
      derived.golden = problem.operation->golden(problem, Fill{}, derived.inputs.tensors());
    sigmas = &made.sigmas.emplace_back(problem, *derived.golden, made.arithmetic);
  }
  made.runs.push_back({problem, derived.inputs.tensors(), outputs.tensors(), sigmas});
  return true;
}

// Larger problems than the one that was asked for must not end in a timeout, nor in want of memory;
// false: they might.
bool RelationChecks::fits(const Relation& relation, const Made& made,
                          RelationRecord& record) const {
  double bytes = 0, longest_ns = 0;
  const double flops = problem_.operation->flops(problem_);
  for (const Problem& problem : relation.problems()) {
    const double growth = flops > 0 ? problem.operation->flops(problem) / flops : 1;
    bytes += min_bytes(problem) + growth * double(made.workspace_bytes);
    longest_ns = std::max(longest_ns, growth * made.run_ns);
  }
  const auto available = double(read_memory().available_bytes);
  if (bytes > available / 2)
    return set(record, Verdict::kSkipped, "skipped:memory",
               fmt::format("needs {:.3g} GB, {:.3g} GB are free", bytes * 1e-9, available * 1e-9)),
           false;
  if (longest_ns > kLongestRun_ns)
    return set(record, Verdict::kSkipped, "skipped:time",
               fmt::format("a run would take {:.3g} s", longest_ns * 1e-9)),
           false;
  return true;
}

RelationRecord RelationChecks::check(size_t index, Made& made) {
  const Relation& relation = *relations_[index];
  RelationRecord record{.relation = std::string(relation.name()) + suffix_};
  made.runs.clear(), made.outputs.clear(), made.sigmas.clear();
  if (!fits(relation, made, record)) return record;
  for (size_t run = 0; run < relation.problems().size(); ++run) {
    std::unique_ptr<Derived>& derived = derived_[index][run];
    if (!derived) {
      const Stopwatch watch(inputs_s_);
      derived = std::make_unique<Derived>(relation, run);
    }
    if (make_run(made, derived->problem, *derived, relation.own_sigmas(), record)) continue;
    if (is_bad(record.judgement.verdict))
      record.judgement.reason =
          fmt::format("{} (in a run for {})", record.judgement.reason, record.relation);
    return record;
  }
  const Stopwatch watch(judging_s_);
  if (!made.base_sigmas)
    made.base_sigmas = std::make_unique<SigmaTable>(problem_, base_.golden(), made.arithmetic);
  const RelationRun base{problem_, base_.shared().tensors(), made.base.tensors(),
                         made.base_sigmas.get()};
  record.judgement =
      judge_relation(relation, base, made.runs, !made.arithmetic.has(ATTEST_NONDETERMINISTIC));
  return record;
}

std::vector<RelationRecord> RelationChecks::run(Plugin& plugin,
                                                const Implementation& implementation,
                                                const Arithmetic& arithmetic,
                                                SharedTensors& outputs, bool all) {
  Made made{plugin, implementation, arithmetic, outputs};
  for (const Slot& slot : outputs.slots())
    if (slot.role == kWorkspaceRole) made.workspace_bytes = uint64_t(slot.data_bytes);
  std::vector<RelationRecord> records;
  if (relations_.empty()) return records;
  outputs.place(Side::kEnd);  // as in all other runs: where tensors lie may decide how a kernel
                              // cuts its loops
  outputs.poison();
  const RunResult run = plugin.run(implementation, problem_, base_.shared(), outputs);
  made.run_ns = run.run_ns;
  if (run.failure) {
    set(records.emplace_back(RelationRecord{.relation = "base"}), run.failure->verdict,
        run.failure->code, run.failure->reason);
    return records;
  }
  for (size_t index = 0; index < relations_.size(); ++index) {
    records.push_back(check(index, made));
    if (!keep_)
      for (auto& derived : derived_[index]) derived.reset();
    if (!all && is_bad(records.back().judgement.verdict)) break;
  }
  return records;
}

}  // namespace attest::core
