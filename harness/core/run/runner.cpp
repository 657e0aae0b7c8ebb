#include "core/run/runner.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/device/device_kinds.hpp"
#include "core/measure/memory.hpp"
#include "core/run/runner_parts.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

// Judged once on each of two fills, timed at least twice.
constexpr int kLeastRuns = 4;
// A run that takes longer is judged on as many fills as this share of the case's limit allows, two
// at least.
constexpr double kSlowRun_ns = 1e9, kFillsShare = 0.75;
// Of a problem whose key permutation on `huge` costs a golden of some 30 ms
constexpr double kHugeFlops = 2e8;
// Some fifty runs of plan-reuse take seconds then, whatever is asked for
constexpr double kReusedRun_ns = 0.1e9;
// Of its memory; the rest is the driver's and the implementation's own
constexpr double kDeviceShare = 0.9;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Of the quickest fill: another process may have slowed down any one run.
double quickest_run_ns(const Record& record) {
  const auto quicker = [](const FillRecord& a, const FillRecord& b) { return a.run_ns < b.run_ns; };
  return std::min_element(record.fills.begin(), record.fills.end(), quicker)->run_ns;
}

std::string gibibytes(double bytes) { return fmt::format("{:.3g} GiB", bytes / double(1u << 30)); }

}  // namespace

const TensorSpec& main_output(const Problem& problem) {
  for (const Role& role : problem.operation->roles())
    if (is_output(role) && role.required) return problem.tensor[size_t(role.index)];
  throw Error(fmt::format("{} has no required output", problem.operation->name()));
}

std::string hash_outputs(const Problem& problem, const Tensors& tensors) {
  uint64_t hash = 0;
  for (const Role& role : problem.operation->roles()) {
    if (!is_output(role) || !tensors[size_t(role.index)]) continue;
    const uint64_t pair[] = {hash, hash_tensor(tensors[size_t(role.index)])};
    hash = hash_bytes(pair, sizeof(pair));
  }
  return hex(hash);
}

double Rates::of(const std::string& implementation, const std::string& kind) const {
  for (const std::string& key : {implementation + "/" + kind, implementation})
    if (const auto at = best_.find(key); at != best_.end()) return at->second;
  return 0;
}

void Rates::note(const std::string& implementation, const std::string& kind, double flops,
                 double run_ns) {
  if (flops < 1e7 || run_ns <= 0) return;
  for (const std::string& key : {implementation + "/" + kind, implementation})
    best_[key] = std::max(best_[key], flops / run_ns);
}

CaseRunner::CaseRunner(const Problem& problem, std::string spec, CaseLabel label,
                       const Tokens* tokens, const RunOptions& options, Rates& rates,
                       const Tensors* given)
    : problem_(problem),
      spec_(std::move(spec)),
      label_(std::move(label)),
      tokens_(tokens),
      given_(given),
      options_(options),
      rates_(rates) {
  all_fills_ =
      given ? std::vector{std::string(kGivenFill)} : known_fills(problem, tokens != nullptr);
  auto unwanted = [&, more = problem.operation->more_fills(problem)](const std::string& name) {
    const std::vector<std::string>& named = options.fills.empty() ? more : options.fills;
    return (std::find(named.begin(), named.end(), name) != named.end()) == options.fills.empty();
  };
  fills_ = all_fills_;
  if (std::find(options.fills.begin(), options.fills.end(), kAllFills) == options.fills.end())
    std::erase_if(fills_, unwanted);
}

// Fills lie at the end and at the front of their memory in turn.
Side CaseRunner::side(const std::string& fill) const {
  return (std::find(fills_.begin(), fills_.end(), fill) - fills_.begin()) % 2 == 0 ? Side::kEnd
                                                                                   : Side::kFront;
}

PreparedInputs& CaseRunner::inputs(const std::string& fill) {
  std::unique_ptr<PreparedInputs>& prepared = prepared_[fill];
  if (!prepared) {
    const auto start = Clock::now();
    prepared = given_ ? std::make_unique<PreparedInputs>(problem_, *given_)
                      : std::make_unique<PreparedInputs>(problem_, Fill{fill, spec_seed(spec_)},
                                                         tokens_, side(fill));
    inputs_s_ += seconds_since(start);
  }
  return *prepared;
}

