#include "core/measure/time.hpp"

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/measure/statistics.hpp"

namespace attest::core {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kBlock_ns = 10e6;        // shorter runs are repeated until a block lasts so long
constexpr int64_t kMostIterations = 100000;
constexpr size_t kLeastSamples = 2, kMostSamples = 1000;
constexpr size_t kMostColdSamples = 30;

double since(Clock::time_point start) { return std::chrono::duration<double, std::nano>(Clock::now() - start).count(); }

class Silent final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

// Has Google Benchmark call `sample` until it says that it is done; each call is one iteration with manual time.
void drive(const std::function<double()>& sample, const std::function<bool()>& enough) {
  benchmark::ClearRegisteredBenchmarks();
  benchmark::RegisterBenchmark("attest", [&](benchmark::State& state) {
    for (auto _ : state) state.SetIterationTime(sample() * 1e-9);
  })->UseManualTime()->Iterations(1);
  Silent silent;
  while (!enough()) benchmark::RunSpecifiedBenchmarks(&silent, ".*");
  benchmark::ClearRegisteredBenchmarks();
}

bool precise(const std::vector<double>& samples, double precision) {
  const Summary s = summarise(samples);
  return s.coverage >= 0.95 && s.median_high - s.median_low <= 2 * precision * s.median;
}

size_t last_level_cache() {
  long size = sysconf(_SC_LEVEL3_CACHE_SIZE);
  if (size <= 0) size = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return size > 0 ? size_t(size) : size_t{32} << 20;
}

// Walks over memory so that what the run reads next comes from outside the caches.
class Flusher {
 public:
  explicit Flusher(size_t cache_bytes) : memory_(std::clamp<size_t>(2 * cache_bytes, 8u << 20, 512u << 20)) {}
  void flush() {
    for (size_t i = 0; i < memory_.size(); i += 64) ++memory_[i];
    benchmark::ClobberMemory();
  }

 private:
  std::vector<unsigned char> memory_;
};

}  // namespace

Timing measure_time(const TimingRequest& request) {
  Timing timing;
  auto block = [&](int64_t iterations) {
    const auto start = Clock::now();
    for (int64_t i = 0; i < iterations; ++i) request.run();
    return since(start) / double(iterations);
  };

  const bool slow = request.expected_ns > request.slow_ns;
  double run_ns = request.expected_ns;
  if (!slow) {  // one warm-up run at least; a short one as often as a block is long
    const auto start = Clock::now();
    do run_ns = block(1);
    while (since(start) < std::min(kBlock_ns, 0.1 * request.budget_ns));
    timing.warmup_ns = since(start);
  }
  if (run_ns < kBlock_ns) timing.iterations_per_sample = std::clamp<int64_t>(int64_t(std::min(kBlock_ns, request.budget_ns / 12) / std::max(run_ns, 1.0)), 1, kMostIterations);

  double spent_ns = 0;
  drive(
      [&] {
        timing.warm_ns.push_back(block(timing.iterations_per_sample));
        spent_ns += timing.warm_ns.back() * double(timing.iterations_per_sample);
        return timing.warm_ns.back();
      },
      [&] {
        const size_t n = timing.warm_ns.size();
        if (n < kLeastSamples) return false;
        return slow || n >= kMostSamples || spent_ns >= 0.75 * request.budget_ns || precise(timing.warm_ns, request.precision);
      });

  if (slow) return timing;
  Flusher flusher(request.last_level_cache_bytes ? request.last_level_cache_bytes : last_level_cache());
  const auto cold_start = Clock::now();  // flushing counts: it is what takes the time
  drive(
      [&] {
        flusher.flush();
        timing.cold_ns.push_back(block(1));
        return timing.cold_ns.back();
      },
      [&] {
        const size_t n = timing.cold_ns.size();
        return n >= kLeastSamples && (n >= kMostColdSamples || since(cold_start) >= 0.25 * request.budget_ns || precise(timing.cold_ns, request.precision));
      });
  return timing;
}

}  // namespace attest::core
