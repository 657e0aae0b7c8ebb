#include "core/measure/usage.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>

namespace attest::core {
namespace {

namespace fs = std::filesystem;

// Returns the migrations of one thread, or nothing: kernels without CONFIG_SCHED_DEBUG have no such
// file.
std::optional<int64_t> read_migrations_of(const fs::path& sched) {
  std::ifstream file(sched);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("se.nr_migrations")) continue;
    const size_t colon = line.find(':');
    try {
      return colon == line.npos ? std::nullopt : std::optional(std::stoll(line.substr(colon + 1)));
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

/// Returns the migrations of all threads that exist. A thread that has ended does not count.
std::optional<int64_t> read_migrations(const fs::path& proc) {
  std::optional<int64_t> all;
  std::error_code error;
  for (fs::directory_iterator at(proc / "task", error), end; !error && at != end;
       at.increment(error))
    if (const auto one = read_migrations_of(at->path() / "sched")) all = all.value_or(0) + *one;
  return all;
}

}  // namespace

UsageCounts read_usage() {
  rusage own{};
  getrusage(RUSAGE_SELF, &own);
  return {.minor_faults = own.ru_minflt,
          .major_faults = own.ru_majflt,
          .voluntary_switches = own.ru_nvcsw,
          .preemptions = own.ru_nivcsw};
}

UsageMeter::UsageMeter(std::function<UsageCounts()> read, fs::path proc, CounterSystem counters)
    : read_(std::move(read)),
      proc_(std::move(proc)),
      migrations_before_(read_migrations(proc_)),
      counters_(std::move(counters), proc_) {}

void UsageMeter::begin() {
  before_ = read_();
  counters_.begin();
}

void UsageMeter::end() {
  counters_.end();
  const UsageCounts after = read_();
  usage_.minor_faults += after.minor_faults - before_.minor_faults;
  usage_.major_faults += after.major_faults - before_.major_faults;
  usage_.voluntary_switches += after.voluntary_switches - before_.voluntary_switches;
  const int64_t preemptions = after.preemptions - before_.preemptions;
  usage_.preemptions += preemptions;
  if (preemptions > 0) usage_.preempted_samples.push_back(samples_);
  ++samples_;
}

HostUsage UsageMeter::usage() const {
  HostUsage usage = usage_;
  const std::optional<int64_t> now = read_migrations(proc_);
  if (now && migrations_before_)
    usage.migrations = std::max<int64_t>(0, *now - *migrations_before_);
  else
    usage.no_migrations =
        fmt::format("{}/task/*/sched has none: the kernel does not count them", proc_.string());
  usage.counters = counters_.counts(usage.no_counters);
  return usage;
}

}  // namespace attest::core
