// What the system did to an implementation's process while it was timed on the host.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace attest::core {

/// Of the warm samples together, and of all threads. What lies between samples does not count,
/// except for migrations.
struct HostUsage {
  int64_t minor_faults = 0;                // pages that were there, or were made
  int64_t major_faults = 0;                // pages that had to be read from disk
  int64_t voluntary_switches = 0;          // a thread waited, and gave its core up
  int64_t preemptions = 0;                 // a thread had to leave its core to another
  std::vector<int64_t> preempted_samples;  // the samples with preemptions, from 0
  std::optional<int64_t> migrations;       // from core to core, over all samples
  std::string no_migrations;               // why they are not known
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
