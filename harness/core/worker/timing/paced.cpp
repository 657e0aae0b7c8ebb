#include "core/worker/timing/paced.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace attest::core {
namespace {

// Before a frame arrives, the thread sleeps until this long before and then spins: a wake-up from
// sleep may come some 0.1 ms late, which is no latency of the implementation.
constexpr auto kSpin = std::chrono::microseconds(300);
// The first frame arrives so long after the plan is ready.
constexpr auto kLead = std::chrono::milliseconds(5);

void wait_until(Clock::time_point moment) {
  std::this_thread::sleep_until(moment - kSpin);
  while (Clock::now() < moment) continue;
}

double nanoseconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::nano>(to - from).count();
}

}  // namespace

PacedRuns::PacedRuns(TimedTensors& tensors, const AuditedOutputs& outputs,
                     const PacedRequest& request, TimedDevice* device, FlushFile flush_file,
                     const StatusPage& page)
    : tensors_(tensors),
      outputs_(outputs),
      request_(request),
      device_(device),
      page_(page),
      dice_(request.seed) {
  tensors_.choose_flips(dice_);
  if (request_.period_ns > 0) flusher_.emplace(0, flush_file);
}

bool PacedRuns::goes_on(size_t frames, Clock::time_point last_end) const {
  if (status_ != ATTEST_OK || (device_ && !device_->fault().empty())) return false;
  if (page_.stop != 0 || (request_.frames > 0 && frames >= request_.frames)) return false;
  return request_.window_ns <= 0 || nanoseconds_between(first_, last_end) < request_.window_ns;
}

// Audited runs have outputs that cannot be left from an earlier run.
void PacedRuns::prepare(Inputs inputs) {
  if (inputs == Inputs::kChanged) {
    tensors_.flip(dice_);
  } else {
    tensors_.restore_flips();
    if (inputs == Inputs::kSecond) tensors_.load(true);
    tensors_.scramble(dice_);
  }
  if (device_) device_->upload();
}

Clock::time_point PacedRuns::arrival(size_t frame) const {
  const std::chrono::duration<double, std::nano> period(request_.period_ns);
  return first_ + std::chrono::duration_cast<Clock::duration>(period * double(frame));
}

// Only where a flush should end before the frame arrives.
void PacedRuns::cool_before(Clock::time_point arrival) {
  const auto now = Clock::now();
  if (nanoseconds_between(now, arrival) > 2 * flush_ns_ + 1e6) {
    flusher_->flush();
    flush_ns_ = std::max(flush_ns_, nanoseconds_since(now));
  }
}

// Stops the clock from `due` until now. A frame that is still to come needs no stop.
void PacedRuns::hold_clock(Clock::time_point due) {
  const auto late = Clock::now() - due;
  if (late <= Clock::duration::zero()) return;
  first_ += late;
  reply_.clock_held_ns += std::chrono::duration<double, std::nano>(late).count();
}

// Any number of runs could be more than memory holds.
void PacedRuns::note_run(Clock::time_point start, Clock::time_point end) {
  const bool keeps_all = request_.frames > 0;
  if (keeps_all || reply_.runs == 0) {
    reply_.starts_ns.push_back(nanoseconds_between(first_, start));
    reply_.ends_ns.emplace_back();
  }
  reply_.ends_ns.back() = nanoseconds_between(first_, end);
  ++reply_.runs;
}

void PacedRuns::call() {
  const Arguments& arguments = device_ ? device_->arguments() : tensors_.arguments();
  status_ = table_->run(plan_, arguments.data, arguments.workspace,
                        device_ ? device_->stream() : nullptr);
  if (device_) device_->wait();
}

// The first outputs of a set, and the first ones on the first set that differ from these.
void PacedRuns::capture(Inputs inputs) {
  if (device_) device_->fetch();
  if (inputs == Inputs::kChanged || status_ != ATTEST_OK) return;
  reply_.stale |= tensors_.scramble_left();
  ++reply_.audited_runs;
  if (inputs == Inputs::kSecond) {
    if (!second_captured_) tensors_.copy_outputs(*outputs_.second);
    second_captured_ = true;
    tensors_.load(false);
  } else if (!captured_) {
    tensors_.copy_outputs(outputs_.first);
    captured_ = true;
  } else if (!reply_.differs && !tensors_.same_outputs(outputs_.first)) {
    tensors_.copy_outputs(outputs_.differing);
    reply_.differs = true;
  }
}

// A run beside the frames.
void PacedRuns::audit(Inputs inputs) {
  prepare(inputs);
  if (status_ == ATTEST_OK) call();
  capture(inputs);
}

PacedRuns::Inputs PacedRuns::inputs_of(size_t frame) const {
  if (request_.frames == 0) return Inputs::kChanged;
  if (frame == first_frame_) return Inputs::kFirst;
  return frame == second_frame_ && tensors_.has_second() ? Inputs::kSecond : Inputs::kChanged;
}

PacedReply PacedRuns::measure(const attest_impl& table, void* plan) {
  table_ = &table;
  plan_ = plan;
  audit(Inputs::kFirst);  // also warms up
  if (request_.frames > 0) {
    first_frame_ = below(dice_, request_.frames);
    second_frame_ = below(dice_, request_.frames);
  }
  const bool is_paced = request_.period_ns > 0;
  first_ = Clock::now() + (is_paced ? kLead : Clock::duration::zero());
  auto end = first_;  // of the run before
  reply_.first_ns = double(std::chrono::nanoseconds(first_.time_since_epoch()).count());
  for (size_t frame = 0; goes_on(frame, end); ++frame) {
    const Inputs inputs = inputs_of(frame);
    prepare(inputs);
    if (is_paced) {
      cool_before(arrival(frame));
      hold_clock(std::max(arrival(frame), end));
      wait_until(arrival(frame));
    }
    const auto start = Clock::now();
    call();
    end = Clock::now();
    note_run(start, end);
    capture(inputs);
  }
  if (tensors_.has_second()) audit(Inputs::kSecond);
  audit(Inputs::kFirst);
  reply_.inputs_changed = !tensors_.inputs_unchanged();
  return std::move(reply_);
}

}  // namespace attest::core
