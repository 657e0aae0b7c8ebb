// Contexts, streams and events of a CUDA device. Whatever fails throws DeviceError with the
// driver's words.
#pragma once
#include "core/device/cuda_driver.hpp"

namespace attest::core {

/// The handle of a device by its number, and one of its CUdevice_attribute values.
int cuda_device_of(int ordinal);
int cuda_attribute(int device, int which);

/// The primary context of a device, current on this thread: the one that programs of CUDA's runtime
/// use too.
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
  /// Waits for all that was enqueued. What a kernel did wrong is thrown here.
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
  /// From an event that was recorded before this one; both are over.
  double nanoseconds_since(const CudaEvent& begin) const;

 private:
  CudaHandle handle_ = nullptr;
};

}  // namespace attest::core
