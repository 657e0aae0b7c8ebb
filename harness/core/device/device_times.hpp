// What samples say beside their times where a device's own clock measured them.
#pragma once
#include <cstdint>

namespace attest::core {

/// A sample is one replay of several recorded runs, or one run.
struct DeviceTimes {
  int64_t replayed_runs = 0;      // runs in a recording; 0: runs were launched one by one
  int64_t discarded_samples = 0;  // warm samples that do not count, since the clock had fallen by
                                  // more than 10 %
  double launch_ns = 0;           // the host's time to enqueue one run, median; it is in no sample
  double clock_mhz = 0;  // clock of the multiprocessors in warm samples, median; 0: not known
};

/// As tensor/walk.hpp says.
template <class Visit>
void walk(DeviceTimes& times, Visit&& visit) {
  visit("replayed_runs", times.replayed_runs);
  visit("discarded_samples", times.discarded_samples);
  visit("launch_ns", times.launch_ns);
  visit("clock_mhz", times.clock_mhz);
}

}  // namespace attest::core
