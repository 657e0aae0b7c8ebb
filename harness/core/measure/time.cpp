#include "core/measure/time.hpp"

#include <algorithm>
#include <map>

#include "core/measure/machine/caches.hpp"
#include "core/measure/stop_rule.hpp"
#include "core/measure/usage.hpp"
#include "core/tensor/stopwatch.hpp"

namespace attest::core {
namespace {

constexpr double kBlock_ns = 10e6;  // shorter runs are repeated until a block lasts so long
constexpr int64_t kMostIterations = 100000;
constexpr size_t kMostColdSamples = 30;
constexpr double kColdShare = 0.1;  // of the budget, for cold samples with their flushes

// Runs one block and returns the nanoseconds of one run. The calls go through std::function into a
// plugin, so that the compiler can neither drop nor merge them.
double time_block(const TimingRequest& request, int64_t iterations) {
  const auto start = Clock::now();
  for (int64_t i = 0; i < iterations; ++i) request.run();
  return nanoseconds_since(start) / double(iterations);
}

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
  double spent_ns = 0;
  UsageMeter meter;
  while (!rule.enough(timing.warm_ns, spent_ns)) {
    const auto start = Clock::now();
    if (request.before) request.before();
    spent_ns += nanoseconds_since(start);
    meter.begin();
    timing.warm_ns.push_back(time_block(request, timing.iterations_per_sample));
    meter.end();
    spent_ns += timing.warm_ns.back() * double(timing.iterations_per_sample);
  }
  timing.usage = meter.usage();
}

void sample_cold(const TimingRequest& request, const StopRule& rule, Timing& timing) {
  // Kept from case to case: getting its pages takes longer than many flushes.
  static std::map<uint64_t, CacheFlusher> flushers;
  const uint64_t cache_bytes = request.last_level_cache_bytes;
  CacheFlusher& flusher =
      flushers.try_emplace(cache_bytes, cache_bytes, request.flush_file).first->second;
  const auto start = Clock::now();  // flushing counts: it is what takes the time
  while (!rule.enough(timing.cold_ns, nanoseconds_since(start))) {
    if (request.before) request.before();
    flusher.flush();
    timing.cold_ns.push_back(time_block(request, 1));
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
