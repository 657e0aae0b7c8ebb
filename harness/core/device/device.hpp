// One interface to devices that have memory and a clock of their own; what distinguishes the kinds
// of devices is a table.
//
//   const DeviceKind* kind = find_device_kind(ATTEST_CUDA);
//   if (kind && kind->missing().empty()) {
//     const std::unique_ptr<Device> device = kind->open();
//     const DeviceBuffer buffer(*device, bytes);
//     device->copy_in(buffer.data(), host, bytes);
//     device->synchronize();
//   }
//
// Everything enqueued on a device is done in order. What fails throws DeviceError with the driver's
// words.
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

/// What a device has refused or reported.
class DeviceError : public Error {
 public:
  explicit DeviceError(const std::string& message, bool out_of_memory = false)
      : Error(message), out_of_memory_(out_of_memory) {}
  bool out_of_memory() const { return out_of_memory_; }

 private:
  bool out_of_memory_;
};

/// What a device is.
struct DeviceFacts {
  std::string name;          // "NVIDIA H200"
  std::string architecture;  // "sm_90"
  std::string driver;        // what its driver knows: "CUDA 12.4"
  int multiprocessors = 0;
  uint64_t memory_bytes = 0, cache_bytes = 0;  // cache: of the last level
};

/// What moves on a device. What is not known is left out.
struct DeviceState {
  std::optional<double> sm_mhz, memory_mhz, celsius, watts;
  std::optional<double> energy_j;         // since its driver was loaded
  std::vector<std::string> held_down_by;  // what keeps its clocks low: "power cap"
};

/// How long one of several runs took.
struct DeviceSample {
  double run_ns = 0;     // by the device's clock
  double launch_ns = 0;  // of the host, to enqueue it; no part of run_ns
  double clock_mhz = 0;  // of the multiprocessors meanwhile; 0: not known
};

/// Times what is enqueued on a device.
class DeviceTimer {
 public:
  /// A queue has an end, and who fills it waits for the device: so many runs make a sample at the
  /// most.
  static constexpr int64_t kMostEnqueued = 64;

  virtual ~DeviceTimer() = default;
  /// One of `times` calls of `enqueue`. Cold: a walk over twice the last level of cache comes
  /// before each of them.
  virtual DeviceSample sample(const std::function<void()>& enqueue, int64_t times, bool cold) = 0;
  /// Whether `enqueue` waits for the device, which implementations should not: its samples hold the
  /// host's time too.
  virtual bool waits() const = 0;
  /// "" or why samples have no clock_mhz.
  virtual const std::string& clock_missing() const = 0;
};

/// Work that was recorded once and is enqueued again as a whole, by one call.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void enqueue() = 0;
};

/// A device, for one thread. Addresses of its memory are void*, as an implementation gets them; the
/// host may not follow them.
class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  /// What `run` of an implementation enqueues to (attest.h); null: it does its work before it
  /// returns.
  virtual void* stream() const = 0;
  /// At least 256-byte aligned.
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* data) noexcept = 0;
  /// Enqueued; `from` and `to` on the host must stay until the device is done.
  virtual void copy_in(void* to, const void* from, size_t bytes) = 0;
  virtual void copy_out(void* to, const void* from, size_t bytes) = 0;
  virtual void fill(void* to, unsigned char value, size_t bytes) = 0;
  /// Waits for all that was enqueued. What an implementation did wrong on the device is thrown
  /// here, or by any call after it.
  virtual void synchronize() = 0;
  /// From now on; and the most that implementations have allocated since in the order of the
  /// stream. Null: the device does not count.
  virtual void watch_pool() = 0;
  virtual std::optional<uint64_t> pool_growth_bytes() = 0;
  /// What `enqueue` enqueues, which is not done now. Throws DeviceError: why it cannot be recorded.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& enqueue) = 0;
  /// Its timer; the device must outlive it.
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
  int32_t number;            // of attest.h: ATTEST_CUDA
  const char *name, *title;  // "cuda" in records, "CUDA" in sentences
  const char* advice;        // how to get one where there is none
  const char* unseen;        // what of its memory nobody counts: see Device::pool_growth_bytes
  bool own_memory;  // tensors are copied there and work is enqueued; else implementations use the
                    // host's tensors
  double fastest_flops_per_ns;  // no device of the kind does more, nor a thread of the host
  std::string (*missing)();     // "" where there is one, else why not: "no driver (libcuda.so.1)"
  // Of the first one; null where `own_memory` is false. They throw DeviceError where there is none.
  DeviceFacts (*facts)();
  std::unique_ptr<Device> (*open)();
  DeviceState (*state)();  // never throws
  // Where goldens that take the host long may be made, and "" or why not. The first is asked for
  // where the second gives "".
  const GoldenDevice* (*golden)();
  std::string (*golden_missing)();
  // What reads that state, "NVML", and "" or why it is not there.
  const char* monitor;
  std::string (*monitor_missing)();
};

}  // namespace attest::core
