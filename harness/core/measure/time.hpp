// Times a function: warm and cold samples, Google Benchmark driving the loop, the stop rule ours.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

namespace attest::core {

struct TimingRequest {
  std::function<void()> run;      // one iteration; called between 3 and many times
  double expected_ns = 0;         // of one run, as seen before
  double budget_ns = 0;           // of all timed runs together
  double precision = 0.01;        // half width of the median's interval, relative, that is good enough
  double slow_ns = 1e9;           // a run longer than this is timed twice and neither warmed up nor timed cold
  uint64_t last_level_cache_bytes = 0;  // 0: ask the system
};

struct Timing {
  std::vector<double> warm_ns;    // one run each: the mean of a block of iterations_per_sample
  std::vector<double> cold_ns;    // one run each, after a walk over twice the last-level cache
  int64_t iterations_per_sample = 1;
  double warmup_ns = 0;
};

/// At least two warm samples; then stops when the median is precise enough or the budget is spent. Cold samples get at most a
/// quarter of the budget. Prints nothing. Not for two threads at once (Google Benchmark's registry is global).
Timing measure_time(const TimingRequest& request);

}  // namespace attest::core
