// What the system did to an implementation's process while it was timed on the host.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor/walk.hpp"

namespace attest::core {

/// What the processor counted in user mode, over all threads and warm samples. Where more events
/// were wanted than it has counters, they took turns: the figures are then scaled up to the whole
/// time.
struct HardwareCounts {
  std::optional<double> cycles, instructions;
  std::optional<double> cache_misses;  // of the last level
  double counted_share = 1;            // of the time in which they were counted; below 1: scaled
};

/// Sums over all threads and all warm samples. What happens between samples does not count, but
/// migrations are counted from the beginning to the end of the measurement.
struct HostUsage {
  int64_t minor_faults = 0;                // a page was in memory, or was made there
  int64_t major_faults = 0;                // a page had to be read from disk
  int64_t voluntary_switches = 0;          // a thread gave up its core to wait
  int64_t preemptions = 0;                 // a thread had to leave its core to another
  std::vector<int64_t> preempted_samples;  // numbers of the samples with preemptions, from 0
  std::optional<int64_t> migrations;       // a thread moved from one core to another
  std::string no_migrations;               // why the migrations are not known
  std::optional<HardwareCounts> counters;
  std::string no_counters;  // why they are not known; empty too in records of an older attest
};

/// As tensor/walk.hpp says.
template <class Visit>
void walk(HardwareCounts& counts, Visit&& visit) {
  visit("cycles", counts.cycles);
  visit("instructions", counts.instructions);
  visit("cache_misses", counts.cache_misses);
  visit("counted_share", counts.counted_share);
}

/// As tensor/walk.hpp says.
template <class Visit>
void walk(HostUsage& usage, Visit&& visit) {
  visit("minor_faults", usage.minor_faults);
  visit("major_faults", usage.major_faults);
  visit("voluntary_switches", usage.voluntary_switches);
  visit("preemptions", usage.preemptions);
  visit("preempted_samples", usage.preempted_samples);
  visit("migrations", usage.migrations);
  visit("no_migrations", usage.no_migrations);
  visit("counters", usage.counters);
  visit("no_counters", LaterField{usage.no_counters});
}

}  // namespace attest::core
