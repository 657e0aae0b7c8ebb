#include "core/device/cuda/cuda_timer.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "core/tensor/stopwatch.hpp"

namespace attest::core {
namespace {

constexpr auto kPatience = std::chrono::seconds(2);
constexpr unsigned kDeviceMapped = 2,
                   kAtLeast = 0;    // CU_MEMHOSTALLOC_DEVICEMAP, CU_STREAM_WAIT_VALUE_GEQ
constexpr int kNotSupported = 801;  // CUDA_ERROR_NOT_SUPPORTED

}  // namespace

CudaGate::CudaGate(const CudaStream& stream) : stream_(stream) {
  void* host = nullptr;
  cuda_check(cuda_driver().host_allocate(&host, sizeof(uint32_t), kDeviceMapped), "cuMemHostAlloc");
  *static_cast<uint32_t*>(host) = 0;
  cuda_check(cuda_driver().host_device_address(&address_, host, 0), "cuMemHostGetDevicePointer");
  // The attribute for it is about an older function; a wait for what is there already tells.
  const int waited = cuda_driver().stream_wait_value(stream_.handle(), address_, 0, kAtLeast);
  if (waited == kNotSupported) {
    cuda_driver().host_release(host);
    return;
  }
  cuda_check(waited, "cuStreamWaitValue32");
  value_ = static_cast<uint32_t*>(host);
  watcher_ = std::thread([this] { watch(); });
}

CudaGate::~CudaGate() {
  if (!value_) return;
  open();
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  watcher_.join();
  // The stream may not have come to the wait yet: a run that failed has left it behind.
  cuda_driver().stream_synchronize(stream_.handle());
  cuda_driver().host_release(value_);
}

void CudaGate::let_pass() { std::atomic_ref(*value_).store(ticket_, std::memory_order_release); }

void CudaGate::close() {
  if (gave_up_ || !value_) return;
  const std::lock_guard lock(mutex_);
  ++ticket_;
  closed_ = true;
  cuda_check(cuda_driver().stream_wait_value(stream_.handle(), address_, ticket_, kAtLeast),
             "cuStreamWaitValue32");
  changed_.notify_one();
}

void CudaGate::open() {
  if (!value_) return;
  const std::lock_guard lock(mutex_);
  if (closed_) let_pass();
  closed_ = false;
  changed_.notify_one();
}

void CudaGate::watch() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    changed_.wait(lock, [&] { return closed_ || ending_; });
    const uint32_t watched = ticket_;
    const bool opened = changed_.wait_for(
        lock, kPatience, [&] { return !closed_ || ticket_ != watched || ending_; });
    if (opened) continue;
    gave_up_ = true;
    closed_ = false;
    let_pass();
  }
}

CudaTimer::CudaTimer(Device& device, const CudaStream& stream, const DeviceFacts& facts)
    : device_(device),
      stream_(stream),
      flush_bytes_(size_t(2 * facts.cache_bytes)),
      flush_(device, std::max<size_t>(flush_bytes_, 1)),
      clock_(device, stream, facts.multiprocessors),
      gate_(stream) {}

DeviceSample CudaTimer::sample(const std::function<void()>& enqueue, int64_t times, bool cold) {
  std::vector<CudaEvent> events(size_t(cold ? 2 * times : 2));
  DeviceSample sample;
  if (times <= kMostEnqueued) gate_.close();
  clock_.read(false);
  for (int64_t i = 0; i < times; ++i) {
    if (cold) device_.fill(flush_.data(), uint8_t(i), flush_bytes_);
    if (cold || i == 0) events[cold ? size_t(2 * i) : 0].record(stream_);
    const auto start = Clock::now();
    enqueue();
    sample.launch_ns += nanoseconds_since(start) / double(times);
    if (cold) events[size_t(2 * i + 1)].record(stream_);
  }
  if (!cold) events[1].record(stream_);
  clock_.read(true);
  gate_.open();
  stream_.synchronize();
  sample.clock_mhz = clock_.mhz();
  for (size_t i = 0; i < events.size(); i += 2)
    sample.run_ns += events[i + 1].nanoseconds_since(events[i]) / double(times);
  return sample;
}

}  // namespace attest::core
