#include "core/run/timed_device.hpp"

#include <algorithm>
#include <chrono>

#include "core/run/channel.hpp"

namespace attest::core {
namespace {

constexpr double kBlock_ns = 1e6;    // shorter runs are repeated until a sample lasts so long
constexpr double kColdShare = 0.25;  // of the budget
constexpr size_t kMostColdSamples = 100;

double since(Clock::time_point start) { return std::chrono::duration<double, std::nano>(Clock::now() - start).count(); }

}  // namespace

TimedDevice::TimedDevice(const attest_tensor* tensor, std::vector<DeviceTensors::Source> sources, Device& device)
    : device_(device), tensors_(tensor, std::move(sources), device), timer_(device.make_timer()) {}

// What has failed on the device fails for good: nothing more is asked of it, and the caller stops.
template <class Body>
void TimedDevice::guarded(const Body& body) {
  if (!fault_.empty()) return;
  try {
    body();
  } catch (const DeviceError& error) {
    fault_ = error.what();
  }
}

void TimedDevice::upload() {
  guarded([&] { tensors_.upload(); });
}
void TimedDevice::upload_byte(const char* host) {
  guarded([&] { tensors_.upload(host, 1); });
}

void TimedDevice::finish() {
  guarded([&] {
    device_.synchronize();
    if (!trespass_) trespass_ = tensors_.trespass();  // the next upload writes over it
    tensors_.download_outputs();
  });
}

double TimedDevice::sample(const TimingRequest& request, const std::function<void()>& change, int64_t times, bool cold) {
  double run_ns = 0;
  if (request.before) request.before();
  change();
  guarded([&] { run_ns = timer_->sample(request.run, times, cold).run_ns; });
  return run_ns;
}

Timing TimedDevice::measure(const TimingRequest& request, const std::function<void()>& change) {
  Timing timing;
  const auto warm_start = Clock::now();
  // The first launch may load its kernel, which waits for the device: not behind a closed gate.
  guarded([&] { request.run(), device_.synchronize(); });
  double run_ns = 0;
  do run_ns = sample(request, change, 1, false);
  while (fault_.empty() && run_ns < request.slow_ns && since(warm_start) < std::min(50 * kBlock_ns, 0.1 * request.budget_ns));
  timing.warmup_ns = since(warm_start);
  timing.iterations_per_sample = std::clamp<int64_t>(int64_t(kBlock_ns / std::max(run_ns, 1.0)), 1, DeviceTimer::kMostEnqueued);
  StopRule rule{.budget_ns = (1 - kColdShare) * request.budget_ns, .precision = request.precision, .slow_ns = request.slow_ns};
  for (auto start = Clock::now(); fault_.empty() && !rule.enough(timing.warm_ns, since(start));)
    timing.warm_ns.push_back(sample(request, change, timing.iterations_per_sample, false));
  rule.budget_ns = kColdShare * request.budget_ns, rule.most_samples = kMostColdSamples;
  for (auto start = Clock::now(); fault_.empty() && run_ns < request.slow_ns && !rule.enough(timing.cold_ns, since(start));)
    timing.cold_ns.push_back(sample(request, change, 1, true));
  return timing;
}

}  // namespace attest::core
