// Work captured from a stream as a CUDA graph.
#pragma once
#include "core/device/cuda.hpp"
#include "core/device/device.hpp"

namespace attest::core {

class CudaGraph : public Recording {
 public:
  /// Captures what `enqueue` enqueues, none of which is done. Throws DeviceError where it does what
  /// cannot be captured (allocates, waits, uses another stream that does not come back to this
  /// one), or enqueues nothing.
  CudaGraph(const CudaStream& stream, const std::function<void()>& enqueue);
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph() override;

  void enqueue() override;

 private:
  const CudaStream& stream_;
  CudaHandle graph_ = nullptr, ready_ = nullptr;
};

}  // namespace attest::core