Judgement CaseRunner::judge_outputs(PreparedInputs& prepared, const Arithmetic& arithmetic,
                                    const SharedTensors& outputs, double& golden_ns) {
  const auto start = Clock::now();
  const Judgement judgement = judge(problem_, prepared.golden(options_.golden_device), arithmetic,
                                    outputs.tensors(), &prepared.shared().tensors());
  golden_ns = seconds_since(start) * 1e9;
  judging_s_ += golden_ns * 1e-9;
  return judgement;
}

// Fills `record.arithmetic` and the declared workspace; false: the record has its verdict.
bool CaseRunner::admit(Plugin& plugin, const Implementation& implementation, Record& record,
                       Arithmetic& arithmetic) {
  if (const std::string why = refuses(implementation, problem_); !why.empty())
    return set_verdict(record, Verdict::kUnsupported, "unsupported:table", why), false;
  const QueryResult query = plugin.query(implementation, problem_);
  if (query.failure)
    return set_verdict(record, query.failure->verdict, query.failure->code, query.failure->reason),
           false;
  if (query.status == ATTEST_UNSUPPORTED)
    return set_verdict(record, Verdict::kUnsupported, "unsupported:query",
                       query.message.empty() ? "query gave no reason" : query.message),
           false;
  if (query.status != ATTEST_OK)
    return set_verdict(record, Verdict::kError, "error:runtime",
                       fmt::format("query gave {}: {}", query.status, query.message)),
           false;
  if (const std::string wrong = wrong_declaration(query.support); !wrong.empty())
    return set_verdict(record, Verdict::kError, "error:declaration", wrong), false;
  arithmetic = declared_arithmetic(query.support, main_output(problem_).dtype);
  record.arithmetic = print(arithmetic);
  record.memory.workspace_bytes = query.support.workspace_bytes;
  if (const std::string why = falls_short(arithmetic, options_.least); !why.empty())
    return set_verdict(record, Verdict::kUnsupported, "unsupported:arithmetic", why), false;
  return true;
}

// Estimates time and memory; false: it cannot fit, and the record says so with the figures.
bool CaseRunner::fits(const Implementation& implementation, Record& record) {
  record.memory.tensor_bytes = record.min_bytes;
  // Tensors lie in shared memory and, while timed, in the worker's own; at most three fills are
  // kept.
  record.estimated_bytes = record.min_bytes * 5 + double(record.memory.workspace_bytes);
  const double rate = rates_.of(implementation.name, record.dtype + record.features);
  const DeviceKind& kind =
      *find_device_kind(implementation.device);  // a table of another one was refused
  const double fastest = kind.fastest_flops_per_ns *
                         (kind.own_memory ? 1 : options_.limits.threads);  // more is not tried
  record.estimated_ns = record.flops / (rate > 0 ? rate : fastest);
  const double memory = 0.8 * double(read_memory().available_bytes);
  if (record.estimated_bytes > memory) {
    set_verdict(record, Verdict::kSkipped, "skipped:memory",
                fmt::format("needs {} ({} of it declared workspace), {} may be used",
                            gibibytes(record.estimated_bytes),
                            gibibytes(double(record.memory.workspace_bytes)), gibibytes(memory)));
    return false;
  }
  if (kind.own_memory) {
    double needed = double(record.memory.workspace_bytes);
    for (const TensorSpec& spec : problem_.tensor)  // with the gaps between their elements
      if (present(spec)) needed += double(extent(spec)) * double(dtype_bytes(spec.dtype));
    const double there = kDeviceShare * double(kind.facts().memory_bytes);
    if (needed > there)
      return set_verdict(record, Verdict::kSkipped, "skipped:memory",
                         fmt::format("needs {} of the device's memory, {} may be used",
                                     gibibytes(needed), gibibytes(there))),
             false;
  }
  const double run_s = record.estimated_ns * 1e-9;
  if (run_s > options_.limits.timeout_s || run_s * kLeastRuns > options_.limits.case_limit_s) {
    const std::string speed = rate > 0 ? fmt::format("at the {:.3g} GFLOP/s seen before", rate)
                                       : fmt::format("even at {:.3g} GFLOP/s", fastest);
    set_verdict(
        record, Verdict::kSkipped, "skipped:time",
        fmt::format("{:.3g} GFLOP take {:.3g} s a run {}; {} runs may take {:g} s, one run {:g} s",
                    record.flops * 1e-9, run_s, speed, kLeastRuns, options_.limits.case_limit_s,
                    options_.limits.timeout_s));
    return false;
  }
  return true;
}

