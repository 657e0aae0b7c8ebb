// Contexts, streams and events of a CUDA device. Functions throw DeviceError with the driver's
// message.
#pragma once
#include "core/device/cuda/cuda_driver.hpp"

namespace attest::core {

/// The handle of the device with that number.
int cuda_device_of(int ordinal);
/// The value of attribute `which` (CUdevice_attribute) of a device.
int cuda_attribute(int device, int which);
/// Values of CUdevice_attribute.
inline constexpr int kClock_khz = 13, kMultiprocessors = 16, kIntegrated = 18,
                     kMemoryClock_khz = 36, kMemoryBusBits = 37, kL2Bytes = 38, kMajor = 75,
                     kMinor = 76, kSingleToDouble = 87;

/// Makes the primary context of a device current on this thread. The CUDA runtime uses the same
/// context.
class CudaContext {
 public:
  explicit CudaContext(int ordinal = 0);
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;
  ~CudaContext();

 private:
  int device_ = 0;
};

class CudaStream {
 public:
  CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  ~CudaStream();
  CudaHandle handle() const { return handle_; }
  /// Waits for all enqueued work. Throws if a kernel failed.
  void synchronize() const;

 private:
  CudaHandle handle_ = nullptr;
};

class CudaEvent {
 public:
  CudaEvent();
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  ~CudaEvent();
  void record(const CudaStream& stream);
  /// The time from `begin`, which was recorded earlier, to this event. Both must have happened.
  double nanoseconds_since(const CudaEvent& begin) const;

 private:
  CudaHandle handle_ = nullptr;
};

}  // namespace attest::core
