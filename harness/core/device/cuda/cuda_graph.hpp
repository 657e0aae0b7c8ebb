// Work captured from a stream as a CUDA graph.
#pragma once
#include "core/device/cuda/cuda.hpp"
#include "core/device/device.hpp"

namespace attest::core {

class CudaGraph : public Recording {
 public:
  /// Captures the work that `enqueue` enqueues, without doing it. Throws DeviceError if `enqueue`
  /// does something that cannot be captured (it allocates, waits, or uses another stream without
  /// joining it to this one), or enqueues nothing.
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
