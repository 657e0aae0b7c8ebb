// Timed runs on a device: the tensors' copies there, and samples by its own clock.
//
// Runs below some 50 us are recorded, several in a row, and replayed by one launch, so that what
// launching takes is not their time. A replay counts as long as it gives bit for bit what runs
// give.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "core/device/device.hpp"
#include "core/isolation/messages/messages.hpp"
#include "core/measure/clocked.hpp"
#include "core/measure/stop_rule.hpp"
#include "core/measure/time.hpp"
#include "core/worker/device_tensors.hpp"

namespace attest::core {

/// Callbacks that TimedDevice needs from the timed runs.
struct DeviceRuns {
  std::function<attest_status()> run;  // enqueues one run, whatever became of those before
  std::function<void()> change;        // changes an input; before each sample
  std::function<bool()> agrees;        // whether TimedDevice::replay leaves what a run leaves
};

struct DeviceTiming : DeviceTimes {
  Timing timing;
};

class TimedDevice {
 public:
  /// `sources`: TimedTensors::sources, the host's copies.
  TimedDevice(const attest_tensor* tensor, const std::vector<DeviceTensors::Source>& sources,
              Device& device);

  const Arguments& arguments() const { return tensors_.arguments(); }
  void* stream() const { return device_.stream(); }
  /// Copies the host's tensors to the device.
  void upload();
  /// Waits for the device.
  void wait();
  /// Copies the outputs to the host, and looks for what runs wrote elsewhere.
  void fetch();
  /// Both.
  void finish() {
    wait();
    fetch();
  }
  /// One byte of the host's tensors has changed.
  void upload_byte(const char* host);

  /// As measure_time: `request.run` enqueues, `request.before` comes before each sample and is
  /// followed by `runs.change`, once a sample.
  DeviceTiming measure(const TimingRequest& request, const DeviceRuns& runs);

  /// Whether samples are replays at the moment.
  bool replays() const { return recording_ != nullptr; }
  /// Enqueues one replay.
  void replay();
  /// Makes the following samples without replays. Notes why.
  void stop_replaying(const std::string& why);

  /// Whether runs wait for the device, which they should not.
  bool waits() const { return timer_->waits(); }
  /// What the device said when it was waited for, or "".
  const std::string& fault() const { return fault_; }
  /// What runs wrote beside their tensors or into their inputs, as far as `finish` has seen.
  const std::optional<DeviceTrespass>& trespass() const { return trespass_; }
  /// What is worth knowing of the samples.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void record(const DeviceRuns& runs, int64_t times);
  DeviceSample sample(const TimingRequest& request, const DeviceRuns& runs, int64_t times,
                      bool cold);
  double warm_up(const TimingRequest& request, const DeviceRuns& runs);
  void sample_warm(const TimingRequest& request, const DeviceRuns& runs, double run_ns,
                   DeviceTiming& timed);
  void sample_cold(const TimingRequest& request, const DeviceRuns& runs, DeviceTiming& timed);
  template <class Body>
  void guarded(const Body& body);

  Device& device_;
  DeviceTensors tensors_;
  std::unique_ptr<DeviceTimer> timer_;
  std::unique_ptr<Recording> recording_;
  int64_t recorded_runs_ = 0;
  std::vector<double> launches_ns_;
  std::string fault_;
  std::optional<DeviceTrespass> trespass_;
  std::vector<std::string> notes_;
};

}  // namespace attest::core