// Runs and judges one fill; notes time, memory and ratios in `record`, but no verdict.
FillRecord CaseRunner::judge_fill(Plugin& plugin, const Implementation& implementation,
                                  const Arithmetic& arithmetic, SharedTensors& outputs,
                                  const std::string& name, Record& record) {
  PreparedInputs& prepared = inputs(name);
  FillRecord fill{.fill = name, .seed = hex(prepared.fill().seed), .inputs_hash = prepared.hash()};
  Judgement& judgement = fill.judgement;
  outputs.place(side(name));
  outputs.poison(kLeftovers[record.fills.size() % std::size(kLeftovers)]);
  const RunResult run = plugin.run(implementation, problem_, prepared.shared(), outputs);
  if (run.failure) {
    judgement.verdict = run.failure->verdict, judgement.code = run.failure->code,
    judgement.reason = run.failure->reason;
    return fill;
  }
  fill.run_ns = run.run_ns;
  if (run.pool_peak_bytes) {
    record.memory.pool_peak_bytes =
        std::max(record.memory.pool_peak_bytes.value_or(0), *run.pool_peak_bytes);
    record.memory.unseen = find_device_kind(implementation.device)->unseen;
  }
  if (run.peak_bytes)
    record.memory.peak_bytes = std::max(record.memory.peak_bytes.value_or(0), *run.peak_bytes);
  fill.outputs_hash = hash_outputs(problem_, outputs.tensors());
  judgement = judge_outputs(prepared, arithmetic, outputs, fill.golden_ns);
  if (const std::string remark = prepared.golden().remark(); !remark.empty())
    record.notes.push_back(fmt::format("{} (fill {})", remark, name));
  if (const std::optional<Failure> late = plugin.settle(problem_))
    judgement.verdict = late->verdict, judgement.code = late->code, judgement.reason = late->reason;
  else if (hash_outputs(problem_, outputs.tensors()) != fill.outputs_hash)
    judgement.verdict = Verdict::kCrash, judgement.code = "crash:late-write",
    judgement.reason = "an output changed while it was judged";
  else if (const std::string canary = outputs.broken_canary(); !canary.empty())
    judgement.verdict = Verdict::kCrash, judgement.code = "crash:canary", judgement.reason = canary;
  else if (!prepared.unchanged())
    judgement.verdict = Verdict::kCrash, judgement.code = "crash:input-written",
    judgement.reason = "an input was changed";
  record.max_ratio = std::max(record.max_ratio, judgement.max_ratio);
  record.rms_ratio = std::max(record.rms_ratio, judgement.rms_ratio);
  return fill;
}

bool enough_fills(std::span<const FillRecord> judged, double case_limit_s) {
  if (judged.size() < 2 || judged.back().run_ns <= kSlowRun_ns) return false;
  double ns = judged.back().run_ns;  // the next one's
  for (const FillRecord& fill : judged) ns += fill.run_ns;
  return ns * 1e-9 > kFillsShare * case_limit_s;
}

