// Times a function, in warm and cold samples, until stop_rule.hpp has enough of them.
//
//   TimingRequest request{.run = [&] { table.run(plan, data, workspace, nullptr); }};
//   request.budget_ns = 0.25e9;
//   const Timing timing = measure_time(request);
//   const Summary warm = summarise(timing.warm_ns);
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/device/host_usage.hpp"
#include "core/measure/machine/caches.hpp"

namespace attest::core {

struct TimingRequest {
  std::function<void()> run;     // one iteration; called at least twice
  std::function<void()> before;  // called before each sample; spends the budget, but is not part of
                                 // the sample; may be empty
  double expected_ns = 0;        // time of an earlier run; 0: not known
  double budget_ns = 0;          // for all timed runs together
  double precision = 0.01;       // precise enough: half width of the median's interval / median
  // Longer runs are timed twice, without warm-up and without cold samples
  double slow_ns = 1e9;
  bool cold = true;                     // take cold samples too
  uint64_t last_level_cache_bytes = 0;  // 0: ask the system
  FlushFile flush_file{};               // of the first request; later ones take the same buffer
};

struct Timing {
  std::vector<double> warm_ns;  // time of one run: the mean of a block of iterations_per_sample
  std::vector<double> cold_ns;  // time of one run after a walk over twice the last-level cache
  int64_t iterations_per_sample = 1;
  double warmup_ns = 0;
  HostUsage usage;  // of the warm samples
};

/// Whether a budget of timed runs is as small as that of the default suite, which has to end soon.
constexpr bool is_small_budget(double budget_ns) { return budget_ns < 50e6; }

/// Whether timed runs with this budget take cold samples on the host. To empty large caches twice
/// takes longer than a small budget.
constexpr bool takes_cold_samples(double budget_ns) { return !is_small_budget(budget_ns); }

/// Runs longer than the budget are slow; the limit is at least 25 ms and at most 1 s.
constexpr double slow_run_ns(double budget_ns) { return std::clamp(budget_ns, 25e6, 1e9); }

/// Takes at least two warm samples, and stops when the median is precise enough or the budget is
/// spent. Cold samples get a tenth of the budget; there are at least two. A block has as many runs
/// as take about 10 ms, at least one. Only one thread at a time may call it.
Timing measure_time(const TimingRequest& request);

}  // namespace attest::core
