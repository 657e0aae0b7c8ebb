// The interface to devices with their own memory and clock. A table, DeviceKind, describes each
// kind of device.
//
//   const DeviceKind* kind = find_device_kind(ATTEST_CUDA);
//   if (kind && kind->missing().empty()) {
//     const std::unique_ptr<Device> device = kind->open();
//     const DeviceBuffer buffer(*device, bytes);
//     device->copy_in(buffer.data(), host, bytes);
//     device->synchronize();
//   }
//
// A device does enqueued work in order. Functions throw DeviceError with the driver's message.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/operations/golden_device.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {

/// An error that a device or its driver reported.
class DeviceError : public Error {
 public:
  explicit DeviceError(const std::string& message, bool out_of_memory = false)
      : Error(message), out_of_memory_(out_of_memory) {}
  bool out_of_memory() const { return out_of_memory_; }

 private:
  bool out_of_memory_;
};

/// The properties of a device.
struct DeviceFacts {
  std::string name;          // "NVIDIA H200"
  std::string architecture;  // "sm_90"
  std::string driver;        // the newest version that its driver supports: "CUDA 12.4"
  int multiprocessors = 0;
  uint64_t memory_bytes = 0, cache_bytes = 0;  // cache_bytes: last-level cache
  double sm_mhz = 0;      // the highest clock of its multiprocessors; 0: not known
  double memory_gbs = 0;  // 10^9 bytes a second that its memory can deliver at most; 0: not known
};

/// The changing state of a device. Unknown values are left out.
struct DeviceState {
  std::optional<double> sm_mhz, memory_mhz, celsius, watts;
  std::optional<double> energy_j;  // since the driver was loaded
  std::string ecc;                 // error correction of its memory: "on", "off"; "": unknown
  std::vector<std::string> held_down_by;  // the reasons for low clocks: "power cap"
};

/// The time of one run, as the mean over the runs of a sample.
struct DeviceSample {
  double run_ns = 0;     // by the device's clock
  double launch_ns = 0;  // the host's time to enqueue the run; not part of run_ns
  double clock_mhz = 0;  // the multiprocessors' clock during the sample; 0: not known
};

/// Times work on a device.
class DeviceTimer {
 public:
  /// The launch queue is finite; filling it blocks the caller. A sample therefore holds at most
  /// this many runs.
  static constexpr int64_t kMostEnqueued = 64;

  virtual ~DeviceTimer() = default;
  /// Calls `enqueue` `times` times and returns the time of one run. Cold: a walk over twice the
  /// last-level cache comes before each run.
  virtual DeviceSample sample(const std::function<void()>& enqueue, int64_t times, bool cold) = 0;
  /// Whether `enqueue` waited for the device. Implementations should not wait; the samples then
  /// include the host's time.
  virtual bool waits() const = 0;
  /// Why samples have no clock_mhz; "": they have.
  virtual const std::string& clock_missing() const = 0;
};

/// Work that was recorded once. One call enqueues it again as a whole.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void enqueue() = 0;
};

/// A device, to be used by one thread. Addresses of its memory are void*, as an implementation gets
/// them; the host must not dereference them.
class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  /// The stream to which `run` of an implementation enqueues its work (attest.h). Null: the work is
  /// done when `run` returns.
  virtual void* stream() const = 0;
  /// Returns memory that is aligned to at least 256 bytes.
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* data) noexcept = 0;
  /// These enqueue their work. Host memory must stay valid until the device is done.
  virtual void copy_in(void* to, const void* from, size_t bytes) = 0;
  virtual void copy_out(void* to, const void* from, size_t bytes) = 0;
  virtual void fill(void* to, unsigned char value, size_t bytes) = 0;
  /// Waits for all enqueued work. This call, or any later one, throws if an implementation caused a
  /// fault on the device.
  virtual void synchronize() = 0;
  /// Begins to measure the memory pool.
  virtual void watch_pool() = 0;
  /// The most that implementations allocated from the memory pool since watch_pool(). Null: the
  /// device does not count.
  virtual std::optional<uint64_t> pool_growth_bytes() = 0;
  /// Records the work that `enqueue` enqueues, without doing it. Throws DeviceError if that is
  /// impossible.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& enqueue) = 0;
  /// A timer for this device, which must outlive the timer.
  virtual std::unique_ptr<DeviceTimer> make_timer() = 0;
};

/// Memory of a device, which must outlive it.
class DeviceBuffer {
 public:
  DeviceBuffer(Device& device, size_t bytes) : device_(&device), data_(device.allocate(bytes)) {}
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : device_(other.device_), data_(std::exchange(other.data_, nullptr)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) = delete;
  ~DeviceBuffer() {
    if (data_) device_->release(data_);
  }
  char* data() const { return static_cast<char*>(data_); }

 private:
  Device* device_;
  void* data_;
};

/// A kind of device.
struct DeviceKind {
  int32_t number;            // its number in attest.h: ATTEST_CUDA
  const char *name, *title;  // "cuda" in records, "CUDA" in sentences
  const char* advice;        // how to get such a device
  const char* unseen;        // the memory that Device::pool_growth_bytes does not count
  bool own_memory;           // tensors are copied to the device and work is enqueued; otherwise
                             // implementations use the host's tensors
  double
      fastest_flops_per_ns;  // an upper bound for every device of this kind, or thread of the host
  std::string (*missing)();  // "": there is a device; else why not: "no driver (libcuda.so.1)"
  // For the first device of the kind. Null if own_memory is false. They throw DeviceError if there
  // is no device.
  DeviceFacts (*facts)();
  std::unique_ptr<Device> (*open)();
  DeviceState (*state)();  // never throws
  // The device that computes goldens. To be called only if golden_missing() returns "".
  const GoldenDevice* (*golden)();
  std::string (*golden_missing)();
  // The library that reads the state, "NVML", and why it is missing ("": it is not).
  const char* monitor;
  std::string (*monitor_missing)();
};

}  // namespace attest::core
