// A UsageMeter counts the page faults, context switches, migrations and processor events of the
// process that it runs in. It counts during samples, not between them.
//
//   UsageMeter meter;
//   for (...) { meter.begin(); sample(); meter.end(); }
//   record(meter.usage());
#pragma once
#include <filesystem>
#include <functional>

#include "core/device/host_usage.hpp"
#include "core/measure/hardware_counters.hpp"

namespace attest::core {

/// What getrusage has counted for all threads of this process since the process began.
struct UsageCounts {
  int64_t minor_faults = 0, major_faults = 0, voluntary_switches = 0, preemptions = 0;
};
UsageCounts read_usage();

class UsageMeter {
 public:
  /// `proc` is the folder of this process in /proc. Tests replace it and `read`.
  explicit UsageMeter(std::function<UsageCounts()> read = read_usage,
                      std::filesystem::path proc = "/proc/self",
                      CounterSystem counters = host_counters());

  void begin();
  /// Ends the sample that begin() began.
  void end();
  /// Returns the counts of all samples so far.
  HostUsage usage() const;

 private:
  std::function<UsageCounts()> read_;
  std::filesystem::path proc_;
  UsageCounts before_;
  int64_t samples_ = 0;
  std::optional<int64_t> migrations_before_;
  HostUsage usage_;
  HardwareCounters counters_;
};

}  // namespace attest::core
