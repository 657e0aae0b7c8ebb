#include "core/worker/timing/timed_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/isolation/messages/channel.hpp"
#include "core/statistics/statistics.hpp"
#include "core/tensor/stopwatch.hpp"

namespace attest::core {
namespace {

constexpr double kBlock_ns = 1e6;   // shorter runs are repeated until a sample lasts so long
constexpr double kBrief_ns = 50e3;  // a cold run below this takes about as long as launching it
constexpr int64_t kMostRecorded = 256;
constexpr double kColdShare = 0.25;  // of the budget
constexpr size_t kMostColdSamples = 100;

int64_t runs_in_a_block(double run_ns, int64_t most) {
  return std::clamp<int64_t>(int64_t(kBlock_ns / std::max(run_ns, 1.0)), 1, most);
}

}  // namespace

TimedDevice::TimedDevice(const attest_tensor* tensor,
                         const std::vector<DeviceTensors::Source>& sources, Device& device)
    : device_(device),
      tensors_(tensor, sources, device, DeviceTensors::Place::kAsInFrameworks),
      timer_(device.make_timer()) {
  if (!timer_->clock_missing().empty())
    notes_.push_back("the device's clock is not known, so no sample is left out for it: " +
                     timer_->clock_missing());
}

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

void TimedDevice::wait() {
  guarded([&] { device_.synchronize(); });
}
void TimedDevice::fetch() {
  guarded([&] {
    if (!trespass_) trespass_ = tensors_.trespass();  // the next upload writes over it
    tensors_.download_outputs();
  });
}

void TimedDevice::replay() {
  guarded([&] { recording_->enqueue(); });
}

void TimedDevice::stop_replaying(const std::string& why) {
  recording_.reset();
  notes_.push_back(fmt::format("runs are brief, but were timed one by one, not replayed: {}", why));
}

// Where a run can be recorded, and the recording does a run's work.
void TimedDevice::record(const DeviceRuns& runs, int64_t times) {
  std::string why;
  attest_status status = ATTEST_OK;
  try {
    recording_ = device_.record([&] {
      for (int64_t i = 0; i < times && status == ATTEST_OK; ++i) status = runs.run();
    });
  } catch (const DeviceError& error) {
    why = error.what();
  }
  if (status != ATTEST_OK) why = "a run that is recorded fails";
  recorded_runs_ = times;
  if (why.empty() && !runs.agrees()) why = "a replay gives something else than a run";
  if (why.empty()) return;
  stop_replaying(why);
  // CUDA's runtime keeps an error until somebody asks for it: this run reports what the recording
  // left.
  runs.run();
  guarded([&] { device_.synchronize(); });
}

DeviceSample TimedDevice::sample(const TimingRequest& request, const DeviceRuns& runs,
                                 int64_t times, bool cold) {
  DeviceSample sample;
  if (request.before) request.before();
  runs.change();
  guarded([&] {
    if (recording_ && !cold) {
      sample = timer_->sample([&] { recording_->enqueue(); }, 1, false);
      sample.run_ns /= double(recorded_runs_);
    } else {
      sample = timer_->sample(request.run, times, cold);
      launches_ns_.push_back(sample.launch_ns);
    }
  });
  return sample;
}

// The first launch may load its kernel, which waits for the device: not behind a closed gate.
double TimedDevice::warm_up(const TimingRequest& request, const DeviceRuns& runs) {
  const auto start = Clock::now();
  guarded([&] {
    request.run();
    device_.synchronize();
  });
  double run_ns = std::numeric_limits<double>::max();  // the shortest: others may hold up the host
                                                       // while it enqueues
  do run_ns = std::min(run_ns, sample(request, runs, 1, false).run_ns);
  while (fault_.empty() && run_ns < request.slow_ns &&
         nanoseconds_since(start) < std::min(50 * kBlock_ns, 0.1 * request.budget_ns));
  return run_ns;
}

// What was taken before a replay turned out not to be a run is no sample.
void TimedDevice::sample_warm(const TimingRequest& request, const DeviceRuns& runs, double run_ns,
                              DeviceTiming& timed) {
  const StopRule rule{.budget_ns = (1 - kColdShare) * request.budget_ns,
                      .precision = request.precision,
                      .slow_ns = request.slow_ns};
  timed.timing.iterations_per_sample = runs_in_a_block(run_ns, DeviceTimer::kMostEnqueued);
  std::vector<ClockedSample> samples;
  bool replayed = replays();
  for (const auto start = Clock::now(); fault_.empty();) {
    if (rule.enough(at_full_clock(samples), nanoseconds_since(start))) {
      if (!replays() || runs.agrees()) break;
      stop_replaying("a replay gave something else than a run");
    }
    const DeviceSample one = sample(request, runs, timed.timing.iterations_per_sample, false);
    if (replayed && !replays()) {
      samples.clear();
      replayed = false;
    }
    samples.push_back({one.run_ns, one.clock_mhz});
  }
  if (replayed) timed.timing.iterations_per_sample = timed.replayed_runs = recorded_runs_;
  timed.timing.warm_ns = at_full_clock(samples);
  timed.discarded_samples = int64_t(samples.size() - timed.timing.warm_ns.size());
  timed.clock_mhz = median_mhz(samples);
  recording_.reset();
}

// Each run after a walk over the cache, so that a recording of several is of no use.
void TimedDevice::sample_cold(const TimingRequest& request, const DeviceRuns& runs,
                              DeviceTiming& timed) {
  const StopRule rule{.budget_ns = kColdShare * request.budget_ns,
                      .precision = request.precision,
                      .most_samples = kMostColdSamples,
                      .slow_ns = request.slow_ns};
  for (const auto start = Clock::now();
       fault_.empty() && !rule.enough(timed.timing.cold_ns, nanoseconds_since(start));)
    timed.timing.cold_ns.push_back(sample(request, runs, 1, true).run_ns);
}

DeviceTiming TimedDevice::measure(const TimingRequest& request, const DeviceRuns& runs) {
  DeviceTiming timed;
  const auto start = Clock::now();
  const double run_ns = warm_up(request, runs);
  timed.timing.warmup_ns = nanoseconds_since(start);
  const bool slow = run_ns >= request.slow_ns;
  if (!slow && fault_.empty() && sample(request, runs, 1, true).run_ns < kBrief_ns)
    record(runs, runs_in_a_block(run_ns, kMostRecorded));
  sample_warm(request, runs, run_ns, timed);
  if (!slow) sample_cold(request, runs, timed);
  if (!launches_ns_.empty()) timed.launch_ns = summarise(launches_ns_).median;
  return timed;
}

}  // namespace attest::core
