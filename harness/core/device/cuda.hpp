// Memory, streams and events of a CUDA device. Whatever fails throws Error with the driver's words.
#pragma once
#include <cstdint>
#include <string>
#include <utility>

#include "core/device/cuda_driver.hpp"

namespace attest::core {

/// What a device is.
struct CudaFacts {
  std::string name;          // "NVIDIA H200"
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  uint64_t memory_bytes = 0, l2_bytes = 0;
  int driver = 0;  // CUDA version that the driver knows: 12040 is 12.4
};
CudaFacts read_cuda_facts(int ordinal = 0);
/// Whether streams of the device can wait for a value in memory.
bool cuda_waits_for_values(int ordinal = 0);

/// The primary context of a device, current on this thread: the one that programs of CUDA's runtime use too.
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

/// Memory of the device, at least 256-byte aligned.
class CudaMemory {
 public:
  CudaMemory() = default;
  explicit CudaMemory(size_t bytes);
  CudaMemory(CudaMemory&& other) noexcept : address_(std::exchange(other.address_, 0)) {}
  CudaMemory& operator=(CudaMemory&& other) noexcept {
    std::swap(address_, other.address_);
    return *this;
  }
  ~CudaMemory();
  CudaAddress address() const { return address_; }

 private:
  CudaAddress address_ = 0;
};

/// Enqueued; `from` and `to` on the host must stay until the stream is done.
void cuda_copy_in(CudaAddress to, const void* from, size_t bytes, const CudaStream& stream);
void cuda_copy_out(void* to, CudaAddress from, size_t bytes, const CudaStream& stream);
void cuda_fill(CudaAddress to, unsigned char value, size_t bytes, const CudaStream& stream);

}  // namespace attest::core
