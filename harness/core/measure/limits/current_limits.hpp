// The peak rates of a machine for as long as its state stays as it is. Rooflines of a throttled
// machine need the limits that it has now.
//
//   CurrentLimits limits(threads);
//   // after each case:
//   if (const std::string why = limits.renew(); !why.empty())
//     record.notes.push_back(why);
//   record.roofline = roofline_of(record, limits.probe());
#pragma once
#include <chrono>
#include <functional>
#include <string>

#include "core/measure/limits/probe.hpp"
#include "core/measure/machine/machine_state.hpp"

namespace attest::core {

class CurrentLimits {
 public:
  /// Measures the limits. `measure` does so instead of probe_machine(threads), for tests.
  explicit CurrentLimits(int threads, std::function<Probe()> measure = {});
  const Probe& probe() const { return probe_; }
  /// Measures the limits again if the state of the machine is not the one in which they were
  /// measured (see changed_limits). Measures them once more when nothing differs any longer,
  /// because a machine that was throttled may have cooled. Nothing is read or measured within 10 s
  /// of the last time: a probe takes half a second, and a machine may be throttled all the time.
  /// Returns a sentence with the reason and the new rates; "" if nothing was measured.
  std::string renew(std::chrono::steady_clock::time_point time = std::chrono::steady_clock::now());

 private:
  void measure(std::chrono::steady_clock::time_point time);

  std::function<Probe()> measure_;
  Probe probe_;
  MachineState state_;  // after the limits were measured
  std::chrono::steady_clock::time_point time_;
  bool was_renewed_ = false;  // the last time, because something differed
};

}  // namespace attest::core
