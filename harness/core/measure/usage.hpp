// Counts page faults, context switches and migrations of this process while it takes samples.
//
//   UsageMeter meter;
//   for (...) { meter.begin(); sample(); meter.end(); }
//   record(meter.usage());
#pragma once
#include <filesystem>
#include <functional>

#include "core/device/host_usage.hpp"

namespace attest::core {

/// Counts of this process since it began, of all its threads (getrusage).
struct UsageCounts {
  int64_t minor_faults = 0, major_faults = 0, voluntary_switches = 0, preemptions = 0;
};
UsageCounts read_usage();

class UsageMeter {
 public:
  /// `read` and `proc`, the folder of this process in /proc, are others in tests.
  explicit UsageMeter(std::function<UsageCounts()> read = read_usage,
                      std::filesystem::path proc = "/proc/self");

  void begin() { before_ = read_(); }
  /// Ends the sample that begin() began.
  void end();
  /// Of all samples so far.
  HostUsage usage() const;

 private:
  std::function<UsageCounts()> read_;
  std::filesystem::path proc_;
  UsageCounts before_;
  int64_t samples_ = 0;
  std::optional<int64_t> migrations_before_;
  HostUsage usage_;
};

}  // namespace attest::core
