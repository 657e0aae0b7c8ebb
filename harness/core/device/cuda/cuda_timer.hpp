// Times work on a stream, as nvbench does: with events around the work. The stream is held back
// until all of it is enqueued, so that the host's time to enqueue does not count.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "core/device/cuda/cuda_clock.hpp"
#include "core/device/device.hpp"

namespace attest::core {

/// Holds a stream back until open() is called. If an implementation waits for the stream meanwhile,
/// it would wait for ever; so the gate opens by itself after two seconds, and stays open. On a
/// device whose streams cannot wait for a value, the gate does nothing.
class CudaGate {
 public:
  explicit CudaGate(const CudaStream& stream);
  CudaGate(const CudaGate&) = delete;
  CudaGate& operator=(const CudaGate&) = delete;
  ~CudaGate();

  /// Work enqueued from now on waits. Does nothing if the gate has opened by itself before.
  void close();
  void open();
  /// Whether the gate opened by itself, because the implementation waited for the stream.
  bool gave_up() const { return gave_up_; }

 private:
  void watch();
  void let_pass();

  const CudaStream& stream_;
  uint32_t* value_ = nullptr;  // on the host; the device waits until it equals ticket_
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
  /// `stream`: the stream of `device`. A sample of more than kMostEnqueued runs is not held back.
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
