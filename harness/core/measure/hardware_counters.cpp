#include "core/measure/hardware_counters.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

namespace attest::core {
namespace {

namespace fs = std::filesystem;

constexpr std::array<uint64_t, 3> kEvents{PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_INSTRUCTIONS,
                                          PERF_COUNT_HW_CACHE_MISSES};

/// The leader of a group is turned on and off; the others are on whenever it is.
perf_event_attr event_of(size_t index) {
  perf_event_attr event{};
  event.type = PERF_TYPE_HARDWARE;
  event.size = sizeof(event);
  event.config = kEvents[index];
  event.disabled = index == 0;
  event.inherit = 1;         // to threads that this one starts
  event.exclude_kernel = 1;  // allowed up to perf_event_paranoid 2
  event.exclude_hv = 1;
  event.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  return event;
}

std::string refusal_of(int error, const CounterSystem& system) {
  switch (error) {
    case EACCES:
    case EPERM: {
      const std::optional<int> paranoid = system.paranoid();
      return fmt::format(
          "perf_event_open is not allowed{}: sysctl kernel.perf_event_paranoid=2, or "
          "a container whose seccomp profile has this call",
          paranoid ? fmt::format(" (kernel.perf_event_paranoid is {})", *paranoid) : "");
    }
    case ENOENT:
    case EOPNOTSUPP:
    case ENODEV:
      return "the processor shows no counters of cycles here, as in many virtual machines";
    case ENOSYS: return "this kernel has no perf_event_open";
    default: return fmt::format("perf_event_open: {}", std::strerror(error));
  }
}

std::vector<pid_t> threads_of(const fs::path& proc) {
  std::vector<pid_t> threads;
  std::error_code error;
  for (fs::directory_iterator at(proc / "task", error), end; !error && at != end;
       at.increment(error))
    threads.push_back(pid_t(std::strtol(at->path().filename().c_str(), nullptr, 10)));
  std::ranges::sort(threads);
  return threads;
}

}  // namespace

CounterSystem host_counters() {
  return {.open =
              [](const perf_event_attr& event, pid_t thread, int group) {
                perf_event_attr own = event;  // the kernel may write its size
                const long fd =
                    syscall(SYS_perf_event_open, &own, thread, -1, group, PERF_FLAG_FD_CLOEXEC);
                return fd < 0 ? -errno : int(fd);
              },
          .read =
              [](int counter, CounterSystem::Reading& reading) {
                return read(counter, &reading, sizeof(reading)) == ssize_t(sizeof(reading));
              },
          .turn =
              [](int counter, bool on) {
                ioctl(counter, on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
              },
          .close = [](int counter) { close(counter); },
          .paranoid = []() -> std::optional<int> {
            std::ifstream file("/proc/sys/kernel/perf_event_paranoid");
            int level = 0;
            return file >> level ? std::optional(level) : std::nullopt;
          }};
}

HardwareCounters::HardwareCounters(CounterSystem system, const fs::path& proc)
    : system_(std::move(system)) {
  for (const pid_t thread : threads_of(proc)) {
    open_group(thread);
    if (!refusal_.empty()) break;
  }
  if (!refusal_.empty())
    close_all();
  else if (groups_.empty())
    refusal_ = fmt::format("{}/task names no threads", proc.string());
}

HardwareCounters::~HardwareCounters() { close_all(); }

void HardwareCounters::open_group(pid_t thread) {
  Group group{-1, -1, -1};
  for (size_t i = 0; i < group.size(); ++i) {
    const int counter = system_.open(event_of(i), thread, i == 0 ? -1 : group[0]);
    if (counter >= 0)
      group[i] = counter;
    else if (counter == -ESRCH && i == 0)
      return;  // the thread has ended
    else if (i == 0)
      refusal_ = refusal_of(-counter, system_);
    if (!refusal_.empty()) return;
  }
  groups_.push_back(group);
}

void HardwareCounters::turn(bool on) {
  for (const Group& group : groups_) system_.turn(group[0], on);
}

void HardwareCounters::close_all() {
  for (const Group& group : groups_)
    for (size_t i = group.size(); i-- > 0;)
      if (group[i] >= 0) system_.close(group[i]);
  groups_.clear();
}

std::optional<HardwareCounts> HardwareCounters::counts(std::string& reason) const {
  reason = refusal_;
  if (groups_.empty()) return {};
  HardwareCounts counts;
  double enabled_ns = 0, running_ns = 0;
  for (size_t i = 0; i < kEvents.size(); ++i) {
    std::optional<double> sum;
    for (const Group& group : groups_) {
      CounterSystem::Reading one;
      if (group[i] < 0) {
        sum.reset();
        break;  // a sum over some threads says nothing
      }
      if (!system_.read(group[i], one)) {
        reason = "a counter could not be read";
        return {};
      }
      if (i == 0) {
        enabled_ns += double(one.enabled_ns);
        running_ns += double(one.running_ns);
      }
      if (one.enabled_ns > 0 && one.running_ns == 0) {
        reason = "the counters of a thread were never free: other programs use them";
        return {};
      }
      const double scale = one.running_ns > 0 ? double(one.enabled_ns) / double(one.running_ns) : 0;
      sum = sum.value_or(0) + double(one.value) * scale;
    }
    (i == 0 ? counts.cycles : i == 1 ? counts.instructions : counts.cache_misses) = sum;
  }
  if (enabled_ns <= 0) {
    reason = "no thread that is counted ran in a sample";
    return {};
  }
  counts.counted_share = std::min(1.0, running_ns / enabled_ns);
  return counts;
}

}  // namespace attest::core
