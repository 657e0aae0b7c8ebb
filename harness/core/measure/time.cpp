#include "core/measure/time.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <map>

#include "core/measure/caches.hpp"
#include "core/measure/stop_rule.hpp"
#include "core/tensor/error.hpp"
#include "core/tensor/stopwatch.hpp"

namespace attest::core {
namespace {

constexpr double kBlock_ns = 10e6;  // shorter runs are repeated until a block lasts so long
constexpr int64_t kMostIterations = 100000;
constexpr size_t kMostColdSamples = 30;
constexpr double kColdShare = 0.1;  // of the budget, for cold samples with their flushes

// Google Benchmark takes flags from BENCHMARK_* variables: repetitions, list_tests or out would
// change or end the timing.
void reset_flags() {
  const char* arguments[] = {"attest",
                             "--benchmark_list_tests=false",
                             "--benchmark_repetitions=1",
                             "--benchmark_min_warmup_time=0",
                             "--benchmark_dry_run=false",
                             "--benchmark_enable_random_interleaving=false",
                             "--benchmark_out=",
                             "--benchmark_perf_counters=",
                             "--v=0",
                             nullptr};
  int count = int(std::size(arguments)) - 1;
  benchmark::Initialize(&count, const_cast<char**>(arguments));
}

// Keeps what Google Benchmark reports of one block.
class Collector final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      iterations += run.iterations;
      seconds += run.real_accumulated_time;
    }
  }
  int64_t iterations = 0;
  double seconds = 0;
};

// A benchmark of blocks of `iterations` runs with manual time, registered while this lives.
class Blocks {
 public:
  Blocks(const TimingRequest& request, int64_t iterations) : iterations_(iterations) {
    static const bool once = (reset_flags(), true);
    (void)once;
    benchmark::ClearRegisteredBenchmarks();
    benchmark::RegisterBenchmark("attest",
                                 [&request, iterations](benchmark::State& state) {
                                   while (state.KeepRunningBatch(iterations)) {
                                     const auto start = Clock::now();
                                     for (int64_t i = 0; i < iterations; ++i) request.run();
                                     state.SetIterationTime(nanoseconds_since(start) * 1e-9);
                                   }
                                 })
        ->UseManualTime()
        ->Iterations(iterations);
  }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;
  ~Blocks() { benchmark::ClearRegisteredBenchmarks(); }

  /// Runs one block; nanoseconds a run.
  double sample() {
    Collector collector;
    benchmark::RunSpecifiedBenchmarks(&collector, nullptr, "attest");
    if (collector.iterations != iterations_)
      throw Error("Google Benchmark did not run the block that it was given");
    return collector.seconds * 1e9 / double(iterations_);
  }

 private:
  int64_t iterations_;
};

// Runs until a block's time has passed, once at least, a slow one once; the shortest run, or a
// quarter of the mean where that is more: where some runs do nothing, a block must not become
// endless.
double warm_up(const TimingRequest& request, double& warmup_ns) {
  const auto start = Clock::now();
  double shortest_ns = 0, total_ns = 0;
  int64_t runs = 0;
  do {
    if (request.before) request.before();
    const auto run_start = Clock::now();
    request.run();
    const double run_ns = nanoseconds_since(run_start);
    total_ns += run_ns;
    ++runs;
    shortest_ns = shortest_ns == 0 ? run_ns : std::min(shortest_ns, run_ns);
  } while (shortest_ns <= request.slow_ns &&
           nanoseconds_since(start) < std::min(kBlock_ns, 0.1 * request.budget_ns));
  warmup_ns = nanoseconds_since(start);
  return std::max(shortest_ns, total_ns / double(4 * runs));
}

void sample_warm(const TimingRequest& request, const StopRule& rule, Timing& timing) {
  Blocks blocks(request, timing.iterations_per_sample);
  double spent_ns = 0;
  while (!rule.enough(timing.warm_ns, spent_ns)) {
    const auto start = Clock::now();
    if (request.before) request.before();
    spent_ns += nanoseconds_since(start);
    timing.warm_ns.push_back(blocks.sample());
    spent_ns += timing.warm_ns.back() * double(timing.iterations_per_sample);
  }
}

void sample_cold(const TimingRequest& request, const StopRule& rule, Timing& timing) {
  // Kept from case to case: touching its pages for the first time takes longer than many flushes.
  static std::map<uint64_t, CacheFlusher> flushers;
  CacheFlusher& flusher =
      flushers.try_emplace(request.last_level_cache_bytes, request.last_level_cache_bytes)
          .first->second;
  const auto start = Clock::now();  // flushing counts: it is what takes the time
  Blocks blocks(request, 1);
  while (!rule.enough(timing.cold_ns, nanoseconds_since(start))) {
    if (request.before) request.before();
    flusher.flush();
    timing.cold_ns.push_back(blocks.sample());
  }
}

}  // namespace

Timing measure_time(const TimingRequest& request) {
  Timing timing;
  const bool known_slow = request.expected_ns > request.slow_ns;
  const double run_ns = known_slow ? request.expected_ns : warm_up(request, timing.warmup_ns);
  const bool slow = run_ns > request.slow_ns;
  if (!slow && run_ns < kBlock_ns) {
    // At least a dozen blocks in a small budget, so that the median's interval means something.
    const double block_ns = std::min(kBlock_ns, request.budget_ns / 12);
    timing.iterations_per_sample =
        std::clamp<int64_t>(int64_t(block_ns / std::max(run_ns, 1.0)), 1, kMostIterations);
  }
  StopRule rule{.budget_ns = (request.cold ? 1 - kColdShare : 1.0) * request.budget_ns,
                .precision = request.precision,
                .slow_ns = request.slow_ns};
  if (slow) rule.most_samples = rule.most_slow_samples;
  sample_warm(request, rule, timing);
  if (!request.cold || slow) return timing;
  rule.budget_ns = kColdShare * request.budget_ns;
  rule.most_samples = kMostColdSamples;
  sample_cold(request, rule, timing);
  return timing;
}

}  // namespace attest::core
