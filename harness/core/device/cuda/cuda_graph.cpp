#include "core/device/cuda/cuda_graph.hpp"

namespace attest::core {
namespace {

// CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: what this thread may not do while it captures fails, rather
// than going unseen; other threads are not bothered.
constexpr int kThreadLocal = 1;

}  // namespace

CudaGraph::CudaGraph(const CudaStream& stream, const std::function<void()>& enqueue)
    : stream_(stream) {
  const CudaDriver& driver = cuda_driver();
  cuda_check(driver.capture_begin(stream.handle(), kThreadLocal), "cuStreamBeginCapture");
  try {
    enqueue();
  } catch (...) {
    if (driver.capture_end(stream.handle(), &graph_) == 0) driver.graph_destroy(graph_);
    throw;
  }
  cuda_check(driver.capture_end(stream.handle(), &graph_), "cuStreamEndCapture");
  size_t nodes = 0;
  int error = driver.graph_nodes(graph_, nullptr, &nodes);
  if (error == 0 && nodes > 0) error = driver.graph_instantiate(&ready_, graph_, 0);
  if (error == 0 && nodes > 0) return;
  driver.graph_destroy(graph_);
  cuda_check(error, "cuGraphInstantiate");
  throw DeviceError("it enqueues nothing on the stream");
}

CudaGraph::~CudaGraph() {
  cuda_driver().graph_exec_destroy(ready_);
  cuda_driver().graph_destroy(graph_);
}

void CudaGraph::enqueue() {
  cuda_check(cuda_driver().graph_launch(ready_, stream_.handle()), "cuGraphLaunch");
}

}  // namespace attest::core
