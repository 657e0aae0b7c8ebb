// What the system did to an implementation's process while it was timed on the host.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace attest::core {

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
};

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
}

}  // namespace attest::core
