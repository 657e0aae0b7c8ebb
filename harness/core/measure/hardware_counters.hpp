// HardwareCounters counts cycles, instructions and cache misses of this process by the kernel's
// perf_event_open, where it is allowed to.
//
//   HardwareCounters counters;
//   counters.begin(); sample(); counters.end();
//   std::string reason;
//   if (const auto counts = counters.counts(reason)) record(*counts); else say(reason);
#pragma once
#include <linux/perf_event.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/device/host_usage.hpp"

namespace attest::core {

/// The calls of the kernel. Tests replace them.
struct CounterSystem {
  /// What reading a counter returns. A counter that waits for its turn is enabled, but not running.
  struct Reading {
    uint64_t value = 0, enabled_ns = 0, running_ns = 0;
  };
  /// Opens a counter of one thread in the group of the counter `group`; -1 opens a group of its
  /// own. Returns a descriptor, or errno as a negative number.
  std::function<int(const perf_event_attr& event, pid_t thread, int group)> open;
  std::function<bool(int counter, Reading& reading)> read;
  std::function<void(int counter, bool on)> turn;
  std::function<void(int counter)> close;
  /// Returns kernel.perf_event_paranoid, or nothing if it is not known.
  std::function<std::optional<int>()> paranoid;
};
CounterSystem host_counters();

class HardwareCounters {
 public:
  /// Opens counters for all threads of this process. They count threads that start later, too.
  /// `proc` is the folder of this process in /proc.
  explicit HardwareCounters(CounterSystem system = host_counters(),
                            const std::filesystem::path& proc = "/proc/self");
  ~HardwareCounters();
  HardwareCounters(const HardwareCounters&) = delete;
  HardwareCounters& operator=(const HardwareCounters&) = delete;

  /// The counters run from begin() to end(). Both may be called again and again.
  void begin() { turn(true); }
  void end() { turn(false); }
  /// The counts so far, scaled where counters took turns. Returns nothing if there are none, and
  /// sets `reason`.
  std::optional<HardwareCounts> counts(std::string& reason) const;

 private:
  /// The descriptors for cycles, instructions and cache misses of one thread. A descriptor of -1
  /// stands for a figure that the processor does not count.
  using Group = std::array<int, 3>;
  void open_group(pid_t thread);
  void turn(bool on);
  void close_all();

  CounterSystem system_;
  std::vector<Group> groups_;
  std::string refusal_;
};

}  // namespace attest::core
