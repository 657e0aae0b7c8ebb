// The timed part of the runner: samples, and the audit of the runs that they come from.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/device/device_kinds.hpp"
#include "core/measure/machine/machine_state.hpp"
#include "core/run/outputs.hpp"
#include "core/run/runner.hpp"
#include "core/statistics/statistics.hpp"
#include "core/tensor/random.hpp"
#include "core/tensor/stopwatch.hpp"

namespace attest::core {
namespace {

// Of the budget of timed runs: a golden for altered inputs, which all implementations share, may
// take so much.
constexpr double kGoldenShare = 0.1;

// Whether what `worst` found wrong in an output is, bit by bit, what `other` has there.
bool is_from(const Problem& problem, const std::optional<Mismatch>& worst, const Tensors& own,
             const Tensors& other) {
  const Role* role = worst ? find_role(*problem.operation, worst->tensor) : nullptr;
  if (!role) return false;
  const Tensor &mine = own[size_t(role->index)], &theirs = other[size_t(role->index)];
  int64_t offset = 0;
  for (size_t i = 0; i < worst->index.size(); ++i) offset += worst->index[i] * mine.spec.stride[i];
  const size_t width = dtype_bytes(mine.spec.dtype);
  return std::memcmp(static_cast<const char*>(mine.data) + offset * int64_t(width),
                     static_cast<const char*>(theirs.data) + offset * int64_t(width), width) == 0;
}

TimeRecord summary_of(const TimeResult& timed) {
  const Summary warm = summarise(timed.samples_ns);
  std::optional<DeviceTimeRecord> device;
  if (timed.device) device = DeviceTimeRecord{*timed.device, {}, {}};
  return {
      .samples_ns = timed.samples_ns,
      .cold_samples_ns = timed.cold_samples_ns,
      .iterations_per_sample = timed.iterations_per_sample,
      .median_ns = warm.median,
      .q1_ns = warm.q1,
      .q3_ns = warm.q3,
      .min_ns = warm.min,
      .max_ns = warm.max,
      .median_low_ns = warm.median_low,
      .median_high_ns = warm.median_high,
      .coverage = warm.coverage,
      .cold_median_ns = timed.cold_samples_ns.empty() ? 0 : summarise(timed.cold_samples_ns).median,
      .warmup_ns = timed.warmup_ns,
      .create_ns = timed.create_ns,
      .audited_runs = timed.audited_runs,
      .audits_ns = timed.audits_ns,
      .audit_seed = {},
      .device = device,
      .usage = timed.usage};
}

void add_noise(Record& record, const std::vector<std::string>& reasons) {
  for (const std::string& reason : reasons) {
    if (!record.noisy) record.noisy.emplace();
    if (std::ranges::find(*record.noisy, reason) != record.noisy->end()) continue;
    record.noisy->push_back(reason);
    record.notes.push_back(reason);
  }
}

void add_board(Record& record, const BoardState& before, const BoardState& after) {
  BoardFacts first = changing_facts(before), last = changing_facts(after);
  BoardRecord board{.before = std::move(first.known),
                    .after = std::move(last.known),
                    .missing = std::move(first.missing),
                    .over_current = {}};
  board.missing.merge(last.missing);
  const BoardChanges changed = changes(before, after);
  for (const auto& [event, times] : changed.over_current)
    board.over_current[std::to_string(event)] = times;
  record.board = std::move(board);
  add_noise(record, changed.doubts);
  record.notes.insert(record.notes.end(), changed.remarks.begin(), changed.remarks.end());
}

}  // namespace

// Inputs that differ from the first fill's in a few rows where their golden costs little, so that
// whoever looks at some of the inputs misses the change; else another fill that was judged.
const PreparedInputs* CaseRunner::second_inputs(const Trial& trial) {
  const PreparedInputs& first = inputs(fills_.front());
  const bool closed_form = first.fill().name != "random" && first.fill().name != kTokensFill;
  if (!closed_form && goldens_.of(first).seconds() < kGoldenShare * options_.limits.budget_s) {
    const Stopwatch watch(inputs_s_);
    if (!altered_) altered_ = std::make_unique<PreparedInputs>(first, unpredictable_seed());
    return altered_.get();
  }
  return trial.fills.size() > 1 ? &inputs(fills_[1]) : nullptr;
}

CaseRunner::AuditSet::AuditSet(CaseRunner& runner, Trial& trial)
    : first_(runner.inputs(runner.fills_.front())),
      second_(runner.second_inputs(trial)),
      outputs_(*trial.outputs),
      differing_(runner.problem_, ATTEST_WRITE),
      second_outputs_(runner.problem_, ATTEST_WRITE) {
  for (SharedTensors* outputs : {trial.outputs.get(), &differing_, &second_outputs_})
    outputs->poison();
}

AuditedTensors CaseRunner::AuditSet::tensors() const {
  return {.inputs = first_.shared(),
          .outputs = outputs_,
          .differing = differing_,
          .second_inputs = second_ ? &second_->shared() : nullptr,
          .second_outputs = second_ ? &second_outputs_ : nullptr};
}

std::vector<CaseRunner::Audited> CaseRunner::AuditSet::audited(bool differs) const {
  std::vector<Audited> audited = {{first_, outputs_}};
  if (differs) audited.push_back({first_, differing_});
  if (second_) audited.push_back({*second_, second_outputs_});
  return audited;
}

// Judges the outputs of audited runs.
Outcome CaseRunner::judge_audited(const Trial& trial, const AuditFindings& findings,
                                  const std::vector<Audited>& audited, const std::string& doing) {
  if (findings.inputs_changed)
    return {ReasonCode::kCrashInputWritten, fmt::format("an input was changed (while {})", doing)};
  if (findings.late)
    return {ReasonCode::kFailLateOutput,
            fmt::format("outputs changed after run had returned (while {})", doing)};
  const Stopwatch watch(judging_s_);
  for (const Audited& one : audited) {
    const std::string hash = hash_outputs(problem_, one.outputs.tensors());
    const auto was_judged = [&](const FillRun& fill) {
      return fill.inputs_hash == one.inputs.hash() && fill.outputs_hash == hash;
    };
    if (std::ranges::any_of(trial.fills, was_judged)) continue;
    const Judgement judgement = judge_outputs(one.inputs, trial.arithmetic, one.outputs);
    const Outcome& outcome = judgement.outcome;
    if (outcome.passes()) continue;
    bool stale = findings.stale;
    for (const Audited& other : audited)
      stale |= &one.inputs != &other.inputs &&
               is_from(problem_, judgement.worst, one.outputs.tensors(), other.outputs.tensors());
    if (stale)
      return {
          ReasonCode::kFailStaleOutput,
          fmt::format("a {} run left what was there before, or what belongs to other inputs: {}",
                      doing, outcome.reason)};
    return {outcome.code, fmt::format("{} (in an audited {} run)", outcome.reason, doing)};
  }
  return {};
}

// Frames and energy may take longer than the samples, so the machine is looked at again after them.
void CaseRunner::measure(Trial& trial) {
  const bool is_more = options_.pace || options_.energy;
  if (!trial.outcome.passes() || !(options_.timed || is_more)) return;
  if (options_.timed)
    trial.note(time(trial));
  else
    trial.before = read_machine_state();
  if (trial.outcome.passes() && options_.pace) trial.note(pace(trial));
  if (is_more && !trial.after) trial.after = read_machine_state();
  if (trial.outcome.passes() && options_.energy) trial.note(measure_energy(trial));
  if (is_more) trial.after = after_work(*trial.after, read_machine_state());
  if (!trial.before || !trial.after) return;
  // Once, for all of the measurements: counters that go on would give other words each time.
  add_noise(trial.record, disturbances(*trial.before, *trial.after));
  if (trial.before->board && trial.after->board)
    add_board(trial.record, *trial.before->board, *trial.after->board);
}

// Times on the first fill; the outputs of runs chosen at random are judged like any other.
Outcome CaseRunner::time(Trial& trial) {
  Record& record = trial.record;
  const AuditSet set(*this, trial);
  const uint64_t seed = unpredictable_seed();
  const DeviceKind& kind = *find_device_kind(trial.implementation.device);
  const DeviceState device_before = kind.state ? kind.state() : DeviceState{};
  trial.before = read_machine_state();
  const TimeResult timed = trial.plugin.time(trial.implementation, problem_, set.tensors(),
                                             {.expected_ns = trial.fills.back().run_ns,
                                              .budget_ns = options_.limits.budget_ns(),
                                              .seed = seed});
  trial.after = read_machine_state();
  const DeviceState device_after = kind.state ? kind.state() : DeviceState{};
  add_noise(record, disturbances(device_before, device_after));
  if (timed.failure) return {timed.failure->code, timed.failure->reason + " (while timed)"};

  const AuditFindings findings{timed.inputs_changed, timed.late, timed.stale};
  if (Outcome outcome = judge_audited(trial, findings, set.audited(timed.differs), "timed");
      !outcome.passes())
    return outcome;
  TimeRecord summary = summary_of(timed);
  summary.audit_seed = hex(seed);
  if (summary.device) {
    summary.device->before = facts(device_before);
    summary.device->after = facts(device_after);
  }
  record.time = std::move(summary);
  trial.is_timed = true;
  return {};
}

}  // namespace attest::core
