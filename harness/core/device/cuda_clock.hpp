// The clock of a CUDA device's multiprocessors while something runs, by a small kernel before it
// and after it.
//
// The kernel reads two counters on each multiprocessor: the global timer, in nanoseconds, and the
// cycles of that one. It is PTX in this library, which the driver compiles for the device at hand.
#pragma once
#include <span>

#include "core/device/cuda.hpp"
#include "core/device/device.hpp"

namespace attest::core {

/// The counters of one multiprocessor at one moment; zeros: not read.
struct ClockStamp {
  uint64_t ns = 0, cycles = 0;
};

/// MHz between two readings of all multiprocessors, by number: the median of those that were read
/// both times. 0 where there is none, or less than 100 us between: the global timer moves in steps
/// of a microsecond on some devices.
double clock_mhz(std::span<const ClockStamp> first, std::span<const ClockStamp> second);

class CudaClock {
 public:
  CudaClock(Device& device, const CudaStream& stream, int multiprocessors);
  CudaClock(const CudaClock&) = delete;
  CudaClock& operator=(const CudaClock&) = delete;
  ~CudaClock();

  /// Enqueues a reading: `end` false: the first one, true: the second one.
  void read(bool end);
  /// Between the two, when the stream is done; 0: not known.
  double mhz();
  /// "" or why the driver does not take the kernel, in its words. Then nothing is read.
  const std::string& missing() const { return missing_; }

 private:
  void load();

  Device& device_;
  const CudaStream& stream_;
  int multiprocessors_;
  DeviceBuffer stamps_;
  CudaHandle module_ = nullptr, kernel_ = nullptr;
  std::string missing_;
};

/// The kernel's PTX.
const char* clock_stamps_ptx();

}  // namespace attest::core
