// Measures the clock rate of a CUDA device's multiprocessors during other work, with a small kernel
// before and after it.
//
// On each multiprocessor the kernel reads two counters: the global timer in nanoseconds, and the
// multiprocessor's cycles. It is PTX, which the driver compiles for the device.
#pragma once
#include <span>

#include "core/device/cuda/cuda.hpp"
#include "core/device/device.hpp"

namespace attest::core {

/// The counters of one multiprocessor at one moment; zeros: not read.
struct ClockStamp {
  uint64_t ns = 0, cycles = 0;
};

/// The clock rate in MHz between two readings of all multiprocessors: the median over those that
/// were read both times. 0 if there are none, or if less than 100 us passed: the global timer of
/// some devices moves in steps of a microsecond.
double clock_mhz(std::span<const ClockStamp> first, std::span<const ClockStamp> second);

class CudaClock {
 public:
  CudaClock(Device& device, const CudaStream& stream, int multiprocessors);
  CudaClock(const CudaClock&) = delete;
  CudaClock& operator=(const CudaClock&) = delete;
  ~CudaClock();

  /// Enqueues the first reading, or the second if `end`.
  void read(bool end);
  /// The clock rate between the two readings, when the stream is done; 0: not known.
  double mhz();
  /// Why the driver refused the kernel, in its words; "": it did not. If it did, nothing is read.
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
