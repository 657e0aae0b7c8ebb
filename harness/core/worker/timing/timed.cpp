#include "core/worker/timing/timed.hpp"

#include <unistd.h>

#include <algorithm>

#include "core/measure/time.hpp"
#include "core/tensor/stopwatch.hpp"

namespace attest::core {

namespace {

// Runs shorter than this, and than kShortShare of the budget, are audited often; longer than
// kLong_ns, no run is discarded after an audit, whose copies are small beside it. If runs are slow
// (slow_run_ns), every run counts.
constexpr double kShort_ns = 1e6, kShortShare = 0.02, kLong_ns = 10e6;
constexpr useconds_t kPause_us = 1000;  // for a thread that goes on to show itself

}  // namespace

TimedRuns::TimedRuns(TimedTensors& tensors, const AuditedOutputs& outputs,
                     const TimeRequest& request, TimedDevice* device, FlushFile flush_file)
    : tensors_(tensors),
      outputs_(outputs),
      dice_(request.seed),
      expected_ns_(request.expected_ns),
      budget_ns_(request.budget_ns),
      brief_(request.expected_ns < std::min(kShort_ns, kShortShare * request.budget_ns)),
      slow_(request.expected_ns > slow_run_ns(request.budget_ns)),
      device_(device),
      flush_file_(flush_file) {
  if (!slow_) tensors_.choose_flips(dice_);
}

// At moments spread over the budget; what the end of the samples leaves over is made then.
void TimedRuns::plan_audits() {
  auto plan = [&](size_t count, bool second) {
    for (; count > 0; --count)
      planned_.push_back({double(below(dice_, 1000)) * 1e-3 * budget_ns_, second});
  };
  plan(brief_ ? 6 : slow_ ? 0 : 1, false);
  if (tensors_.has_second()) plan(brief_ ? 3 : 1, true);
  std::sort(planned_.begin(), planned_.end(),
            [](const Planned& a, const Planned& b) { return a.at_ns > b.at_ns; });
  start_ = Clock::now();
}

void TimedRuns::call() {
  if (!device_) {
    if (status_ == ATTEST_OK)
      status_ =
          table_->run(plan_, tensors_.arguments().data, tensors_.arguments().workspace, nullptr);
    return;
  }
  device_->upload();
  enqueue();
  device_->finish();
}

// Of the implementation's time, but of none of the samples.
void TimedRuns::call_beside() {
  const auto start = Clock::now();
  call();
  audits_ns_ += nanoseconds_since(start);
}

void TimedRuns::enqueue() {
  if (status_ == ATTEST_OK && device_->fault().empty()) status_ = launch();
}

attest_status TimedRuns::launch() {
  const Arguments& arguments = device_->arguments();
  return table_->run(plan_, arguments.data, arguments.workspace, device_->stream());
}

// Copies between host and device are none of the run's time, so that one input changes a sample,
// not a run.
DeviceTiming TimedRuns::measure_on_device(const TimingRequest& timing) {
  device_->upload();
  const auto change = [this] {
    if (const char* byte = tensors_.flip(dice_)) device_->upload_byte(byte);
  };
  const DeviceTiming measured =
      device_->measure(timing, {.run = [this] { return launch(); },
                                .change = change,
                                .agrees = [this] { return replay_agrees(); }});
  if (!device_->fault().empty()) status_ = ATTEST_RUNTIME_ERROR;
  return measured;
}

// Where samples are replays: of the outputs that one leaves where nothing was.
std::optional<uint64_t> TimedRuns::hash_of_replay() {
  if (!device_ || !device_->replays()) return std::nullopt;
  const auto start = Clock::now();
  tensors_.poison_outputs();
  device_->upload();
  device_->replay();
  device_->finish();
  audits_ns_ += nanoseconds_since(start);
  return tensors_.hash_outputs();
}

// The replay comes first: what a run before it has left may be all that it lives on.
bool TimedRuns::replay_agrees() {
  const std::optional<uint64_t> replayed = hash_of_replay();
  call_beside();
  return replayed == tensors_.hash_outputs();
}

// Before a sample.
void TimedRuns::maybe_audit() {
  if (slow_) {
    tensors_.scramble(dice_);
    if (device_) device_->upload();
  }
  if (planned_.empty() || nanoseconds_since(start_) < planned_.back().at_ns) return;
  const bool second = planned_.back().second;
  planned_.pop_back();
  audit(second);
}

void TimedRuns::audit(bool second) {
  tensors_.restore_flips();
  if (second) tensors_.load(true);
  const std::optional<uint64_t> replayed = hash_of_replay();
  // A few runs more, so that nobody can count on every other one.
  if (expected_ns_ < kShort_ns)
    for (size_t more = below(dice_, 4); more > 0; --more) call_beside();
  tensors_.scramble(dice_);
  call_beside();
  if (replayed && *replayed != tensors_.hash_outputs())
    device_->stop_replaying("a replay gave something else than a run");
  capture(second);
  if (second) tensors_.load(false);
  if (expected_ns_ < kLong_ns)
    call_beside();  // so that caches are as they were
  else if (device_)
    device_->upload();
}

// The first outputs of a set, and the first ones that differ from these, are what the harness
// judges.
void TimedRuns::capture(bool second) {
  ++audited_;
  stale_ |= tensors_.scramble_left();
  if (second) {
    if (!second_audited_) tensors_.copy_outputs(*outputs_.second);
    second_audited_ = true;
  } else if (!captured_) {
    tensors_.copy_outputs(outputs_.first);
    captured_ = true;
  } else if (!differs_ && !tensors_.same_outputs(outputs_.first)) {
    tensors_.copy_outputs(outputs_.differing);
    differs_ = true;
  }
}

void TimedRuns::audit_the_rest() {
  if (slow_ && device_) device_->finish();
  if (slow_) capture(false);  // the last sample, whose outputs were scrambled before
  for (; !planned_.empty(); planned_.pop_back()) audit(planned_.back().second);
  if (slow_) return;
  tensors_.restore_flips();
  tensors_.scramble(dice_);
  call_beside();
  capture(false);
}

bool TimedRuns::outputs_stay() {
  if (device_) device_->finish();
  return tensors_.all_poison();
}

TimeReply TimedRuns::measure(const attest_impl& table, void* plan) {
  table_ = &table;
  plan_ = plan;
  TimingRequest timing{.run =
                           [this] {
                             tensors_.flip(dice_);
                             call();
                           },
                       .before = [this] { maybe_audit(); }};
  timing.budget_ns = budget_ns_;
  timing.expected_ns = expected_ns_;
  timing.slow_ns = slow_run_ns(budget_ns_);
  timing.cold = takes_cold_samples(budget_ns_);
  timing.flush_file = flush_file_;
  plan_audits();
  if (device_) timing.run = [this] { enqueue(); };
  DeviceTiming on_device;
  if (device_) on_device = measure_on_device(timing);
  const Timing measured = device_ ? on_device.timing : measure_time(timing);
  audit_the_rest();
  tensors_.poison_outputs();  // whoever goes on writes over it
  if (device_) device_->upload();
  usleep(kPause_us);
  TimeReply reply{.samples_ns = measured.warm_ns,
                  .cold_samples_ns = measured.cold_ns,
                  .iterations_per_sample = measured.iterations_per_sample,
                  .warmup_ns = measured.warmup_ns,
                  .audited_runs = audited_,
                  .audits_ns = audits_ns_,
                  .device = std::nullopt,
                  .usage = std::nullopt,
                  .differs = differs_,
                  .stale = stale_,
                  .late = !outputs_stay(),
                  .inputs_changed = !tensors_.inputs_unchanged()};
  if (device_)
    reply.device = on_device;
  else
    reply.usage = measured.usage;
  return reply;
}

}  // namespace attest::core