// Runs and judges every fill; false where one does not pass, with the record's verdict set by the
// first of them.
bool CaseRunner::judge_fills(Plugin& plugin, const Implementation& implementation,
                             const Arithmetic& arithmetic, SharedTensors& outputs, Record& record) {
  record.verdict = Verdict::kPass;
  for (const std::string& name : fills_) {
    if (options_.timed && options_.fills.empty() &&
        enough_fills(record.fills, options_.limits.case_limit_s)) {
      record.notes.push_back(fmt::format(
          "a run takes {:.3g} s: judged on {} of {} fills, not on {} (--fill all has time)",
          record.fills.back().run_ns * 1e-9, record.fills.size(), fills_.size(),
          fmt::join(fills_.begin() + std::ptrdiff_t(record.fills.size()), fills_.end(), ", ")));
      break;
    }
    record.fills.push_back(judge_fill(plugin, implementation, arithmetic, outputs, name, record));
    const FillRecord& fill = record.fills.back();
    if (fill.judgement.verdict == Verdict::kPass) {
      rates_.note(implementation.name, record.dtype + record.features, record.flops, fill.run_ns);
      continue;
    }
    if (record.verdict == Verdict::kPass)
      set_verdict(record, fill.judgement.verdict, fill.judgement.code,
                  fmt::format("{} (fill {})", fill.judgement.reason, name));
    if (!options_.all_checks) return false;
  }
  return record.verdict == Verdict::kPass;
}

// One plan that runs again and again; false: the record has its verdict.
bool CaseRunner::check_repetition(Plugin& plugin, const Implementation& implementation,
                                  const Arithmetic& arithmetic, SharedTensors& outputs,
                                  Record& record) {
  const double run_ns = quickest_run_ns(record);
  const int runs = repeated_runs(run_ns, options_.relations == RelationChoice::kAll);
  const bool more = record.fills.size() > 1;
  if (!repetition_) {
    PreparedInputs* other = more ? &inputs(record.fills[1].fill) : nullptr;
    repetition_ = std::make_unique<Repetition>(problem_, inputs(fills_.front()), other);
  }
  record.relations.push_back(
      repetition_->run({.plugin = plugin,
                        .implementation = implementation,
                        .arithmetic = arithmetic,
                        .outputs = outputs,
                        .workspace_bytes = record.memory.workspace_bytes,
                        .run_ns = run_ns,
                        .runs = runs,
                        .quick = wants_relations(options_.relations, problem_, run_ns),
                        .base_hash = record.fills[0].outputs_hash,
                        .other_hash = more ? record.fills[1].outputs_hash : ""}));
  return note_relation(record);
}

// The last relation's verdict becomes the record's where it is bad; false: it is.
bool CaseRunner::note_relation(Record& record) const {
  const Judgement& judgement = record.relations.back().judgement;
  if (!is_bad(judgement.verdict)) return true;
  if (record.verdict == Verdict::kPass)
    set_verdict(record, judgement.verdict, judgement.code, judgement.reason);
  return false;
}

// On the first fill whose rows can be compared, or null: rows of NaN have no relation to others.
RelationChecks* CaseRunner::first_relations() {
  const auto is_tame = [](const std::string& fill) { return fill != "wild"; };
  const auto tame = std::ranges::find_if(fills_, is_tame);
  if (tame == fills_.end()) return nullptr;
  if (!relations_) relations_ = std::make_unique<RelationChecks>(problem_, inputs(*tame));
  return relations_.get();
}

// Key permutation on the fill whose logits rise furthest, where the problem has it and relations
// are on another one.
RelationChecks* CaseRunner::huge_relations() {
  constexpr std::string_view kHuge = "huge";
  if (options_.relations != RelationChoice::kAll &&
      problem_.operation->flops(problem_) > kHugeFlops)
    return nullptr;
  if (fills_.front() == kHuge || std::find(fills_.begin(), fills_.end(), kHuge) == fills_.end())
    return nullptr;
  if (!huge_relations_)
    huge_relations_ =
        std::make_unique<RelationChecks>(problem_, inputs(std::string(kHuge)), "key-permutation");
  return huge_relations_.get();
}

