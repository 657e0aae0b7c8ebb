#include "core/run/runner.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/device/device_code.hpp"
#include "core/device/device_kinds.hpp"
#include "core/judge/guess.hpp"
#include "core/measure/machine/board/board.hpp"
#include "core/run/memory_room.hpp"
#include "core/run/outputs.hpp"
#include "core/tensor/constants.hpp"
#include "core/tensor/error.hpp"
#include "core/tensor/stopwatch.hpp"

namespace attest::core {
namespace {

// Judged once on each of two fills, timed at least twice.
constexpr int kLeastRuns = 4;
// A run that takes longer is judged on as many fills as this share of the case's limit allows, two
// at least.
constexpr double kSlowRun_ns = 1e9, kFillsShare = 0.75;
// Of a problem whose key permutation on `huge` costs a golden of some 30 ms
constexpr double kHugeFlops = 2e8;
constexpr std::string_view kHuge = "huge";  // the fill of extreme scores
constexpr std::string_view kKeyPermutation = "key-permutation";
// Some fifty runs of plan-reuse take seconds then, whatever is asked for
constexpr double kReusedRun_ns = 0.1e9;
// Of the memory that is available
constexpr double kCaseShare = 0.8;
// Of a device's memory; the rest is the driver's and the implementation's own
constexpr double kDeviceShare = 0.9;

// What the workspace holds before the run of fill `index`.
Leftover leftover(size_t index) { return kLeftovers[index % std::size(kLeftovers)]; }

}  // namespace

CaseRunner::CaseRunner(const Problem& problem, std::string spec, CaseLabel label,
                       const Tokens* tokens, const RunOptions& options, Rates& rates,
                       const Tensors* given)
    : problem_(problem),
      spec_(std::move(spec)),
      label_(std::move(label)),
      tokens_(tokens),
      given_(given),
      options_(options),
      rates_(rates),
      goldens_(options.golden_device) {
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

const PreparedInputs& CaseRunner::inputs(const std::string& fill) {
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

// It belongs to the problem and its inputs, whatever the implementation.
std::optional<double> CaseRunner::softmax_distance() {
  const std::string& first_fill = fills_.front();
  if (!given_ && first_fill != kTokensFill && first_fill != "random") return {};  // made to be odd
  if (!softmax_distance_) {
    const PreparedInputs& first = inputs(first_fill);
    const auto start = Clock::now();
    softmax_distance_ =
        problem_.operation->distance_from_softmax(problem_, first.shared().tensors());
    judging_s_ += seconds_since(start);
  }
  return *softmax_distance_;
}

Judgement CaseRunner::judge_outputs(const PreparedInputs& prepared, const Arithmetic& arithmetic,
                                    const SharedTensors& outputs) {
  return goldens_.of(prepared).use([&](const Golden& golden) {
    return judge(problem_, golden, arithmetic, outputs.tensors(), &prepared.shared().tensors());
  });
}

// Says where the outputs of a trial that failed are wrong. One guess is enough for a record.
void CaseRunner::explain(Judgement& judgement, const PreparedInputs& prepared, Trial& trial) {
  const Tensors& outputs = trial.outputs->tensors();
  set_locations(judgement, goldens_.of(prepared).use([&](const Golden& golden) {
    return locate_all(problem_, golden, trial.arithmetic, outputs);
  }));
  if (!judgement.location || trial.is_guessed) return;
  judgement.guess = guess_mistake(problem_, trial.arithmetic, prepared.shared().tensors(), outputs);
  trial.is_guessed = judgement.guess.has_value();
}

// Takes what is declared; a pass: the implementation takes the problem.
Outcome CaseRunner::admit(Trial& trial) {
  if (std::string why = refuses(trial.implementation, problem_); !why.empty())
    return {ReasonCode::kUnsupportedTable, std::move(why)};
  if (std::string why = device_code_missing(trial.plugin.path(), trial.implementation.device);
      !why.empty())
    return {ReasonCode::kUnsupportedKernel, std::move(why)};
  const QueryResult query = trial.plugin.query(trial.implementation, problem_);
  if (query.failure) return *query.failure;
  if (query.status == ATTEST_UNSUPPORTED)
    return {ReasonCode::kUnsupportedQuery,
            query.message.empty() ? "query gave no reason" : query.message};
  if (query.status != ATTEST_OK)
    return {ReasonCode::kErrorRuntime,
            fmt::format("query gave {}: {}", query.status, query.message)};
  if (!query.message.empty()) trial.record.notes.push_back(query.message);
  if (std::string wrong = wrong_declaration(*problem_.operation, query.support); !wrong.empty())
    return {ReasonCode::kErrorDeclaration, std::move(wrong)};
  trial.arithmetic = declared_arithmetic(query.support, main_output(problem_).dtype);
  trial.workspace_bytes = query.support.workspace_bytes;
  trial.record.arithmetic = print(*problem_.operation, trial.arithmetic);
  trial.record.memory.workspace_bytes = trial.workspace_bytes;
  if (std::string why = falls_short(*problem_.operation, trial.arithmetic, options_.least);
      !why.empty())
    return {ReasonCode::kUnsupportedArithmetic, std::move(why)};
  return {};
}

// Estimates time and memory. The reason of what does not fit has the figures.
Outcome CaseRunner::fits(const Trial& trial) const {
  Record& record = trial.record;
  const double tensor_bytes = min_bytes(problem_), flops = problem_.operation->flops(problem_);
  const auto workspace_bytes = double(trial.workspace_bytes);
  record.memory.tensor_bytes = tensor_bytes;
  // Tensors lie in shared memory and, while timed, in the worker's own; at most three fills are
  // kept.
  double bytes = tensor_bytes * 5 + workspace_bytes;
  const double rate = rates_.of(trial.implementation.name, Rates::kind_of(problem_));
  // A table for a device that is not known was refused.
  const DeviceKind& kind = *find_device_kind(trial.implementation.device);
  const double fastest =  // more is not tried
      kind.fastest_flops_per_ns * (kind.own_memory ? 1 : options_.limits.threads);
  const double run_ns = flops / (rate > 0 ? rate : fastest), run_s = run_ns * 1e-9;
  double on_device = workspace_bytes;
  if (kind.own_memory)
    for (const TensorSpec& spec : problem_.tensor)  // with the gaps between their elements
      if (present(spec)) on_device += double(extent(spec)) * double(dtype_bytes(spec.dtype));
  // The GPU of a Jetson has the host's memory.
  if (kind.own_memory && read_board()) bytes += on_device;
  record.estimated_bytes = bytes;
  record.estimated_ns = run_ns;

  Outcome room = fits_in_memory(bytes, kCaseShare, options_.limits.memory_bytes,
                                fmt::format("needs {} ({} of it declared workspace)",
                                            print_memory(bytes), print_memory(workspace_bytes)));
  if (!room.passes()) return room;
  if (kind.own_memory) {
    const double there = kDeviceShare * double(kind.facts().memory_bytes);
    if (on_device > there)
      return {ReasonCode::kSkippedMemory,
              fmt::format("needs {} of device memory; the limit is {}", print_memory(on_device),
                          print_memory(there))};
  }
  if (run_s > options_.limits.timeout_s || run_s * kLeastRuns > options_.limits.case_limit_s) {
    const std::string speed = rate > 0 ? fmt::format("at the {:.3g} GFLOP/s seen before", rate)
                                       : fmt::format("even at {:.3g} GFLOP/s", fastest);
    return {ReasonCode::kSkippedTime,
            fmt::format(
                "{:.3g} GFLOP take {:.3g} s a run {}; the limit is {:g} s for {} runs and {:g} s "
                "for one",
                flops * 1e-9, run_s, speed, options_.limits.case_limit_s, kLeastRuns,
                options_.limits.timeout_s)};
  }
  return {};
}

// Judges the outputs of a run and its side effects.
Judgement CaseRunner::judge_run(Trial& trial, const RunResult& run, const PreparedInputs& prepared,
                                FillRecord& fill) {
  MemoryRecord& memory = trial.record.memory;
  if (run.pool_peak_bytes) {
    memory.pool_peak_bytes = std::max(memory.pool_peak_bytes.value_or(0), *run.pool_peak_bytes);
    memory.unseen = find_device_kind(trial.implementation.device)->unseen;
  }
  if (run.peak_bytes) memory.peak_bytes = std::max(memory.peak_bytes.value_or(0), *run.peak_bytes);
  fill.run_ns = run.run_ns;
  Judgement judgement;
  {
    const Stopwatch watch(judging_s_);
    fill.outputs_hash = hash_outputs(problem_, trial.outputs->tensors());
    const auto start = Clock::now();
    judgement = judge_outputs(prepared, trial.arithmetic, *trial.outputs);
    if (options_.diagnosed && judgement.outcome.is_bad()) explain(judgement, prepared, trial);
    fill.golden_ns = nanoseconds_since(start);
  }
  if (const std::string& remark = goldens_.of(prepared).remark(); !remark.empty())
    trial.record.notes.push_back(fmt::format("{} (fill {})", remark, fill.fill));

  if (const std::optional<Outcome> late = trial.plugin.ended_since_reply(problem_))
    judgement.outcome = *late;
  else if (Outcome written = beyond_outputs(trial, prepared, fill); !written.passes())
    judgement.outcome = std::move(written);
  return judgement;
}

// Whether a run, or a thread that it left, wrote where or when it must not; a pass: nothing shows.
Outcome CaseRunner::beyond_outputs(const Trial& trial, const PreparedInputs& prepared,
                                   const FillRecord& fill) {
  const Stopwatch watch(judging_s_);
  if (hash_outputs(problem_, trial.outputs->tensors()) != fill.outputs_hash)
    return {ReasonCode::kCrashLateWrite, "an output changed while it was judged"};
  if (std::string canary = trial.outputs->broken_canary(); !canary.empty())
    return {ReasonCode::kCrashCanary, std::move(canary)};
  if (!prepared.unchanged()) return {ReasonCode::kCrashInputWritten, "an input was changed"};
  return {};
}

// Runs again on the inputs of a fill: as often as was asked for, or if it is the first of the
// record whose outputs are wrong.
void CaseRunner::repeat(Trial& trial, const PreparedInputs& prepared, FillRecord& fill) {
  Outcome& outcome = fill.judgement.outcome;
  const bool is_wrong =
      outcome.verdict() == Verdict::kFail || outcome.verdict() == Verdict::kSuspect;
  const bool has_outputs = !fill.outputs_hash.empty();
  const bool asks = options_.diagnosed && is_wrong && has_outputs && !trial.is_rerun;
  if (options_.reruns == 0 && !asks) return;
  Reruns reruns = rerun(
      trial, goldens_.of(prepared),
      {.inputs = prepared,
       .outputs_hash = fill.outputs_hash,
       .outcome = outcome,
       .outputs = has_outputs ? &trial.outputs->tensors() : nullptr,
       .side = side(fill.fill),
       .leftover = leftover(trial.fills.size())},
      options_.reruns == 0
          ? RerunCount{}
          : RerunCount{.most = options_.reruns, .most_s = kInfinity, .to_first_difference = false},
      judging_s_);
  if (reruns.record.runs == 0) return;
  if (!reruns.outcome.passes()) outcome = std::move(reruns.outcome);
  fill.reruns = std::move(reruns.record);
  trial.is_rerun = true;
}

// A check after the fills has shown wrong outputs. Whether the runs of the first fill agree says
// more of it.
void CaseRunner::repeat_passed(Trial& trial) {
  const FillRun& fill = trial.fills.front();
  if (!fill.outcome.passes() || trial.is_rerun) return;
  const PreparedInputs& first = inputs(fills_.front());
  Reruns reruns = rerun(trial, goldens_.of(first),
                        {.inputs = first,
                         .outputs_hash = fill.outputs_hash,
                         .outcome = fill.outcome,
                         .side = side(fills_.front()),
                         .leftover = leftover(0)},
                        {}, judging_s_);
  if (reruns.record.differing() > 0) trial.record.fills.front().reruns = std::move(reruns.record);
}

// Runs and judges one fill.
Outcome CaseRunner::judge_fill(Trial& trial, const std::string& name) {
  const PreparedInputs& prepared = inputs(name);
  FillRecord fill{.fill = name, .seed = hex(prepared.fill().seed), .inputs_hash = prepared.hash()};
  trial.outputs->place(side(name));
  trial.outputs->poison(leftover(trial.fills.size()));
  // Later runs find what the runs before have left, as they would in any other program.
  const bool trims = trial.fills.empty();
  const RunResult run =
      trial.plugin.run(trial.implementation, problem_, prepared.shared(), *trial.outputs, trims);
  if (run.failure)
    fill.judgement.outcome = *run.failure;
  else
    fill.judgement = judge_run(trial, run, prepared, fill);
  if (options_.observer)
    options_.observer({.implementation = trial.implementation,
                       .fill = fill,
                       .arithmetic = trial.arithmetic,
                       .inputs = prepared,
                       .golden = goldens_.of(prepared),
                       .outputs = run.failure ? nullptr : &trial.outputs->tensors()});
  repeat(trial, prepared, fill);
  trial.fills.push_back({fill.run_ns, fill.inputs_hash, fill.outputs_hash, fill.judgement.outcome});

  Record& record = trial.record;
  record.max_ratio = std::max(record.max_ratio, fill.judgement.max_ratio);
  record.rms_ratio = std::max(record.rms_ratio, fill.judgement.rms_ratio);
  record.fills.push_back(std::move(fill));
  return trial.fills.back().outcome;
}

bool enough_fills(std::span<const FillRun> judged, double case_limit_s) {
  if (judged.size() < 2 || judged.back().run_ns <= kSlowRun_ns) return false;
  double ns = judged.back().run_ns;  // the next one's
  for (const FillRun& run : judged) ns += run.run_ns;
  return ns * 1e-9 > kFillsShare * case_limit_s;
}

void CaseRunner::judge_fills(Trial& trial) {
  for (const std::string& name : fills_) {
    if (options_.timed && options_.fills.empty() &&
        enough_fills(trial.fills, options_.limits.case_limit_s)) {
      const size_t judged = trial.fills.size();
      trial.record.notes.push_back(fmt::format(
          "a run takes {:.3g} s: judged on {} of {} fills, not on {} (--fill all has time)",
          trial.fills.back().run_ns * 1e-9, judged, fills_.size(),
          fmt::join(fills_.begin() + std::ptrdiff_t(judged), fills_.end(), ", ")));
      return;
    }
    Outcome outcome = judge_fill(trial, name);
    if (outcome.passes()) {
      rates_.note(trial.implementation.name, Rates::kind_of(problem_),
                  problem_.operation->flops(problem_), trial.fills.back().run_ns);
      continue;
    }
    outcome.reason += fmt::format(" (fill {})", name);
    trial.note(std::move(outcome));
    if (!options_.all_checks) return;
  }
}

// What takes turns with the first fill's inputs when a plan runs again and again. All fills have
// the same integers, so inputs that have some get others here.
const PreparedInputs* CaseRunner::other_inputs(const Trial& trial) {
  const bool has_integers = std::ranges::any_of(problem_.operation->roles(), [&](const Role& role) {
    return role.access == ATTEST_READ && role.dtype == ATTEST_I32 && problem_.has(role.index);
  });
  if (given_ || !has_integers) return trial.fills.size() > 1 ? &inputs(fills_[1]) : nullptr;
  if (!other_tables_) {
    const Stopwatch watch(inputs_s_);
    const Fill fill{problem_.operation->fills(problem_).front(), spec_seed(spec_) + 1, true};
    other_tables_ = std::make_unique<PreparedInputs>(problem_, fill, nullptr);
  }
  return other_tables_.get();
}

// One plan that runs again and again.
RelationRecord CaseRunner::check_repetition(const Trial& trial) {
  if (!repetition_)
    repetition_ = std::make_unique<Repetition>(problem_, inputs(fills_.front()),
                                               other_inputs(trial), goldens_);
  const double run_ns = trial.quickest_run_ns();
  const bool quick = wants_relations(options_.relations, problem_, run_ns),
             has_extreme = quick && trial.workspace_bytes > 0 && fills_.front() != kHuge &&
                           std::ranges::find(fills_, kHuge) != fills_.end();
  return repetition_->run(trial, {.runs = repeated_runs(run_ns, options_.limits.budget_ns(),
                                                        options_.relations == RelationChoice::kAll),
                                  .quick = quick,
                                  .extreme = has_extreme ? &inputs(std::string(kHuge)) : nullptr});
}

// One plan that runs again with one tensor changed.
RelationRecord CaseRunner::check_changed_tensors(const Trial& trial) {
  if (!changed_tensors_)
    changed_tensors_ = std::make_unique<ChangedTensors>(
        problem_, inputs(fills_.front()), spec_seed(spec_), options_.limits.budget_ns(), goldens_);
  return changed_tensors_->run(
      trial, wants_relations(options_.relations, problem_, trial.quickest_run_ns()));
}

bool CaseRunner::is_wanted(std::string_view relation) const {
  return options_.only_relation.empty() || options_.only_relation == relation;
}

// On the first fill that relations hold on; null: there is none.
RelationChecks* CaseRunner::first_relations() {
  const auto first = std::ranges::find_if(fills_, [this](const std::string& fill) {
    return problem_.operation->relations_hold_on(fill);
  });
  if (first == fills_.end()) return nullptr;
  if (!relations_)
    relations_ = std::make_unique<RelationChecks>(problem_, inputs(*first), goldens_,
                                                  options_.only_relation, false);
  return relations_.get();
}

// Key permutation on the fill whose logits rise furthest, where the problem has it and relations
// are on another one.
RelationChecks* CaseRunner::huge_relations() {
  if (!is_wanted(kKeyPermutation)) return nullptr;
  if (options_.relations != RelationChoice::kAll &&
      problem_.operation->flops(problem_) > kHugeFlops)
    return nullptr;
  if (fills_.front() == kHuge || std::find(fills_.begin(), fills_.end(), kHuge) == fills_.end())
    return nullptr;
  if (!huge_relations_)
    huge_relations_ = std::make_unique<RelationChecks>(problem_, inputs(std::string(kHuge)),
                                                       goldens_, kKeyPermutation, true);
  return huge_relations_.get();
}

// Keeps what a relation has shown; false: no further check is wanted.
bool CaseRunner::goes_on(Trial& trial, RelationRecord relation) const {
  const Outcome outcome = relation.judgement.outcome;
  trial.is_rerun = trial.is_rerun || relation.reruns.has_value();
  trial.record.relations.push_back(std::move(relation));
  if (!outcome.is_bad()) return true;
  trial.note(outcome);
  return options_.all_checks;
}

// Relations between runs, as far as they are wanted.
void CaseRunner::check_relations(Trial& trial) {
  const bool all = options_.relations == RelationChoice::kAll;
  if (options_.relations == RelationChoice::kNone) return;
  if (given_ && !all) return;  // a vector says itself what is right
  if (is_wanted(kRepetition) && !goes_on(trial, check_repetition(trial))) return;
  if (is_wanted(kChangedTensor) && !goes_on(trial, check_changed_tensors(trial))) return;
  const double run_ns = trial.quickest_run_ns();
  if (!wants_relations(options_.relations, problem_, run_ns)) return;
  for (RelationChecks* checks : {first_relations(), huge_relations()}) {
    if (!checks) continue;
    for (RelationRecord& relation : checks->run(trial, options_.all_checks))
      if (!goes_on(trial, std::move(relation))) return;
  }
  if (run_ns > kReusedRun_ns || !is_wanted(kPlanReuse)) return;
  if (!plan_reuse_)
    plan_reuse_ = std::make_unique<PlanReuse>(problem_, spec_seed(spec_), options_.diagnosed);
  if (std::optional<RelationRecord> reuse =
          plan_reuse_->run(trial.plugin, trial.implementation, all))
    goes_on(trial, std::move(*reuse));
}

double CaseRunner::inputs_s() const {
  return inputs_s_ + (relations_ ? relations_->inputs_s() : 0) +
         (huge_relations_ ? huge_relations_->inputs_s() : 0) +
         (repetition_ ? repetition_->inputs_s() : 0) +
         (changed_tensors_ ? changed_tensors_->inputs_s() : 0) +
         (plan_reuse_ ? plan_reuse_->inputs_s() : 0);
}
double CaseRunner::judging_s() const {
  return judging_s_ + (relations_ ? relations_->judging_s() : 0) +
         (huge_relations_ ? huge_relations_->judging_s() : 0) +
         (repetition_ ? repetition_->judging_s() : 0) +
         (changed_tensors_ ? changed_tensors_->judging_s() : 0) +
         (plan_reuse_ ? plan_reuse_->judging_s() : 0);
}

void describe_implementation(Record& record, const Implementation& implementation) {
  record.impl = implementation.name;
  record.impl_version = implementation.version;
  record.plugin = implementation.plugin;
  record.plugin_hash = hex(implementation.binary_hash);
  const DeviceKind* kind = find_device_kind(implementation.device);
  record.device = kind ? kind->name : "unknown";
}

Record CaseRunner::blank_record(const Implementation& implementation) const {
  Record record;
  describe_implementation(record, implementation);
  record.suite = label_.suite;
  record.case_name = label_.case_name;
  record.inputs = label_.inputs;
  record.source = label_.source;
  record.spec = spec_;
  record.operation = problem_.operation->name();
  record.dtype = dtype_name(problem_.dtype);
  record.features = print_features(problem_.features);
  record.threads = options_.limits.threads;
  record.flops = problem_.operation->flops(problem_);
  record.min_bytes = min_bytes(problem_);
  return record;
}

void CaseRunner::name_fills(Record& record) const {
  for (const std::string& fill : fills_) {
    record.fills.emplace_back();
    record.fills.back().fill = fill;
  }
}

Record CaseRunner::run(Plugin& plugin, const Implementation& implementation) {
  Record record = blank_record(implementation);
  if (fills_.empty()) {
    record.outcome = {ReasonCode::kSkippedFill,
                      fmt::format("has no such fill, but: {}", fmt::join(all_fills_, ", "))};
    return record;
  }
  Trial trial{plugin, implementation, record};
  Outcome outcome = admit(trial);
  if (outcome.passes()) outcome = fits(trial);
  if (!outcome.passes() || options_.dry_run) {
    if (outcome.passes()) name_fills(record);
    record.outcome = std::move(outcome);
    return record;
  }
  trial.outputs = std::make_unique<SharedTensors>(problem_, ATTEST_WRITE, trial.workspace_bytes);
  judge_fills(trial);
  record.softmax_distance = softmax_distance();
  if (trial.outcome.passes() || options_.all_checks) check_relations(trial);
  measure(trial);
  if (options_.diagnosed && trial.outcome.verdict() == Verdict::kFail) repeat_passed(trial);
  if (const std::optional<Outcome> late = plugin.settle(problem_)) trial.note(*late);
  record.outcome = trial.outcome;
  if (const uint64_t hash = trial.is_timed ? plugin.libraries_hash() : 0)
    record.libraries_hash = hex(hash);
  for (std::string& note : plugin.habits()) record.notes.push_back(std::move(note));
  return record;
}

}  // namespace attest::core
