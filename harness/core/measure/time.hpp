// Times a function: warm and cold samples, Google Benchmark driving the loop, the stop rule ours.
//
//   TimingRequest request{.run = [&] { table.run(plan, data, workspace, nullptr); }};
//   request.budget_ns = 0.25e9;
//   const Timing timing = measure_time(request);
//   const Summary warm = summarise(timing.warm_ns);
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

namespace attest::core {

struct TimingRequest {
  std::function<void()> run;     // one iteration; called between 2 and many times
  std::function<void()> before;  // untimed, before each sample, but spends the budget; may be empty
  double expected_ns = 0;        // of one run, as seen before; 0: not known
  double budget_ns = 0;          // of all timed runs together
  double precision = 0.01;  // half width of the median's interval, relative, that is good enough
  // a run longer than this is timed twice and neither warmed up nor timed cold
  double slow_ns = 1e9;
  bool cold = true;                     // time with empty caches too
  uint64_t last_level_cache_bytes = 0;  // 0: ask the system
};

struct Timing {
  std::vector<double> warm_ns;  // one run each: the mean of a block of iterations_per_sample
  std::vector<double> cold_ns;  // one run each, after a walk over twice the last-level cache
  int64_t iterations_per_sample = 1;
  double warmup_ns = 0;
};

/// At least two warm samples; then stops when the median is precise enough or the budget is spent.
/// Cold samples get a tenth of the budget, and are two at least. A block is one run from 10 ms a
/// run up, else as many as take about 10 ms. Prints nothing, and no BENCHMARK_* variable of the
/// environment changes it. Not for two threads at once, and not beside other benchmarks registered
/// with Google Benchmark: its registry is global, and is cleared.
/// Throws Error where Google Benchmark ran nothing.
Timing measure_time(const TimingRequest& request);

}  // namespace attest::core