// Relations between runs, as far as they are wanted; false where one does not hold.
bool CaseRunner::check_relations(Plugin& plugin, const Implementation& implementation,
                                 const Arithmetic& arithmetic, SharedTensors& outputs,
                                 Record& record) {
  if (options_.relations == RelationChoice::kNone) return true;
  if (given_ && options_.relations != RelationChoice::kAll)
    return true;  // a vector says itself what is right
  bool right = check_repetition(plugin, implementation, arithmetic, outputs, record);
  if (!right && !options_.all_checks) return false;
  const double run_ns = quickest_run_ns(record);
  if (!wants_relations(options_.relations, problem_, run_ns)) return right;
  for (RelationChecks* checks : {first_relations(), huge_relations()}) {
    if (!checks) continue;
    for (RelationRecord& relation :
         checks->run(plugin, implementation, arithmetic, outputs, options_.all_checks)) {
      record.relations.push_back(std::move(relation));
      right &= note_relation(record);
      if (!right && !options_.all_checks) return false;
    }
  }
  if (run_ns > kReusedRun_ns) return right;
  if (!plan_reuse_) plan_reuse_ = std::make_unique<PlanReuse>(problem_, spec_seed(spec_));
  const bool again = options_.relations == RelationChoice::kAll;
  if (const std::unique_ptr<RelationRecord> reuse =
          plan_reuse_->run(plugin, implementation, again)) {
    record.relations.push_back(*reuse);
    right &= note_relation(record);
  }
  return right;
}

double CaseRunner::inputs_s() const {
  return inputs_s_ + (relations_ ? relations_->inputs_s() : 0) +
         (huge_relations_ ? huge_relations_->inputs_s() : 0) +
         (repetition_ ? repetition_->inputs_s() : 0) + (plan_reuse_ ? plan_reuse_->inputs_s() : 0);
}
double CaseRunner::judging_s() const {
  return judging_s_ + (relations_ ? relations_->judging_s() : 0) +
         (huge_relations_ ? huge_relations_->judging_s() : 0) +
         (repetition_ ? repetition_->judging_s() : 0) +
         (plan_reuse_ ? plan_reuse_->judging_s() : 0);
}

Record CaseRunner::run(Plugin& plugin, const Implementation& implementation) {
  Record record;
  record.suite = label_.suite, record.case_name = label_.case_name, record.inputs = label_.inputs,
  record.source = label_.source, record.spec = spec_;
  record.impl = implementation.name, record.impl_version = implementation.version,
  record.plugin = implementation.plugin, record.plugin_hash = hex(implementation.binary_hash);
  record.operation = problem_.operation->name(), record.dtype = dtype_name(problem_.dtype),
  record.features = print_features(problem_.features);
  const DeviceKind* kind = find_device_kind(implementation.device);
  record.device = kind ? kind->name : "unknown", record.threads = options_.limits.threads;
  record.flops = problem_.operation->flops(problem_), record.min_bytes = min_bytes(problem_);

  if (fills_.empty()) {
    set_verdict(record, Verdict::kSkipped, "skipped:fill",
                fmt::format("has no such fill, but: {}", fmt::join(all_fills_, ", ")));
    return record;
  }
  Arithmetic arithmetic;
  if (!admit(plugin, implementation, record, arithmetic) || !fits(implementation, record))
    return record;
  SharedTensors outputs(problem_, ATTEST_WRITE, record.memory.workspace_bytes);
  outputs.seal_size();
  const bool right = judge_fills(plugin, implementation, arithmetic, outputs, record);
  if ((right || options_.all_checks) &&
      check_relations(plugin, implementation, arithmetic, outputs, record) && right &&
      options_.timed)
    time(plugin, implementation, arithmetic, outputs, record);
  if (const std::optional<Failure> late = plugin.settle(problem_);
      late && record.verdict == Verdict::kPass)
    set_verdict(record, late->verdict, late->code, late->reason);
  if (const uint64_t hash = record.time ? plugin.libraries_hash() : 0)
    record.libraries_hash = hex(hash);
  for (std::string& note : plugin.habits()) record.notes.push_back(std::move(note));
  return record;
}

}  // namespace attest::core
