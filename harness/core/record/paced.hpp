// What a record says of frames that a clock released, and of energy.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace attest::core {

/// A percentile of latencies (statistics/deadline.hpp).
struct PercentileRecord {
  double share = 0;  // 0.999
  double value_ns = 0, low_ns = 0, high_ns = 0, coverage = 0;
  std::optional<double> claimed_ns;  // absent: not supported by so few frames
  int64_t needed = 0;                // frames that support a claim, at least
  // Whether value_ns or high_ns is only a lower bound, because frames never ran
  bool value_at_least = false, high_at_least = false;

  /// Whether low_ns and high_ns are the ends of a 99 % interval: there are frames enough for one.
  bool has_interval() const { return coverage >= 0.99 - 1e-9; }
};

/// What became of the frames under one policy.
struct PolicyRecord {
  std::string policy;  // "queue-all": no frame is dropped; "latest-only": old frames are dropped
  int64_t frames = 0, dropped = 0;
  // Frames that arrived and would have had their turn after the series was cut
  int64_t never_ran = 0;
  int64_t missed = 0;  // frames that were dropped, never ran, or were later than the period
  double max_latency_ns = 0, max_age_ns = 0;  // age: of a frame when work on it begins
  std::vector<PercentileRecord> percentiles;  // of latencies from the scheduled arrival
};

/// The work of neighbours beside the frames.
struct NeighbourRecord {
  std::string name;  // "stream:2@5"
  double rate = 0;
  std::string unit;      // "GB/s"
  std::string remark{};  // why the rate is not what was asked for: "its process ended"
};

/// Frames that were released one a period.
struct PhaseRecord {
  std::vector<double> processing_time_ns, latency_ns;  // of each frame, as measured (queue-all)
  std::vector<PolicyRecord> policies;
  // Of other rates, "12": of the frames that ran, those missed if these processing times were
  // released so often
  std::map<std::string, int64_t> missed_by_hz;
  std::vector<NeighbourRecord> neighbours;  // empty: the implementation was alone
  // How long the clock that releases frames stood still in all, because attest itself captured
  // outputs or prepared inputs while a frame was due. In no latency.
  double clock_held_ns = 0;
};

struct PacedRecord {
  double period_ns = 0;  // and deadline
  PhaseRecord alone;
  std::optional<PhaseRecord> contended;
  // A percentile of latencies (queue-all), contended / alone: the highest one that has a claim in
  // both. With a 98 % interval where both percentiles have one of 99 %.
  std::optional<double> slowdown, slowdown_share, slowdown_low, slowdown_high;
  // Why the slowdown of a contended series is not known. It is empty if the slowdown is known, and
  // if no series is contended.
  std::string slowdown_refusal;
};

/// The energy of runs that follow one another, by one sensor.
struct EnergyRecord {
  std::string sensor, covers;
  std::string refusal;    // why nothing else is known; "": it is
  std::string method;     // "counter", or "power": polled and integrated
  double window_ns = 0;   // of the runs
  int64_t runs = 0;       // in the window
  double joules = 0;      // in the window
  double run_joules = 0;  // of one run
  double idle_watts_before = 0, idle_watts_after = 0;
  double net_run_joules = 0;            // of one run, without the mean idle power
  std::optional<double> polled_joules;  // in the window by power, where `joules` is a counter's
};

}  // namespace attest::core
