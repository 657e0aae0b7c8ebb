// Timed runs on a device: the tensors' copies there, and samples by its own clock.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "core/device/device.hpp"
#include "core/measure/stop_rule.hpp"
#include "core/measure/time.hpp"
#include "core/run/device_tensors.hpp"

namespace attest::core {

class TimedDevice {
 public:
  /// `sources`: TimedTensors::sources, the host's copies.
  TimedDevice(const attest_tensor* tensor, std::vector<DeviceTensors::Source> sources, Device& device);

  const Arguments& arguments() const { return tensors_.arguments(); }
  void* stream() const { return device_.stream(); }
  /// Makes the device's tensors what the host's are; and the outputs on the host what the device's are.
  void upload();
  void finish();
  /// One byte of the host's tensors has changed.
  void upload_byte(const char* host);

  /// As measure_time: `request.run` enqueues, `request.before` comes before each sample and is followed by `change`, once a
  /// sample.
  Timing measure(const TimingRequest& request, const std::function<void()>& change);

  /// Whether runs wait for the device, which they should not.
  bool waits() const { return timer_->waits(); }
  /// What the device said when it was waited for, or "".
  const std::string& fault() const { return fault_; }
  /// What runs wrote beside their tensors or into their inputs, as far as `finish` has seen.
  const std::optional<DeviceTensors::Trespass>& trespass() const { return trespass_; }

 private:
  double sample(const TimingRequest& request, const std::function<void()>& change, int64_t times, bool cold);
  template <class Body>
  void guarded(const Body& body);

  Device& device_;
  DeviceTensors tensors_;
  std::unique_ptr<DeviceTimer> timer_;
  std::string fault_;
  std::optional<DeviceTensors::Trespass> trespass_;
};

}  // namespace attest::core
