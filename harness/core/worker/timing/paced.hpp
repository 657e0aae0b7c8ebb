// Runs that a clock releases, one frame a period, or one run right after the other. Each run has
// inputs that were not seen before. Between frames the caches are emptied where there is time.
//
// The clock that releases frames stands still while attest itself holds up a frame: while it
// captures the outputs of the run before, prepares the inputs or empties caches, after the frame
// has arrived and that run has ended. So a wait in the queue is for the implementation alone.
#pragma once
#include <optional>

#include "core/isolation/messages/messages.hpp"
#include "core/isolation/status_page.hpp"
#include "core/measure/machine/caches.hpp"
#include "core/tensor/stopwatch.hpp"
#include "core/worker/timing/timed.hpp"
#include "core/worker/timing/timed_device.hpp"
#include "core/worker/timing/timed_tensors.hpp"

namespace attest::core {

class PacedRuns {
 public:
  /// All must outlive this. `device`: where the implementation's tensors are; null: the host.
  PacedRuns(TimedTensors& tensors, const AuditedOutputs& outputs, const PacedRequest& request,
            TimedDevice* device, FlushFile flush_file, const StatusPage& page);

  /// Runs the plan until all frames are done, the window is over, or the page asks to stop.
  PacedReply measure(const attest_impl& table, void* plan);
  /// ATTEST_OK, or the status of the first run that failed. No run follows a failed one.
  attest_status status() const { return status_; }

 private:
  // Which inputs a run has: changed ones, or a set whose golden the harness knows.
  enum class Inputs { kChanged, kFirst, kSecond };
  bool goes_on(size_t frames, Clock::time_point last_end) const;
  void prepare(Inputs inputs);
  Clock::time_point arrival(size_t frame) const;
  void cool_before(Clock::time_point arrival);
  void hold_clock(Clock::time_point due);
  void note_run(Clock::time_point start, Clock::time_point end);
  void call();
  void capture(Inputs inputs);
  void audit(Inputs inputs);
  Inputs inputs_of(size_t frame) const;

  TimedTensors& tensors_;
  AuditedOutputs outputs_;
  const PacedRequest& request_;
  TimedDevice* device_;
  const StatusPage& page_;
  Dice dice_;
  std::optional<CacheFlusher> flusher_;
  double flush_ns_ = 0;      // duration of the longest flush so far
  Clock::time_point first_;  // when the first frame arrived, later by what the clock stood still
  const attest_impl* table_ = nullptr;
  void* plan_ = nullptr;
  attest_status status_ = ATTEST_OK;
  size_t first_frame_ = 0, second_frame_ = 0;  // that are audited
  PacedReply reply_;
  bool captured_ = false, second_captured_ = false;
};

}  // namespace attest::core
