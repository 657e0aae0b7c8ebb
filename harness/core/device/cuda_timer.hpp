// Times what is enqueued on a stream, as nvbench does it: events around the work, and the queue
// blocked until all of it is there, so that what the host takes to enqueue does not count.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "core/device/cuda_clock.hpp"
#include "core/device/device.hpp"

namespace attest::core {

/// Holds back a stream until it is opened. Who waits for a stream that is held back would wait for
/// ever, so after two seconds the gate opens by itself, and stays open. A device whose streams
/// cannot wait for a value has no gate.
class CudaGate {
 public:
  explicit CudaGate(const CudaStream& stream);
  CudaGate(const CudaGate&) = delete;
  CudaGate& operator=(const CudaGate&) = delete;
  ~CudaGate();

  /// What is enqueued from now on waits; does nothing once the gate has opened by itself.
  void close();
  void open();
  /// Whether it had to open by itself: whoever enqueued waited for the stream.
  bool gave_up() const { return gave_up_; }

 private:
  void watch();
  void let_pass();

  const CudaStream& stream_;
  uint32_t* value_ = nullptr;  // on the host, seen by the device, which waits until it is `ticket_`
  CudaAddress address_ = 0;
  uint32_t ticket_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false, ending_ = false;
  std::atomic<bool> gave_up_ = false;
  std::thread watcher_;
};

class CudaTimer : public DeviceTimer {
 public:
  /// `stream`: the device's. Beyond kMostEnqueued runs a sample is not held back.
  CudaTimer(Device& device, const CudaStream& stream, const DeviceFacts& facts);

  DeviceSample sample(const std::function<void()>& enqueue, int64_t times, bool cold) override;
  bool waits() const override { return gate_.gave_up(); }
  const std::string& clock_missing() const override { return clock_.missing(); }

 private:
  Device& device_;
  const CudaStream& stream_;
  size_t flush_bytes_;
  DeviceBuffer flush_;
  CudaClock clock_;
  CudaGate gate_;
};

}  // namespace attest::core
